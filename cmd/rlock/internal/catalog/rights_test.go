package catalog

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// TestRights lists and shows everything as a user with the rights that the guide names, which are those to read. An error about them names
// the page that explains them.
func TestRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/guide/operating.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "`~* -@all +@read +@connection`")
	server := redistest.Start(t)
	admin := server.Client(t)
	client := newClient(t, admin)
	for _, of := range []handles.Any{
		client.NewLock("fenced", rlock.Fenced()), client.NewRWLock("read").Reader(), client.NewFairLock("fair"), client.NewSemaphore("permits", rlock.Total(1)),
	} {
		acquire(t, of)
	}
	wait(t, client, client.NewFairLock("fair"))
	wait(t, client, client.NewSemaphore("permits"))
	_, err = client.NewCountDownLatch("latch").TrySetCount(t.Context(), 2)
	require.NoError(t, err)
	works := func(rights ...string) error {
		rules := append([]any{"ACL", "SETUSER", "operator", "reset", "on", ">secret"}, anys(rights)...)
		require.NoError(t, admin.Do(t.Context(), rules...).Err())
		c := newCatalog(t, redistest.Open(t, &redis.Options{Addr: server.Addr, Username: "operator", Password: "secret"}))
		n := 0
		for _, err := range c.Find(t.Context(), Filter{}) {
			if err != nil {
				return err
			}
			n++
		}
		require.Equal(t, 4, n)
		for name, waiters := range map[string]int{"fenced": 0, "read": 0, "fair": 1, "permits": 1, "latch": -1} {
			d, err := c.Show(t.Context(), name)
			if err != nil {
				return err
			}
			if d.Waiters != waiters || d.Kind != Counter && (d.Holders != 1 || len(d.HolderList) != 1 || len(d.WaiterList) != waiters) {
				return fmt.Errorf("%s: %+v", name, d)
			}
		}
		return nil
	}
	require.NoError(t, works("~*", "-@all", "+@read", "+@connection"))
	for _, rights := range [][]string{{"~other:*", "+@read"}, {"~*", "+@read", "-type"}, {"~*", "+@read", "-scan"}, {"~*", "+@read", "-hscan"}} {
		require.ErrorContains(t, works(append(rights, "+@connection")...), "docs/guide/operating.md#the-command", rights)
	}
}

func anys(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

package catalog

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// TestRights lists and shows everything as a user with exactly the rights that the guide names. Without any one of them, something fails.
func TestRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/guide/operating.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)`(~\\* -@all [^`]*)`").FindSubmatch(text)
	require.NotNil(t, found)
	rights := strings.Fields(string(found[1]))
	server := redistest.Start(t)
	admin := server.Client(t)
	client := newClient(t, admin)
	for _, of := range []rlock.Acquirer{
		client.NewFencedLock("fenced"), client.NewRWLock("read").ReadLock(), client.NewFairLock("fair"), client.NewSemaphore("permits", rlock.Total(1)),
	} {
		acquire(t, of)
	}
	wait(t, client, client.NewFairLock("fair"))
	wait(t, client, client.NewSemaphore("permits"))
	works := func(rights []string) error {
		rules := append([]any{"ACL", "SETUSER", "operator", "reset", "on", ">secret"}, anys(rights)...)
		require.NoError(t, admin.Do(t.Context(), rules...).Err())
		rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, Username: "operator", Password: "secret"})
		c := newCatalog(t, rdb)
		n := 0
		for _, err := range c.Rows(t.Context(), "") {
			if err != nil {
				return err
			}
			n++
		}
		require.Equal(t, 4, n)
		for name, waiters := range map[string]int{"fenced": 0, "read": 0, "fair": 1, "permits": 1} {
			d, err := c.Show(t.Context(), name)
			if err != nil {
				return err
			}
			if d.Holders != 1 || d.Waiters != waiters {
				return fmt.Errorf("%s has %d waiters", name, d.Waiters)
			}
		}
		return nil
	}
	require.NoError(t, works(rights))
	for i, right := range rights[2:] {
		if right == "+hmget" { // without it, identities are missing
			continue
		}
		without := append(append([]string{}, rights[:2+i]...), rights[3+i:]...)
		require.Error(t, works(without), right)
	}
}

func anys(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

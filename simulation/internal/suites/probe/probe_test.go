// Package probe has tests that show the command suites to work: they run in virtual time only, by the tests of that command.
package probe

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
)

func TestMain(m *testing.M) {
	if host.Virtual {
		host.Main(m)
		os.Exit(m.Run())
	}
}

// TestTraffic has processes take turns, through a network that loses replies, for some time.
func TestTraffic(t *testing.T) {
	began := time.Now()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.DropReply(3, redistest.Named("evalsha"))
	inside, turns := 0, 0
	var all sync.WaitGroup
	for range 5 {
		client, err := rlock.New(redistest.Open(t, &redis.Options{Addr: proxy.Addr}))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		all.Go(func() {
			for range 20 {
				hold, err := client.NewLock("name").Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				inside++
				turns++
				if inside != 1 {
					t.Error("two hold it")
				}
				time.Sleep(time.Second)
				inside--
				_ = hold.Unlock(t.Context())
			}
		})
	}
	all.Wait()
	require.Equal(t, 100, turns)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Second)
}

func TestSubtests(t *testing.T) {
	var order []string
	t.Cleanup(func() {
		require.Equal(t, []string{"a", "end of a", "b", "end of b", "parent"}, order)
		require.Empty(t, t.Context().Value("none"))
	})
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, "TestSubtests/"+name, t.Name())
			require.DirExists(t, t.TempDir())
			ctx := t.Context()
			t.Cleanup(func() {
				require.Error(t, ctx.Err(), "it ends before the clean-ups")
				order = append(order, "end of "+name)
			})
			time.Sleep(time.Hour)
			order = append(order, name)
		})
	}
	order = append(order, "parent")
}

// The others do what a test should not.

func TestFails(t *testing.T) {
	t.Run("first", func(t *testing.T) {
		t.Cleanup(func() { fmt.Println("the end of first") })
		require.Fail(t, "as it should")
	})
	t.Run("second", func(*testing.T) { fmt.Println("second runs") })
}

func TestSpins(t *testing.T) {
	for began := time.Now(); time.Since(began) < time.Second; {
		_ = strings.Repeat("x", 10)
	}
	t.Fatal("time goes on")
}

func TestLeaks(*testing.T) {
	go func() { <-make(chan int) }()
}

func TestNeeds(t *testing.T) {
	t.Run("something", func(t *testing.T) {
		redistest.NeedsRealServer(t, "a kernel")
		t.Fatal("it runs in virtual time")
	})
	t.Run("too", func(t *testing.T) { redistest.OnRealServersToo(t, "a kernel") })
	t.Run("settings", func(t *testing.T) {
		redistest.Start(t, "--appendonly", "yes")
		t.Fatal("it runs in virtual time")
	})
}

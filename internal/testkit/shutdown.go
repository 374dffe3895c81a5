package testkit

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// Deployed is how many locks the process of [Deploy] holds.
const Deployed = 1000

func deployed(name string, i int) string { return fmt.Sprintf("%s:%d", name, i) }

// holdsUntilTerminated is the program of a process that holds many locks when it gets SIGTERM. It prints when its last section
// ended, and when Shutdown returned.
func holdsUntilTerminated(addr, name string) error {
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, _, err := connect.Open(redis.NewClient(&redis.Options{Addr: addr}))
	if err != nil {
		return err
	}
	var ready, all sync.WaitGroup
	var last atomic.Int64
	ready.Add(Deployed)
	for i := range Deployed {
		all.Go(func() {
			err := client.NewLock(deployed(name, i)).Do(context.Background(), func(ctx context.Context) error {
				ready.Done()
				<-ctx.Done()
				last.Store(time.Now().UnixNano())
				return nil
			})
			if err != nil {
				fmt.Println("a section failed:", err)
			}
		})
	}
	ready.Wait()
	fmt.Println("ready")
	<-terminated.Done()
	err = client.Shutdown(context.Background())
	returned := time.Now().UnixNano()
	all.Wait()
	fmt.Println(last.Load(), returned)
	return err
}

// Deploy has a process that holds [Deployed] locks get SIGTERM while this process waits for all of them. It returns how long
// after the end of the last section Shutdown returned there, and this process had the last lock.
func Deploy(tb testing.TB, addr string, client *rlock.Client) (shutdown, taken time.Duration) {
	tb.Helper()
	name := NewName()
	child := StartChild(tb, addr, "many", name)
	require.Equal(tb, "ready", child.Answer())
	locks := make([]*rlock.Lock, Deployed)
	var waiting sync.WaitGroup
	var last atomic.Int64
	for i := range locks {
		locks[i] = client.NewLock(deployed(name, i))
		waiting.Go(func() {
			if err := locks[i].Lock(context.Background(), rlock.Wait(ALongTime)); err != nil {
				tb.Errorf("lock %d: %v", i, err)
			}
			last.Store(time.Now().UnixNano())
		})
	}
	Eventually(tb, "all locks are waited for", func() bool {
		for _, l := range locks {
			if !Listens(l) || !Rests(l) {
				return false
			}
		}
		return true
	})
	require.NoError(tb, child.Cmd.Process.Signal(syscall.SIGTERM))
	var ended, returned int64
	_, err := fmt.Sscan(child.Answer(), &ended, &returned)
	require.NoError(tb, err)
	waiting.Wait()
	for _, l := range locks {
		require.NoError(tb, l.Unlock(tb.Context()))
	}
	return time.Duration(returned - ended), time.Duration(last.Load() - ended)
}

// WindUp has a client shut down while so many holders are in Do. It returns how many of them were told, and how long after the
// end of the slowest section Shutdown returned.
func WindUp(tb testing.TB, rdb redis.UniversalClient, holders int) (told int, late time.Duration) {
	tb.Helper()
	client, name := NewClient(tb, rdb), NewName()
	var ready, all sync.WaitGroup
	var count, slowest atomic.Int64
	ready.Add(holders)
	for i := range holders {
		all.Go(func() {
			err := client.NewLock(deployed(name, i)).Do(tb.Context(), func(ctx context.Context) error {
				ready.Done()
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), rlock.ErrClosed) {
					count.Add(1)
				}
				<-time.After(time.Duration(i) * 10 * time.Millisecond) // some need longer than others
				slowest.Store(time.Now().UnixNano())
				return nil
			})
			if err != nil {
				tb.Errorf("section %d: %v", i, err)
			}
		})
	}
	ready.Wait()
	require.NoError(tb, client.Shutdown(tb.Context()))
	late = time.Duration(time.Now().UnixNano() - slowest.Load())
	for i := range holders {
		require.Zero(tb, rdb.Exists(tb.Context(), deployed(name, i)).Val(), "lock %d is left", i)
	}
	all.Wait()
	return int(count.Load()), late
}

package interop_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// permitHolding holds the arguments of holdPermit.
type permitHolding struct {
	Addr, Name string
	Watchdog   time.Duration
}

// holdPermit takes a permit, prints a line, and keeps the permit until the process is killed.
func holdPermit(h permitHolding, _ <-chan string) error {
	locks, err := rlock.New(redis.NewClient(&redis.Options{Addr: h.Addr}), rlock.WithWatchdogTimeout(h.Watchdog))
	if err != nil {
		return err
	}
	hold, err := locks.NewSemaphore(h.Name, rlock.Total(1)).Acquire(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("acquired")
	<-hold.Done()
	return hold.Err()
}

// leaseOver waits until somebody has the permit of a process that was killed. That takes no less than what Redis says is left of the lease.
func leaseOver(t *testing.T, rdb *redis.Client, name string, got <-chan error, kill func()) {
	t.Helper()
	require.Empty(t, got)
	kill()
	killed := time.Now()
	leases := rdb.ZRangeWithScores(t.Context(), "{"+name+"}:timeout", 0, -1).Val()
	require.Len(t, leases, 1)
	now, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	left := time.UnixMilli(int64(leases[0].Score)).Sub(now)
	require.Positive(t, left, "it was renewed, or is not over")
	require.NoError(t, within(t, "the lease is over", got))
	require.Greater(t, time.Since(killed), left-10*time.Millisecond)
}

// TestPermitsOfKilledProcesses has each side take the permit of a process of the other side that was killed.
func TestPermitsOfKilledProcesses(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		rdb := server.Client(t)
		client := newClient(t, rdb, waitsForMessages()...)

		doomed := newJVM(t, v)
		thread := doomed.open(t, settings{}, server.Addr).thread(100)
		inGo := client.NewSemaphore(newName(), rlock.Total(1))
		_, err := inGo.Permits(t.Context())
		require.NoError(t, err)
		call[string](&javaSemaphore{T: t, thread: thread, name: inGo.Name()}, "acquire", lease(killedLease))
		got := make(chan error, 1)
		go func() {
			hold, err := inGo.Acquire(t.Context())
			if err == nil {
				err = hold.Unlock(t.Context())
			}
			got <- err
		}()
		eventually(t, "Go waits", func() bool { return client.Stats().Waiting == 1 })
		leaseOver(t, rdb, inGo.Name(), got, doomed.Kill)

		name := newName()
		child := startChild(t, "hold permit", permitHolding{server.Addr, name, killedLease})
		require.Equal(t, "acquired", child.reply())
		inJava := &javaSemaphore{T: t, thread: sharedJVM(t, v).open(t, settings{}, server.Addr).thread(100), name: name}
		waiting := askSemaphore[string](inJava, "acquire", lease(time.Minute))
		eventually(t, "Java waits", func() bool {
			return rdb.PubSubNumSub(t.Context(), "redisson_sc:{"+name+"}").Val()["redisson_sc:{"+name+"}"] == 1
		})
		taken := make(chan error, 1)
		go func() {
			_, err := await(waiting, aLongTime)
			taken <- err
		}()
		leaseOver(t, rdb, name, taken, child.kill)
	})
}

// TestSemaphoresOnCluster has both sides wake each other by PUBLISH and by SPUBLISH, by both sorts of semaphore.
func TestSemaphoresOnCluster(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		cluster := redistest.StartCluster(t)
		f := &fleet{Cluster: cluster, rdb: cluster.Client(t), java: sharedJVM(t, v), version: v}
		for _, m := range f.agreed() {
			java := f.java.open(t, settings{Sharded: m.java}, cluster.Options().Addrs...)
			client := newClient(t, f.rdb, waitsForMessages(m.options()...)...)
			listeners := func(name string) (n int64) {
				channel := "redisson_sc:{" + name + "}"
				for _, node := range cluster.Nodes {
					rdb := node.Client(t)
					n += rdb.PubSubNumSub(t.Context(), channel).Val()[channel] + rdb.PubSubShardNumSub(t.Context(), channel).Val()[channel]
				}
				return n
			}
			for _, plain := range []bool{false, true} {
				t.Run(fmt.Sprint(m, " plain ", plain), func(t *testing.T) {
					name := newName()
					inGo := takes(client, plain, name, 1)
					inJava := &javaSemaphore{T: t, thread: java.thread(100), name: name, plain: plain}
					wakeEachOther(t, inGo, inJava, func() bool { return listeners(name) > 0 })
				})
			}
		}
	})
}

// take acquires a permit, and returns what gives it back.
type take func(ctx context.Context) (giveBack func(context.Context) error, err error)

// takes returns what takes permits of a semaphore of either sort.
func takes(client *rlock.Client, plain bool, name string, total int) take {
	if plain {
		s := client.NewPlainSemaphore(name, rlock.Total(total))
		giveBack := func(ctx context.Context) error { return s.Release(ctx, 1) }
		return func(ctx context.Context) (func(context.Context) error, error) { return giveBack, s.Acquire(ctx) }
	}
	s := client.NewSemaphore(name, rlock.Total(total))
	return func(ctx context.Context) (func(context.Context) error, error) {
		hold, err := s.Acquire(ctx)
		return hold.Unlock, err
	}
}

// wakeEachOther has each side wait for the permit of the other one.
func wakeEachOther(t *testing.T, inGo take, inJava *javaSemaphore, listen func() bool) {
	t.Helper()
	release := func(id string) <-chan result[bool] {
		if inJava.plain {
			return askSemaphore[bool](inJava, "release", permits(1))
		}
		return askSemaphore[bool](inJava, "tryRelease", permit(id))
	}
	acquire := func() string { // the id of the permit, or nothing
		if inJava.plain {
			call[bool](inJava, "acquire", permits(1))
			return ""
		}
		return call[string](inJava, "acquire")
	}
	for range 3 {
		giveBack, err := inGo(t.Context())
		require.NoError(t, err)
		id := make(chan string, 1)
		go func() { id <- acquire() }()
		eventually(t, "Java listens", listen)
		require.NoError(t, giveBack(t.Context()))
		inJavasHands := within(t, "Go's release wakes Java", id)

		got := make(chan error, 1)
		go func() {
			giveBack, err := inGo(t.Context())
			if err == nil {
				err = giveBack(t.Context())
			}
			got <- err
		}()
		eventually(t, "Go listens", listen)
		_, err = await(release(inJavasHands), aLongTime)
		require.NoError(t, err)
		require.NoError(t, within(t, "Java's release wakes Go", got))
	}
}

// TestSemaphoreSoak has threads of a JVM and goroutines of two Go clients take the permits of one semaphore of each sort, for as long
// as RLOCK_SOAK says. There are never more holders than permits, and at the end all permits are free.
func TestSemaphoreSoak(t *testing.T) {
	text := os.Getenv("RLOCK_SOAK")
	if text == "" {
		t.Skip("needs RLOCK_SOAK, see make interop")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "RLOCK_SOAK")
	for _, v := range versions() {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprint("redisson ", v, " plain ", plain), func(t *testing.T) { soakSemaphore(t, v, plain, length) })
		}
	}
}

func soakSemaphore(t *testing.T, v version, plain bool, length time.Duration) {
	t.Helper()
	const total = 3
	server := redistest.Start(t)
	java := sharedJVM(t, v).open(t, settings{}, server.Addr)
	name := newName()
	var inside, most, inGo, inJava atomic.Int64
	enter := func(turns *atomic.Int64) {
		turns.Add(1)
		for now, high := inside.Add(1), most.Load(); now > high && !most.CompareAndSwap(high, now); high = most.Load() {
		}
	}
	free := func(c *rlock.Client) (int, error) { return c.NewSemaphore(name).AvailablePermits(t.Context()) }
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for range 2 {
		client := newClient(t, server.Client(t))
		acquire := takes(client, plain, name, total)
		if plain {
			free = func(c *rlock.Client) (int, error) { return c.NewPlainSemaphore(name).AvailablePermits(t.Context()) }
		}
		for range 4 {
			all.Go(func() {
				for ctx.Err() == nil {
					giveBack, err := acquire(t.Context())
					if err == nil {
						enter(&inGo)
						inside.Add(-1)
						err = giveBack(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	for i := range 4 {
		s := &javaSemaphore{T: t, thread: java.thread(200 + i), name: name, plain: plain}
		all.Go(func() {
			for ctx.Err() == nil {
				id := ""
				var err error
				if plain {
					_, err = await(askSemaphore[bool](s, "acquire", permits(1)), aLongTime)
				} else {
					id, err = await(askSemaphore[string](s, "acquire", lease(time.Minute)), aLongTime)
				}
				if err != nil {
					t.Error(err)
					return
				}
				enter(&inJava)
				inside.Add(-1)
				if plain {
					_, err = await(askSemaphore[bool](s, "release", permits(1)), aLongTime)
				} else {
					_, err = await(askSemaphore[bool](s, "tryRelease", permit(id)), aLongTime)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d turns in Go, %d in Java, at most %d at a time", inGo.Load(), inJava.Load(), most.Load())
	require.Positive(t, inJava.Load())
	require.Positive(t, inGo.Load())
	require.LessOrEqual(t, most.Load(), int64(total))
	n, err := free(newClient(t, server.Client(t)))
	require.NoError(t, err)
	require.Equal(t, total, n)
}

package interop_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// javaLatch is a count-down latch together with a thread.
type javaLatch struct {
	thread *javaThread
	name   string
}

func askLatch[T any](l *javaLatch, method string, opts ...javaOption) <-chan result[T] {
	r := l.thread.request("latch")
	r.Kind, r.Names = method, []string{l.name}
	for _, opt := range opts {
		opt(&r)
	}
	return ask[T](l.thread.client.jvm, r)
}

// TrySetCount calls trySetCount.
func (l *javaLatch) TrySetCount(n int64) (bool, error) {
	return await(askLatch[bool](l, "trySetCount", func(r *request) { r.Count = n }), aLongTime)
}

// CountDown calls countDown.
func (l *javaLatch) CountDown() error {
	_, err := await(askLatch[bool](l, "countDown"), aLongTime)
	return err
}

// Count calls getCount.
func (l *javaLatch) Count() (int64, error) { return await(askLatch[int64](l, "getCount"), aLongTime) }

// Delete calls delete.
func (l *javaLatch) Delete() (bool, error) { return await(askLatch[bool](l, "delete"), aLongTime) }

// AwaitAsync sends the request of await. Its option is wait.
func (l *javaLatch) AwaitAsync(opts ...javaOption) <-chan result[bool] {
	return askLatch[bool](l, "await", opts...)
}

func latchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// latches is one latch on both sides.
type latches struct {
	*testing.T
	java *redissonClient
	name string
	inGo *rlock.CountDownLatch
	// inJava belongs to a thread that does not wait.
	inJava *javaLatch
	// subscribers counts the clients that listen to the latch.
	subscribers func(channel string) int64
}

func newLatches(t *testing.T, java *redissonClient, client *rlock.Client, subscribers func(channel string) int64) *latches {
	t.Helper()
	name := newName()
	return &latches{t, java, name, client.NewCountDownLatch(name), &javaLatch{java.thread(100), name}, subscribers}
}

// awaited has both sides await the latch: two threads and two goroutines. It returns when messages reach both.
func (l *latches) awaited() (inGo <-chan error, inJava []<-chan result[bool]) {
	l.Helper()
	errs := make(chan error, 2)
	for i := range 2 {
		go func() { errs <- l.inGo.Await(l.Context()) }()
		inJava = append(inJava, (&javaLatch{l.java.thread(101 + i), l.name}).AwaitAsync())
	}
	eventually(l, "both sides listen", func() bool { return l.subscribers(latchChannel(l.name)) == 2 })
	return errs, inJava
}

// opens requires everybody to return. Only messages can wake them.
func (l *latches) opens(inGo <-chan error, inJava []<-chan result[bool]) {
	l.Helper()
	for range 2 {
		require.NoError(l, within(l, "a goroutine goes on", inGo))
	}
	for _, thread := range inJava {
		open, err := await(thread, aLongTime)
		require.NoError(l, err)
		require.True(l, open)
	}
}

// inJavaIs requires Java to see a count.
func (l *latches) inJavaIs(want int64) {
	l.Helper()
	count, err := l.inJava.Count()
	require.NoError(l, err)
	require.Equal(l, want, count)
}

func (l *latches) setInJava(n int64) {
	l.Helper()
	set, err := l.inJava.TrySetCount(n)
	require.NoError(l, err)
	require.True(l, set)
}

// round has both sides count a latch down that has this count. The last one is of Java, or of Go.
func (l *latches) round(count int64, lastInJava bool) {
	l.Helper()
	inGo, inJava := l.awaited()
	for ; count > 0; count-- {
		if (count%2 == 1) == lastInJava {
			require.NoError(l, l.inJava.CountDown())
			continue
		}
		left, err := l.inGo.CountDown(l.Context())
		require.NoError(l, err)
		require.Equal(l, count-1, left)
		l.inJavaIs(left)
	}
	l.opens(inGo, inJava)
	l.inJavaIs(0)
}

// waitsForMessages are the options of a Go client that does not poll during a test.
func waitsForMessages(more ...rlock.Option) []rlock.Option {
	return append([]rlock.Option{tune.PollInterval(never)}, more...)
}

func TestLatch(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		client := newClient(t, rdb, waitsForMessages()...)
		subscribers := func(channel string) int64 { return rdb.PubSubNumSub(t.Context(), channel).Val()[channel] }
		for _, lastInJava := range []bool{true, false} {
			l := newLatches(t, java, client, subscribers)
			l.setInJava(4)
			set, err := l.inGo.TrySetCount(t.Context(), 7)
			require.NoError(t, err)
			require.False(t, set)
			l.round(4, lastInJava)

			l = newLatches(t, java, client, subscribers)
			set, err = l.inGo.TrySetCount(t.Context(), 3)
			require.NoError(t, err)
			require.True(t, set)
			l.inJavaIs(3)
			set, err = l.inJava.TrySetCount(7)
			require.NoError(t, err)
			require.False(t, set)
			l.round(3, lastInJava)
		}
		l := newLatches(t, java, client, subscribers)
		require.NoError(t, l.inJava.CountDown())
		left, err := l.inGo.CountDown(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		l.inJavaIs(0)
		open, err := await(l.inJava.AwaitAsync(), aLongTime)
		require.NoError(t, err)
		require.True(t, open)
		require.NoError(t, l.inGo.Await(t.Context()))
	})
}

// TestLatchSoak has threads of a JVM and goroutines of two Go clients set a latch, await it, and count it down, one latch after the
// other, for as long as RLOCK_SOAK says. One of them sets it, each call counts once, and all go on.
func TestLatchSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("RLOCK_SOAK"))
	if err != nil {
		t.Skip("needs RLOCK_SOAK, see make interop")
	}
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		clients := []*rlock.Client{newClient(t, server.Client(t)), newClient(t, server.Client(t))}
		rounds := 0
		for end := time.Now().Add(length); time.Now().Before(end); rounds++ {
			soakLatch(t, java, clients, newName())
		}
		t.Logf("%d latches", rounds)
	})
}

func soakLatch(t *testing.T, java *redissonClient, clients []*rlock.Client, name string) {
	t.Helper()
	const each = 3 // calls of each side
	var set atomic.Int64
	var setting, all sync.WaitGroup
	both := func(group *sync.WaitGroup, n int, inGo func(*rlock.CountDownLatch) error, inJava func(*javaLatch) error, thread int) {
		for i := range n {
			group.Go(func() { assert.NoError(t, inGo(clients[i%len(clients)].NewCountDownLatch(name))) })
			group.Go(func() { assert.NoError(t, inJava(&javaLatch{java.thread(thread + i), name})) })
		}
	}
	count := func(ok bool, err error) error {
		if ok {
			set.Add(1)
		}
		return err
	}
	both(&setting, 1, func(l *rlock.CountDownLatch) error { return count(l.TrySetCount(t.Context(), 2*each)) },
		func(l *javaLatch) error { return count(l.TrySetCount(2 * each)) }, 300)
	setting.Wait()
	require.EqualValues(t, 1, set.Load())
	both(&all, 2, func(l *rlock.CountDownLatch) error { return l.Await(t.Context()) }, func(l *javaLatch) error {
		_, err := await(l.AwaitAsync(), aLongTime)
		return err
	}, 310)
	both(&all, each, func(l *rlock.CountDownLatch) error {
		_, err := l.CountDown(t.Context())
		return err
	}, (*javaLatch).CountDown, 320)
	all.Wait()
	left, err := clients[0].NewCountDownLatch(name).Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
}

// TestDeletedLatch: Go returns at once. Redisson's await without a limit never does, whoever deletes the latch. One with a limit
// looks at the end of it.
func TestDeletedLatch(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		client := newClient(t, rdb, waitsForMessages()...)
		for _, inJava := range []bool{true, false} {
			l := newLatches(t, java, client, func(channel string) int64 { return rdb.PubSubNumSub(t.Context(), channel).Val()[channel] })
			l.setInJava(2)
			limited := (&javaLatch{java.thread(101), l.name}).AwaitAsync(wait(2 * time.Second))
			errs := make(chan error, 1)
			go func() { errs <- l.inGo.Await(t.Context()) }()
			eventually(t, "both sides listen", func() bool { return l.subscribers(latchChannel(l.name)) == 2 })
			if inJava {
				deleted, err := l.inJava.Delete()
				require.NoError(t, err)
				require.True(t, deleted)
			} else {
				deleted, err := newClient(t, rdb).NewCountDownLatch(l.name).Delete(t.Context())
				require.NoError(t, err)
				require.True(t, deleted)
			}
			require.NoError(t, within(t, "Go returns", errs))
			open, err := await(limited, aLongTime)
			require.NoError(t, err)
			require.True(t, open)
		}
	})
}

// TestLatchOnCluster has both sides hear each other by PUBLISH and by SPUBLISH.
func TestLatchOnCluster(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		cluster := redistest.StartCluster(t)
		f := &fleet{Cluster: cluster, rdb: cluster.Client(t), java: sharedJVM(t, v), version: v}
		var nodes []*redis.Client
		for _, node := range cluster.Nodes {
			nodes = append(nodes, node.Client(t))
		}
		for _, m := range f.agreed() {
			java := f.java.open(t, settings{Sharded: m.java}, cluster.Options().Addrs...)
			client := newClient(t, f.rdb, waitsForMessages(m.options()...)...)
			subscribers := func(channel string) (n int64) {
				for _, node := range nodes {
					n += node.PubSubNumSub(t.Context(), channel).Val()[channel] + node.PubSubShardNumSub(t.Context(), channel).Val()[channel]
				}
				return n
			}
			for i := range 4 {
				t.Run(fmt.Sprint(m, " ", i), func(t *testing.T) {
					l := newLatches(t, java, client, subscribers)
					l.setInJava(2)
					l.round(2, i%2 == 0)
				})
			}
		}
	})
}

package pubsub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/goredis"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/task"
)

// realHub is a hub on a real server.
type realHub struct {
	*Hub

	base, twin, own string

	mu    sync.Mutex
	heard []string // payloads
	freed int
}

func newRealHub(t *testing.T, rdb redis.UniversalClient) *realHub {
	t.Helper()
	d, err := goredis.New(rdb, driver.Config{CommandTimeout: 5 * time.Second})
	require.NoError(t, err)
	base := "redisson_lock__channel:{t-" + uuid.NewString() + "}"
	r := &realHub{base: base, twin: base + ":rlock-twin", own: base + ":own"}
	tasks := task.New()
	r.Hub = New(Config{
		OnLost: func(error) {}, OnReplaced: func() {},
		OnUnwatched: func(string) {},
		OnMessage: func(channel, payload string, at clock.Instant) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if channel == r.own && clock.Now().Sub(at) < time.Minute {
				r.heard = append(r.heard, payload)
			}
		},
		OnFreed: func(channel string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if channel == r.base {
				r.freed++
			}
		},
	}, d, tasks)
	t.Cleanup(func() {
		ctx := context.Background()
		tasks.Close()
		tasks.Wait(ctx)
		r.Stop(ctx)
		tasks.Stop(ctx)
	})
	return r
}

func (r *realHub) freedTimes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freed
}

func (r *realHub) payloads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard)
}

// audience is what a server says of the subscribers of a channel and of its twin, at one moment.
type audience struct{ base, twin int64 }

func (r *realHub) audience(t *testing.T, rdb *redis.Client, cmd string) audience {
	t.Helper()
	reply, err := rdb.Do(context.Background(), "pubsub", cmd, r.base, r.twin).Slice()
	require.NoError(t, err)
	return audience{reply[1].(int64), reply[3].(int64)}
}

func (r *realHub) eventually(t *testing.T, rdb *redis.Client, cmd string, want audience, when string) {
	t.Helper()
	redistest.Eventually(t, when, func() bool { return r.audience(t, rdb, cmd) == want })
}

func TestAServerCountsWhoListens(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	first, second := newRealHub(t, server.Client(t)), newRealHub(t, server.Client(t))
	second.base, second.twin = first.base, first.twin
	is := func(base, twin int64, when string) {
		t.Helper()
		first.eventually(t, rdb, "numsub", audience{base, twin}, when)
	}
	first.Watch(first.base, first.twin)
	is(1, 1, "a mere watcher")
	second.Watch(first.base, first.twin)
	is(2, 2, "two of them")
	wake := make(chan struct{}, 1)
	first.Listen(first.base, wake, 0)
	is(2, 1, "one of them listens")
	first.Unlisten(first.base, wake)
	is(2, 2, "no more")
	second.Listen(first.base, wake, 0)
	second.Unwatch(first.base, first.twin)
	is(2, 1, "the second only listens")
	second.Unlisten(first.base, wake)
	is(1, 1, "the second is gone")
	redistest.Eventually(t, "the watcher looked at first", func() bool { return first.freedTimes() == 1 })
	require.NoError(t, rdb.Publish(t.Context(), first.base, "0").Err())
	redistest.Eventually(t, "the watcher looked", func() bool { return first.freedTimes() == 2 })
	first.Unwatch(first.base, first.twin)
	is(0, 0, "all are gone")
}

func TestAServersPayloadsComeInOrderAndWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	r := newRealHub(t, server.Client(t))
	r.Listen(r.own, make(chan struct{}, 1), 0)
	redistest.Eventually(t, "it is confirmed", func() bool { return r.Epoch(r.own) != 0 })
	want := []string{"7", " ", "", "6 1 2 3 4\r\n+OK\r\n", "\x00\xff 0"}
	for i := range 5000 {
		want = append(want, fmt.Sprintf("6 %d %d 3000 %d", i, time.Now().UnixMicro(), rand.Uint64()))
	}
	pipe := rdb.Pipeline()
	for _, payload := range want {
		pipe.Publish(t.Context(), r.own, payload)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	redistest.Eventually(t, "all have come", func() bool { return len(r.payloads()) == len(want) })
	require.Equal(t, want, r.payloads())
}

func TestACutConnectionIsANewEpoch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	proxy := redistest.NewProxy(t, server.Addr)
	r := newRealHub(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}))
	r.Watch(r.base, r.twin)
	wake := make(chan struct{}, 1)
	r.Listen(r.own, wake, 0)
	seen := map[uint64]bool{}
	for i := range 5 {
		for _, channel := range []string{r.base, r.twin, r.own} {
			redistest.Eventually(t, "it is confirmed", func() bool {
				epoch := r.Epoch(channel)
				return epoch != 0 && !seen[epoch]
			})
			seen[r.Epoch(channel)] = true
		}
		<-wake
		redistest.Eventually(t, "the watcher looks", func() bool { return r.freedTimes() == i+1 })
		r.eventually(t, rdb, "numsub", audience{1, 1}, "both are back")
		proxy.CloseAll()
	}
}

// TestATwinNeverHidesAListener asks the server all the time while watchers and listeners come and go and connections break.
// Another client listens, and must be counted at every moment.
func TestATwinNeverHidesAListener(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	proxy := redistest.NewProxy(t, server.Addr)
	other := newRealHub(t, server.Client(t))
	other.Listen(other.base, make(chan struct{}, 1), 0)
	other.eventually(t, rdb, "numsub", audience{1, 0}, "another client listens")
	ends := time.Now().Add(4 * time.Second)
	var all sync.WaitGroup
	for range 4 {
		r := newRealHub(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}))
		all.Go(func() {
			for time.Now().Before(ends) {
				wake := make(chan struct{}, 1)
				r.Watch(other.base, other.twin)
				time.Sleep(rand.N(300 * time.Millisecond))
				r.Listen(other.base, wake, 0)
				time.Sleep(rand.N(300 * time.Millisecond))
				r.Unlisten(other.base, wake)
				time.Sleep(rand.N(1600 * time.Millisecond))
				r.Unwatch(other.base, other.twin)
				time.Sleep(rand.N(1600 * time.Millisecond))
			}
		})
	}
	all.Go(func() {
		for time.Now().Before(ends) {
			time.Sleep(rand.N(time.Second))
			proxy.CloseAll()
		}
	})
	seen := map[audience]bool{}
	for time.Now().Before(ends) {
		a := other.audience(t, rdb, "numsub")
		seen[a] = true
		require.Greater(t, a.base, a.twin)
	}
	all.Wait()
	require.Greater(t, len(seen), 5)
	other.eventually(t, rdb, "numsub", audience{1, 0}, "all others are gone")
}

func TestAShardCountsWhoListens(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	r := newRealHub(t, cluster.Client(t))
	master := cluster.MasterOf(t, r.base).Client(t)
	r.Watch(r.base, r.twin)
	r.eventually(t, master, "shardnumsub", audience{1, 1}, "a mere watcher")
	wake := make(chan struct{}, 1)
	r.Listen(r.base, wake, 0)
	r.eventually(t, master, "shardnumsub", audience{1, 0}, "it listens")
	r.Unlisten(r.base, wake)
	r.eventually(t, master, "shardnumsub", audience{1, 1}, "no more")
	freed, epoch := r.freedTimes(), r.Epoch(r.base)
	_, to := cluster.MoveSlot(t, r.base)
	r.eventually(t, to.Client(t), "shardnumsub", audience{1, 1}, "the slot has moved")
	redistest.Eventually(t, "it is confirmed", func() bool { return r.Epoch(r.base) > epoch })
	redistest.Eventually(t, "the watcher looks", func() bool { return r.freedTimes() > freed })
	r.eventually(t, master, "shardnumsub", audience{}, "nobody is left behind")
	freed = r.freedTimes()
	require.NoError(t, to.Client(t).SPublish(t.Context(), r.base, "0").Err())
	redistest.Eventually(t, "the watcher looks", func() bool { return r.freedTimes() > freed })
	r.Unwatch(r.base, r.twin)
	r.eventually(t, to.Client(t), "shardnumsub", audience{}, "all are gone")
}

package interop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// waits is one lock of a single server, with owners of both languages that wait for it.
type waits struct {
	testing.TB
	version version
	server  *redistest.Server
	rdb     *redis.Client
	kind    kindOf
	name    string
	lease   time.Duration
	log     turnLog
	java    *redissonClient
	arrived int64          // waiters
	served  []<-chan error // one per waiter
	order   []string       // of arrival
}

// contested are the kinds of the tests of this file.
var contested = []string{"lock", "fenced", "fair", "write"}

// onWaits runs a test for every version and kind.
func onWaits(t *testing.T, test func(*testing.T, *waits)) {
	t.Helper()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for _, kind := range contested {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				test(t, newWaits(t, v, redistest.Start(t), kind))
			})
		}
	})
}

func newWaits(t *testing.T, v version, server *redistest.Server, kind string) *waits {
	t.Helper()
	lease := companyLease(v)
	rdb := server.Client(t)
	return &waits{
		TB: t, version: v, server: server, rdb: rdb, kind: kindNamed(kind), name: newName(), lease: lease, log: newTurnLog(rdb),
		java: sharedJVM(t, v).open(t, settings{Watchdog: lease}, server.Addr),
	}
}

// newHand returns a hand of a new client in Go, with connections of its own.
func (w *waits) newHand() hand {
	client := newClient(w, w.server.Client(w), rlock.WithWatchdogTimeout(w.lease))
	return goHand(w.Context(), w.kind.newLock(client, w.name))
}

// javaHand returns the hand of a new thread.
func (w *waits) javaHand() hand { return javaHand(w.newThread()) }

func (w *waits) newThread() *javaLock {
	return w.java.thread(int(opened.Add(1))).lock(w.kind.java, w.name)
}

// join lets new clients in Go, and a new thread in Java for each "java", wait for the lock, one behind the other. Each takes
// one turn and leaves.
func (w *waits) join(languages ...string) {
	w.Helper()
	for _, language := range languages {
		h := w.javaHand()
		if language == "go" {
			h = w.newHand()
		}
		who := fmt.Sprintf("%s %d", language, len(w.order))
		w.order = append(w.order, who)
		asked, served := h.ask(), make(chan error, 1)
		w.served = append(w.served, served)
		go func() {
			err := <-asked
			for _, step := range []func() error{
				func() error { return w.log.note(who, "in") }, func() error { return w.log.note(who, "out") }, h.unlock,
			} {
				if err == nil {
					err = step()
				}
			}
			served <- err
		}()
		w.stands()
	}
}

// stands waits until one waiter more than before stands in the queue or in the line, or listens, and a moment for its next
// attempt.
func (w *waits) stands() {
	w.Helper()
	w.arrived++
	if w.kind.fair {
		queued(w, w.rdb, w.name, w.arrived)
	} else {
		eventually(w, fmt.Sprintf("%d clients wait", w.arrived), func() bool { return w.listening() >= w.arrived })
	}
	<-time.After(20 * time.Millisecond)
}

// listening counts the clients that listen on Redisson's channel, or on a channel of their own. Those that listen on the twin
// of Redisson's channel watch for others.
func (w *waits) listening() (n int64) {
	ctx, base := context.Background(), w.kind.channel(w.name)
	channels, err := w.rdb.PubSubChannels(ctx, base+"*").Result()
	require.NoError(w, err)
	for channel, listeners := range w.rdb.PubSubNumSub(ctx, channels...).Val() {
		if channel == base+":rlock-twin" {
			listeners = -listeners
		}
		n += listeners
	}
	return n
}

// requireServed requires that all waiters get their turns, in time after the release, and in the order of arrival if the
// lock is fair. It returns the turns.
func (w *waits) requireServed(free time.Time, limit time.Duration) []turn {
	w.Helper()
	for i, served := range w.served {
		require.NoError(w, within(w, w.order[i]+" has had its turn", served))
	}
	all := w.log.turns(w)
	require.Len(w, all, len(w.order))
	var order []string
	last := free
	for _, this := range all {
		order = append(order, this.who)
		require.Less(w, this.in.Sub(last), limit, "%s came late: %v", this.who, all)
		last = this.out
	}
	if w.kind.fair {
		require.Equal(w, w.order, order)
	}
	for _, key := range keysOf(w, w.rdb) {
		require.False(w, strings.Contains(key, w.name) && key != tokenKey(w.name), "%s is left", key)
	}
	return all
}

// now returns the time of Redis, to compare with turns.
func (w *waits) now() time.Time {
	w.Helper()
	now, err := w.rdb.Time(context.Background()).Result()
	require.NoError(w, err)
	return now.Truncate(time.Millisecond)
}

// limit is the longest hand-off. An old Redisson that misses a message sleeps for the lease that it was told.
func (w *waits) limit() time.Duration {
	inJava := slices.ContainsFunc(w.order, func(who string) bool { return strings.HasPrefix(who, "java") })
	if inJava && !w.version.atLeast(3, 28) {
		return w.lease + handOffLimit
	}
	return handOffLimit
}

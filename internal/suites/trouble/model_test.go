package trouble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestModel lets several owners in three clients use one lock at random. It compares every result, and the state in Redis,
// with a model of a few lines: expected, grantable and freedBy.
//
// RLOCK_MODEL_ROUNDS sets the number of walks. RLOCK_SEED repeats the walks of one seed, as long as the same waiters win where
// the lock guarantees no order. Each step is logged.
func TestModel(t *testing.T) {
	t.Parallel()
	rounds := walks()
	for server, start := range testkit.Servers {
		for kind, fair := range map[string]bool{"fair": true, "read-write": false} {
			t.Run(kind+" on "+server, func(t *testing.T) {
				t.Parallel()
				seed, err := strconv.ParseUint(os.Getenv("RLOCK_SEED"), 10, 64)
				if err != nil {
					seed = rand.Uint64()
				}
				t.Logf("RLOCK_SEED=%d", seed)
				rdb := start(t)
				for round := range rounds {
					newWalk(t, rdb, fair, round%2 == 1, rand.New(rand.NewPCG(seed, uint64(round)))).run(40)
				}
			})
		}
	}
}

const (
	reading = false
	writing = true // the only side of a fair lock

	// longLease is the lease of holds that stay until they are unlocked. Only messages wake a waiter for such a hold, because
	// the lease and the poll interval are both longer than any test waits.
	longLease  = time.Hour
	shortLease = 400 * time.Millisecond
)

// walk is one random walk: a lock, its users, and the model of its state.
type walk struct {
	*testing.T
	rdb         redis.UniversalClient
	random      *rand.Rand
	fair        bool
	renewed     bool // the watchdog renews the holds; otherwise they have a long lease
	name        string
	clients     []*rlock.Client
	actors      []*actor
	waiters     []*waiter // in order of arrival
	events      chan event
	unexplained []event           // not yet explained by the model
	notBefore   time.Time         // no waiter may get the lock earlier, because a lease excludes them all
	losses      []lostAcquisition // not yet reported to their owners
	dead        []string          // IDs of clients that died
	forced      bool
}

// actor is an owner. It comes from WithOwner, or it stands for one acquisition without an owner and its re-entries.
type actor struct {
	client *rlock.Client
	ctx    context.Context
	plain  bool // not from WithOwner
	open   []*acquisition
	waits  bool
}

type acquisition struct {
	side   bool
	hold   *rlock.Hold // nil means taken by TryLock
	unlock func() error
}

type lostAcquisition struct {
	actor       *actor
	acquisition *acquisition
}

type waiter struct {
	actor  *actor
	side   bool
	short  bool // its lease will expire
	cancel context.CancelFunc
}

// event is the end of a wait.
type event struct {
	*waiter
	hold *rlock.Hold
	err  error
	at   time.Time
}

func newWalk(t *testing.T, rdb redis.UniversalClient, fair, renewed bool, random *rand.Rand) *walk {
	t.Helper()
	w := &walk{
		T: t, rdb: rdb, random: random, fair: fair, renewed: renewed, name: testkit.NewName(), events: make(chan event, 1000),
	}
	for range 3 {
		c := w.newClient()
		w.clients = append(w.clients, c)
		for range 2 {
			w.actors = append(w.actors, &actor{client: c, ctx: rlock.WithOwner(t.Context())})
		}
	}
	return w
}

func (w *walk) newClient() *rlock.Client {
	// A single attempt may take a fifth of the command timeout. In that time, a busy machine answers, too.
	opts := []rlock.Option{tune.PollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour), rlock.WithCommandTimeout(testkit.ALongTime)}
	if w.renewed { // soon after a grant by a release, and every 2 s
		opts = append(opts, rlock.WithWatchdogTimeout(6*time.Second))
	}
	return testkit.NewClient(w, w.rdb, opts...)
}

func (w *walk) lock(c *rlock.Client, side bool) *rlock.Lock {
	switch {
	case w.fair:
		return c.NewFairLock(w.name)
	case side == writing:
		return c.NewRWLock(w.name).Writer()
	}
	return c.NewRWLock(w.name).Reader()
}

// The model.

// expected returns the result of a single attempt by an owner.
func (w *walk) expected(a *actor, side bool) error {
	switch {
	case a.count(side) > 0:
		return nil
	case a.count(reading) > 0:
		return rlock.ErrUpgrade
	case w.excluded(a, side), w.fair && len(w.waiters) > 0:
		return rlock.ErrNotAcquired
	}
	return nil
}

// excluded reports whether another owner's hold excludes an owner.
func (w *walk) excluded(a *actor, side bool) bool {
	return slices.ContainsFunc(w.actors, func(b *actor) bool {
		return b != a && (b.count(writing) > 0 || side == writing && b.count(reading) > 0)
	})
}

// grantable reports whether a waiter can get the lock now. One of the waiters for which it is true must get the lock, and all of
// them if they are readers. The waiters of a fair lock form one queue, those of other locks one per process.
func (w *walk) grantable(candidate *waiter) bool {
	queue := w.queue(candidate.actor.client)
	return len(queue) > 0 && queue[0] == candidate && !w.excluded(candidate.actor, candidate.side)
}

// freedBy reports whether a force unlock of one side frees anything.
func (w *walk) freedBy(side bool) bool {
	writers := w.holding(func(a *actor) bool { return a.count(writing) > 0 })
	if side == reading {
		return len(writers) == 0 && len(w.holding(nil)) > 0
	}
	return len(writers) > 0
}

func (a *actor) count(side bool) (n int) {
	for _, e := range a.open {
		if e.side == side {
			n++
		}
	}
	return n
}

// The checks after each step.

func (w *walk) check() {
	w.Helper()
	w.settle(nil)
	var got, want []string
	defer func() {
		if w.Failed() {
			w.Logf("in Redis: %q, in the model: %q", got, want)
		}
	}()
	testkit.Eventually(w, "Redis agrees with the model", func() bool {
		got, want = w.inRedis(), w.inModel()
		return slices.Equal(got, want)
	})
	w.reportLosses()
	for _, a := range w.holding(nil) {
		for _, side := range []bool{reading, writing} {
			if n := a.count(side); n > 0 {
				got, err := w.lock(a.client, side).HoldCount(a.context())
				require.NoError(w, err)
				require.Equal(w, n, got)
			}
		}
	}
	w.actors = slices.DeleteFunc(w.actors, func(a *actor) bool { return a.plain && !a.waits && len(a.open) == 0 })
}

// settle waits for the waiters that must get the lock now, in any order, and checks that no other waiter gets it. It stops
// when expired is closed, because the end of a lease may explain further grants.
func (w *walk) settle(expired <-chan struct{}) {
	w.Helper()
	for {
		i := slices.IndexFunc(w.unexplained, func(e event) bool { return w.grantable(e.waiter) })
		switch {
		case i >= 0:
			e := w.unexplained[i]
			w.unexplained = slices.Delete(w.unexplained, i, i+1)
			w.granted(e)
			continue
		case len(w.events) == 0 && !slices.ContainsFunc(w.waiters, w.grantable):
			if expired == nil {
				require.Empty(w, w.unexplained, "a waiter got the lock out of turn")
			}
			return
		}
		select {
		case e := <-w.events:
			w.unexplained = append(w.unexplained, e)
		case <-expired:
			return
		case <-time.After(testkit.ALongTime):
			for _, e := range w.unexplained {
				w.Logf("%v got %s out of turn: %v", w.describe(e.actor), sideName(e.side), e.err)
			}
			w.Fatalf("timed out after %v: a waiter gets the lock, in Redis: %q, in the model: %q", testkit.ALongTime, w.inRedis(), w.inModel())
		}
	}
}

func (w *walk) granted(e event) {
	w.Helper()
	a := e.actor
	require.NoError(w, e.err, w.describe(a))
	w.Logf("%v got %s", w.describe(a), sideName(e.side))
	require.False(w, e.at.Before(w.notBefore), "no waiter gets the lock before the lease ends: %v early", w.notBefore.Sub(e.at))
	e.cancel() // does not end the hold
	w.waiters = slices.DeleteFunc(w.waiters, func(other *waiter) bool { return other == e.waiter })
	a.waits = false
	a.open = append(a.open, (&acquisition{side: e.side}).by(e.hold))
	if e.short {
		w.awaitExpiry(a, a.open[0])
	}
}

// reportLosses checks that the owners of lost holds learn of the loss.
func (w *walk) reportLosses() {
	w.Helper()
	for _, l := range w.losses {
		ctx := l.actor.ctx
		if l.actor.plain {
			ctx = context.WithoutCancel(l.acquisition.hold.Context())
		}
		_, err := w.lock(l.actor.client, l.acquisition.side).TryLock(ctx)
		require.ErrorIs(w, err, rlock.ErrLost, "the owner must first unlock its lost acquisitions")
	}
	for _, l := range w.losses {
		require.ErrorIs(w, l.acquisition.unlock(), rlock.ErrLost)
	}
	w.losses = nil
}

// inModel returns the expected state in Redis: each holder with its count, the mode, and the waiters in the queue.
func (w *walk) inModel() (lines []string) {
	mode := ""
	for _, a := range w.actors {
		for _, side := range []bool{reading, writing} {
			if n := a.count(side); n > 0 {
				lines = append(lines, fmt.Sprintf("%s %s %d", a.client.ID(), sideName(side), n))
				mode = max(mode, sideName(side))
			}
		}
	}
	if mode != "" && !w.fair {
		lines = append(lines, "mode "+mode)
	}
	slices.Sort(lines)
	for _, waiter := range w.waiters {
		if w.fair {
			lines = append(lines, waiter.actor.client.ID()+" waits")
		}
	}
	return lines
}

// inRedis returns the actual state in Redis. The hold of a reader ends with the reader's own key. Its field stays until its
// client removes it, if the client is alive.
func (w *walk) inRedis() (lines []string) {
	ctx := w.Context()
	for field, value := range testkit.Holders(w, w.rdb, w.name) {
		id, number, _ := strings.Cut(field, ":")
		_, write := strings.CutSuffix(number, ":write")
		switch {
		case field == "mode":
			lines = append(lines, "mode "+value)
		case w.fair || write:
			lines = append(lines, fmt.Sprintf("%s %s %s", id, sideName(writing), value))
		case w.rdb.Exists(ctx, fmt.Sprintf("{%s}:%s:rwlock_timeout:1", w.name, field)).Val() == 1:
			lines = append(lines, fmt.Sprintf("%s %s %s", id, sideName(reading), value))
		case !slices.Contains(w.dead, id):
			lines = append(lines, id+" has read")
		}
	}
	slices.Sort(lines)
	if !w.fair {
		return lines
	}
	keys := testkit.Keys(w.lock(w.clients[0], writing))
	queue, deadlines := w.rdb.LRange(ctx, keys[1], 0, -1).Val(), w.rdb.ZRange(ctx, keys[2], 0, -1).Val()
	for _, field := range queue {
		id, _, _ := strings.Cut(field, ":")
		lines = append(lines, id+" waits")
	}
	slices.Sort(queue)
	slices.Sort(deadlines)
	if !slices.Equal(queue, deadlines) {
		lines = append(lines, fmt.Sprintf("deadlines of %q", deadlines))
	}
	return lines
}

// The choice of actors.

func (w *walk) side() bool { return w.fair || w.random.IntN(2) == 0 }

// stranger returns a new owner with a plain context.
func (w *walk) stranger() *actor {
	a := &actor{client: w.clients[w.random.IntN(len(w.clients))], ctx: w.Context(), plain: true}
	w.actors = append(w.actors, a)
	return a
}

// idleActor returns an owner that does not wait.
func (w *walk) idleActor() *actor {
	if a := w.actors[w.random.IntN(len(w.actors))]; !a.waits {
		return a
	}
	return w.stranger()
}

// newcomer returns an owner that neither holds nor waits.
func (w *walk) newcomer() *actor {
	if a := w.idleActor(); len(a.open) == 0 {
		return a
	}
	return w.stranger()
}

// holder returns an owner that holds the lock, or nil.
func (w *walk) holder(which func(*actor) bool) *actor {
	all := w.holding(which)
	if len(all) == 0 {
		return nil
	}
	return all[w.random.IntN(len(all))]
}

func (w *walk) holding(which func(*actor) bool) (all []*actor) {
	for _, a := range w.actors {
		if len(a.open) > 0 && (which == nil || which(a)) {
			all = append(all, a)
		}
	}
	return all
}

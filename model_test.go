package rlock_test

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
)

// TestModel lets several owners in three clients do at random what can be done with one lock, and holds every answer
// and what is in Redis against a model of a few lines: answer, grantable and freedBy.
//
// RLOCK_MODEL_ROUNDS raises the number of walks, RLOCK_SEED replays those of one seed, as far as the same waiters win
// where the lock does not say who does. Each step is logged.
func TestModel(t *testing.T) {
	t.Parallel()
	rounds := 8
	if n, err := strconv.Atoi(os.Getenv("RLOCK_MODEL_ROUNDS")); err == nil {
		rounds = n
	}
	for server, start := range servers {
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
	writing = true // the only side that a fair lock has

	// forGood is the lease of holds that stay until they are unlocked. Whoever waits for one is woken by messages alone:
	// the hint of its lease and the poll interval are both longer than any test waits.
	forGood    = time.Hour
	shortLease = 400 * time.Millisecond
)

// walk is one random walk: a lock, those who use it, and with them the model of its state.
type walk struct {
	*testing.T
	rdb     redis.UniversalClient
	random  *rand.Rand
	fair    bool
	renewed bool // the watchdog keeps holds, instead of a long lease
	name    string
	clients []*rlock.Client
	actors  []*actor
	waiters []*waiter // in order of arrival
	events  chan event
	came    []event   // that the model does not explain yet
	since   time.Time // nobody may get in before: a lease runs that keeps all waiters out
	late    []lapsed  // whose owners have yet to hear of it
	dead    []string  // ids of clients
	forced  bool
}

// actor is an owner: one made by WithOwner, or one acquisition without owner and what re-enters it.
type actor struct {
	client *rlock.Client
	ctx    context.Context
	plain  bool
	open   []*entry
	waits  bool
}

type entry struct {
	side   bool
	hold   *rlock.Hold // nil: taken by TryLock
	unlock func() error
}

type lapsed struct {
	actor *actor
	entry *entry
}

type waiter struct {
	actor  *actor
	side   bool
	short  bool // its lease will run out
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
		T: t, rdb: rdb, random: random, fair: fair, renewed: renewed, name: newName(), events: make(chan event, 1000),
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
	opts := []rlock.Option{rlock.WithPollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour)}
	if w.renewed {
		opts = append(opts, rlock.WithWatchdogTimeout(1200*time.Millisecond))
	}
	return newClient(w, w.rdb, opts...)
}

func (w *walk) lock(c *rlock.Client, side bool) *rlock.Lock {
	switch {
	case w.fair:
		return c.NewFairLock(w.name)
	case side == writing:
		return c.NewRWLock(w.name).WriteLock()
	}
	return c.NewRWLock(w.name).ReadLock()
}

// The model.

// answer is what an owner gets who asks once.
func (w *walk) answer(a *actor, side bool) error {
	switch {
	case a.count(side) > 0:
		return nil
	case a.count(reading) > 0:
		return rlock.ErrUpgrade
	case w.keptOut(a, side), w.fair && len(w.waiters) > 0:
		return rlock.ErrNotAcquired
	}
	return nil
}

// keptOut tells whether somebody else's hold keeps an owner out.
func (w *walk) keptOut(a *actor, side bool) bool {
	return slices.ContainsFunc(w.actors, func(b *actor) bool {
		return b != a && (b.count(writing) > 0 || side == writing && b.count(reading) > 0)
	})
}

// grantable tells whether a waiter must get the lock now, or may, if others must too. Those of a fair lock stand in one
// line, those of another in one for each process.
func (w *walk) grantable(who *waiter) bool {
	line := w.line(who.actor.client)
	return len(line) > 0 && line[0] == who && !w.keptOut(who.actor, who.side)
}

// freedBy tells whether an unlock by force on one side finds anything.
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

// What must be true after each step.

func (w *walk) check() {
	w.Helper()
	w.settle(nil)
	var got, want []string
	defer func() {
		if w.Failed() {
			w.Logf("in Redis: %q, should be: %q", got, want)
		}
	}()
	eventually(w, "Redis has what the model has", func() bool {
		got, want = w.inRedis(), w.inModel()
		return slices.Equal(got, want)
	})
	w.hear()
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

// settle waits for those who must get in now, in whichever order, and checks that nobody else does. While a lease may
// run out meanwhile, it leaves what that would explain for later.
func (w *walk) settle(lapse <-chan struct{}) {
	w.Helper()
	for {
		i := slices.IndexFunc(w.came, func(e event) bool { return w.grantable(e.waiter) })
		switch {
		case i >= 0:
			e := w.came[i]
			w.came = slices.Delete(w.came, i, i+1)
			w.granted(e)
			continue
		case len(w.events) == 0 && !slices.ContainsFunc(w.waiters, w.grantable):
			if lapse == nil {
				require.Empty(w, w.came, "nobody may get in but who must")
			}
			return
		}
		select {
		case e := <-w.events:
			w.came = append(w.came, e)
		case <-lapse:
			return
		case <-time.After(aLongTime):
			w.Fatalf("after %v still nobody was let in", aLongTime)
		}
	}
}

func (w *walk) granted(e event) {
	w.Helper()
	a := e.actor
	require.NoError(w, e.err, w.who(a))
	w.Logf("%v has got %s", w.who(a), sideName(e.side))
	require.False(w, e.at.Before(w.since), "nobody gets in before the lease is over")
	e.cancel() // which ends no hold
	w.waiters = slices.DeleteFunc(w.waiters, func(other *waiter) bool { return other == e.waiter })
	a.waits = false
	a.open = append(a.open, (&entry{side: e.side}).by(e.hold))
	if e.short {
		w.lapses(a, a.open[0])
	}
}

// hear has the owners of lost holds hear of it.
func (w *walk) hear() {
	w.Helper()
	for _, l := range w.late {
		ctx := l.actor.ctx
		if l.actor.plain {
			ctx = context.WithoutCancel(l.entry.hold.Context())
		}
		_, err := w.lock(l.actor.client, l.entry.side).TryLock(ctx)
		require.ErrorIs(w, err, rlock.ErrLost, "until it has unlocked what it lost")
	}
	for _, l := range w.late {
		require.ErrorIs(w, l.entry.unlock(), rlock.ErrLost)
	}
	w.late = nil
}

// inModel is what Redis should have: each holder with its count, the mode, and who waits in the queue.
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

// inRedis is what Redis has. A reader whose own key has gone is over, though its field is there until its client, if
// that lives, removes it.
func (w *walk) inRedis() (lines []string) {
	ctx := w.Context()
	for field, value := range holders(w, w.rdb, w.name) {
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
	keys := w.lock(w.clients[0], writing).Keys()
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

// Who does it.

func (w *walk) side() bool { return w.fair || w.random.IntN(2) == 0 }

// stranger is a new owner, of a context without one.
func (w *walk) stranger() *actor {
	a := &actor{client: w.clients[w.random.IntN(len(w.clients))], ctx: w.Context(), plain: true}
	w.actors = append(w.actors, a)
	return a
}

// somebody is an owner who does not wait.
func (w *walk) somebody() *actor {
	if a := w.actors[w.random.IntN(len(w.actors))]; !a.waits {
		return a
	}
	return w.stranger()
}

// newcomer is an owner who neither holds nor waits.
func (w *walk) newcomer() *actor {
	if a := w.somebody(); len(a.open) == 0 {
		return a
	}
	return w.stranger()
}

// holder is an owner who holds the lock, or nil.
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

func (w *walk) line(c *rlock.Client) (all []*waiter) {
	for _, waiter := range w.waiters {
		if w.fair || waiter.actor.client == c {
			all = append(all, waiter)
		}
	}
	return all
}

func (w *walk) who(a *actor) string {
	name := fmt.Sprintf("%p", a)
	return fmt.Sprintf("%s of %.4s, plain: %v,", name[max(0, len(name)-5):], a.client.ID(), a.plain)
}

func sideName(side bool) string {
	if side == writing {
		return "write"
	}
	return "read"
}

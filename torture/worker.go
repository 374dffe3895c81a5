package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock"
)

// share is a kind of lock in the workload, with its weight and its names.
type share struct {
	kind   string
	weight int
	names  []string // each turn draws one, a group two
}

// fresh stands for a name that changes forty times a second, and is the same for all sites. Few owners want each name, and
// each waiter's subscription is new.
const fresh = "fresh"

// permits is how many there are of the semaphore.
const permits = 3

// mix is the workload. Groups and plain locks share some names. Of some names there is a pair, without braces and with: Redisson's rule
// derives the same keys and channels from both.
var mix = []share{
	{kindLock, 18, []string{"a", "{a}", "b"}},
	{kindLock, 12, []string{fresh}},
	{kindSpin, 6, []string{"{b}"}},
	{kindFenced, 12, []string{"fenced0", "{fenced0}"}},
	{kindFair, 12, []string{"fair0", "{fair0}"}},
	{kindFencedFair, 6, []string{"fair-fenced"}},
	{kindRead, 16, []string{"rw0", "rw-fenced"}},
	{kindYieldingRead, 6, []string{"rw1"}},
	{kindWrite, 8, []string{"rw0", "rw1"}},
	{kindFencedWrite, 6, []string{"rw-fenced"}},
	{kindMulti, 10, []string{"a", "{a}", "b"}},
	{kindSemaphore, 8, []string{"sem0"}},
}

// draw returns a kind of lock, and its names.
func draw(r *rand.Rand) (kind string, names []string) {
	total := 0
	for _, s := range mix {
		total += s.weight
	}
	n := r.IntN(total)
	for _, s := range mix {
		if n -= s.weight; n >= 0 {
			continue
		}
		i := r.IntN(len(s.names))
		switch {
		case s.kind == kindMulti:
			return s.kind, []string{s.names[i], s.names[(i+1)%len(s.names)]}
		case s.names[i] == fresh:
			return s.kind, []string{fmt.Sprintf("%s-%d", fresh, now()/Moment(25*time.Millisecond))}
		}
		return s.kind, []string{s.names[i]}
	}
	panic("unreachable")
}

// worker is one goroutine of a site. It is a new owner in every turn.
type worker struct {
	*running
	random *rand.Rand
}

// turn uses a lock once, and reports each step.
func (w *worker) turn(ctx context.Context) {
	t := Turn{ID: w.ids.Add(1), Site: w.Name}
	t.Kind, t.Names = draw(w.random)
	report := func() { told := t; w.say(message{Turn: &told}) }
	hold := w.acquire(&t, report)
	if hold == nil {
		t.Over = now()
		report()
		pause(ctx, 2*time.Millisecond) // Redis may fail again at once
		return
	}
	report()
	w.work(&t, hold, report)
	if t.Lease == 0 || w.random.IntN(4) > 0 { // otherwise the lease ends by itself
		if err := hold.Unlock(context.Background()); err != nil {
			t.Err = err.Error()
		}
	}
	t.Over = now()
	report()
}

// acquire tries to get the lock, in one of the ways that callers have. The hold is nil if it could not.
func (w *worker) acquire(t *Turn, report func()) *rlock.Hold {
	lock, r := handle(w.client, t.Kind, t.Names...), w.random
	verb := lock.Acquire
	var opts []rlock.AcquireOption
	if t.Kind == kindSemaphore {
		t.Permits = 1 + r.IntN(permits)
		opts = append(opts, rlock.Permits(t.Permits))
	}
	switch r.IntN(6) {
	case 0:
		t.Lease = shortLease + time.Duration(r.IntN(int(2*shortLease)))
		opts = append(opts, rlock.Lease(t.Lease))
	case 1:
		opts = append(opts, rlock.RenewedLease(2*shortLease+time.Duration(r.IntN(int(watchdogTimeout-2*shortLease)))))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t.Asked = now()
	switch n := r.IntN(10); {
	case n < 3:
		verb = lock.TryAcquire
	case n < 6:
		d := time.Duration(1+r.IntN(400)) * time.Millisecond
		t.Limit = t.Asked.Add(d)
		opts = append(opts, rlock.Wait(d))
	case n < 8:
		d := time.Duration(1 + r.IntN(int(60*time.Millisecond)))
		t.Limit = t.Asked.Add(d)
		defer time.AfterFunc(d, cancel).Stop()
	case n < 9:
		d := 100*time.Millisecond + time.Duration(r.IntN(int(time.Second)))
		t.Limit = t.Asked.Add(d)
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	report()
	hold, err := verb(ctx, opts...)
	t.Answered = now()
	if err != nil {
		t.Err = err.Error()
		return nil
	}
	t.Got, t.Token = true, uint64(hold.Token())
	t.believe(hold)
	return hold
}

// work holds the lock for a moment, and now and then for longer than its lease.
func (w *worker) work(t *Turn, hold *rlock.Hold, report func()) {
	until := t.Answered.Add(time.Duration(w.random.IntN(int(5 * time.Millisecond))))
	switch w.random.IntN(200) {
	case 0:
		until = t.Answered.Add(watchdogTimeout * 11 / 10)
	case 1, 2:
		until = t.Answered.Add(3 * shortLease)
	}
	for told := now(); now() < until && t.believe(hold); {
		pause(context.Background(), min(until.Sub(now()), 4*time.Millisecond))
		if now().Sub(told) > 50*time.Millisecond {
			told = now()
			report()
		}
	}
	t.believe(hold)
}

// believe records that the owner believes to hold the lock now. It reports whether the hold is still good.
func (t *Turn) believe(hold *rlock.Hold) bool {
	at := now()
	if hold.Err() != nil {
		return false
	}
	if t.First == 0 {
		t.First = at
	}
	t.Last = at
	return true
}

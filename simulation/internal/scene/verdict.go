package scene

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/core"
	rlockfault "github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/wire"
)

// What a call that acquires nothing has to say follows from what it was told last: the rules L.2 to L.6, L.15 and L.16. The network knows what
// a process asked, and what it was told, so the verdict on a call needs nothing that rlock knows. It is for calls that share their lock with
// nobody in their process: all questions about the lock are theirs.

// instant is how much two moments may differ that are the same to rlock.
const instant = time.Millisecond

// told is what a process was told.
type told uint8

const (
	nothing  told = iota // there is no reply yet
	refused              // others have the lock
	got                  // it has the lock
	answered             // something that is not about the lock
	failed               // there was no reply, or an error
)

// sort is what a question is for.
type sort uint8

const (
	acquires sort = iota
	prepares      // it sets a semaphore up: another one follows if it has no reply soon
	releases      // which a group also sends for a member that a message has granted it
)

// question is what a process asked about a lock.
type question struct {
	sent, over time.Time
	sort       sort
	counts     bool // it is for permits of a plain semaphore
	turns      bool // it is of internal/core
	told       told
	err        *rlockfault.Error // of a question that failed
}

// subject is a lock, and which client of a process asks for it.
type subject struct {
	client int
	lock   string
}

// inquest has the questions of a process. It is safe for concurrent use.
type inquest struct {
	mu        sync.Mutex // a leaf
	questions map[subject][]*question
}

// sorts has the scripts that are questions.
var sorts = sync.OnceValue(func() map[*wire.Script]sort {
	scripts := map[*wire.Script]sort{wire.Others["set up"]: prepares}
	add := func(s sort, all ...*wire.Script) {
		for _, script := range all {
			if script != nil {
				scripts[script] = s
			}
		}
	}
	add(acquires, wire.Others["acquire plain permits"], core.Scripts()["acquire permits"], core.Scripts()["acquire by turns"])
	add(releases, core.Scripts()["release permits"], core.Scripts()["release by turns"])
	for _, k := range wire.Kinds {
		add(acquires, k.Acquire)
		if add(releases, k.Release); k.Line != nil {
			add(acquires, k.Line.Acquire, k.Line.Yield)
			add(releases, k.Line.Release)
		}
	}
	return scripts
})

// witness returns what is told of the calls of a client.
func (q *inquest) witness(client int) func(c *wire.Call) func(r wire.Reply) {
	return func(c *wire.Call) func(wire.Reply) {
		s, known := sorts()[c.Script]
		if !known {
			return nil
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		lock, _ := c.Keys[0].(string)
		one, of := &question{sent: time.Now(), sort: s, counts: c.Script == wire.Others["acquire plain permits"], turns: c.Script == core.Scripts()["acquire permits"] || c.Script == core.Scripts()["acquire by turns"]}, subject{client, lock}
		q.questions[of] = append(q.questions[of], one)
		return func(r wire.Reply) {
			q.mu.Lock()
			defer q.mu.Unlock()
			one.hears(&r)
		}
	}
}

// hears notes the reply to a question.
func (q *question) hears(r *wire.Reply) {
	q.over, q.err = time.Now(), r.Err
	switch {
	case r.Err != nil:
		q.told = failed
	case q.sort == prepares, q.sort == releases && r.N == 0:
		q.told = answered
	case q.sort == releases, q.turns && r.List == nil, !q.turns && !q.counts && r.Acquired(), q.counts && r.N == 1:
		q.told = got
	case q.turns && r.N < 0: // it is late, or asks anew
		q.told = answered
	default:
		q.told = refused
	}
}

// forget forgets the questions about a lock that are over.
func (q *inquest) forget(of subject) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.questions[of] = slices.DeleteFunc(q.questions[of], func(one *question) bool { return one.told != nothing })
}

// since returns the questions about a lock that were sent since a moment.
func (q *inquest) since(of subject, from time.Time) (all []question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.questions[of] {
		if !one.sent.Before(from) {
			all = append(all, *one)
		}
	}
	return all
}

// knows returns what a call knows of one of its locks. A reply to a question of an earlier call says that Redis answers: the silence counts from
// then. A call for a fair lock asks for itself alone, and knows nothing of earlier ones.
func (a *attempt) knows(q *inquest, client int, t *target, in time.Duration) known {
	of, fair := subject{client, t.name}, t.fair()
	k := learn(q.since(of, a.asked), in)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.questions[of] {
		replied := one.told != nothing && (one.err == nil || one.err.Replied())
		if replied && one.sort != releases && one.sent.Before(a.asked) && !fair {
			k.heard = later(k.heard, one.over)
		}
	}
	return k
}

// known is what a call knows of a lock.
type known struct {
	ever    bool              // it was refused once
	refused bool              // the latest reply, unless a question has failed since
	err     *rlockfault.Error // of the latest question, if that failed
	open    []*question       // those since then that have had no outcome, by age
	heard   time.Time         // when the latest reply came which says only that Redis answers
	unsure  bool              // only rlock can tell what the latest reply is worth
}

// String is what is known for a reader of the log.
func (k *known) String() string {
	text := "it was never refused"
	switch {
	case k.err != nil:
		text = "its latest question failed: " + k.err.Error()
	case k.refused:
		text = "it was refused"
	case k.ever:
		text = "it was refused once"
	}
	if silent := k.silence(); silent > 0 {
		text += fmt.Sprintf(", and a question has had no reply for %v", silent)
	}
	return text
}

// silence returns for how long a question has had no reply. Zero means that each has had one.
func (k *known) silence() time.Duration {
	if len(k.open) == 0 {
		return 0
	}
	return time.Since(later(k.open[0].sent, k.heard))
}

// learn returns what a call knows whose questions these are. A reply that took longer than in may have come too late for it.
func learn(all []question, in time.Duration) (k known) {
	type event struct {
		at   time.Time
		of   *question
		over bool // it has an outcome; otherwise it is sent
	}
	var events []event
	for i := range all {
		q := &all[i]
		if q.sort == releases {
			continue
		}
		if events = append(events, event{q.sent, q, false}); q.told != nothing {
			events = append(events, event{q.over, q, true})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	for _, e := range events {
		if !e.over {
			k.open = append(k.open, e.of)
			continue
		}
		k.hear(e.of, in)
	}
	return k
}

// hear notes the outcome of a question.
func (k *known) hear(q *question, in time.Duration) {
	k.ever = k.ever || q.told == refused
	if q.sort == prepares {
		in = min(in, commandTimeout/5-instant)
	}
	switch {
	case q.over.Sub(q.sent) > in, q.told == got, q.err != nil && q.err.Code == "MOVED": // which rlock may follow
		k.unsure = true
	case q.told == answered:
		k.open, k.err, k.unsure = nil, nil, false
	case q.told == refused:
		*k = known{ever: true, refused: true}
	default:
		*k = known{ever: k.ever, err: q.err}
	}
}

// says returns what a call has to say that ends now. It is not certain where a moment decides, or rlock alone knows. An empty class means
// that nothing is known.
func (k *known) says(floor time.Duration) (c promises.Class, certain bool) {
	silent := k.silence()
	switch {
	case k.unsure, k.err != nil && !k.err.Unavailable():
		return "", false
	case k.err != nil:
		return promises.Outage, true
	case silent > floor-instant:
		return promises.Outage, silent > floor+instant
	case k.refused:
		return promises.Contention, true
	}
	return "", true
}

// apart reports whether an attempt was the only one of its process that had to do with its locks, and whether all is seen that it did.
// The run must be locked.
func (w *worker) apart(a *attempt) bool {
	seen := w.Faults.Pool == 0 && !w.Gathers
	return seen && !a.shared && !a.mixed && !w.ended && w.ctx.Err() == nil && w.pausedSince(a.asked) == 0
}

// inquires begins an inquest into an attempt. The run must be locked.
func (w *worker) inquires(a *attempt) {
	if a.mixed = w.busy > 0; a.shared || a.mixed {
		return
	}
	for _, t := range a.of.atoms() {
		for i := range w.clients {
			w.inquest.forget(subject{i, t.name})
		}
	}
}

// judges compares the error of an attempt with what it was told. The run must be locked.
func (w *worker) judges(ctx context.Context, a *attempt, c promises.Call, err error) {
	const floor = commandTimeout / 5
	if here := (*rlockfault.HeldHereError)(nil); !errors.As(err, &here) { // a hold of which only its owner knows, perhaps
		w.judgesLocal(a, c, floor)
	}
	if err == nil || c.Class == promises.Closing || !w.apart(a) || errors.Is(err, rlockfault.ErrLate) || errors.Is(err, rlock.ErrNotReplicated) {
		return
	}
	switch a.of.kind {
	case kindElection, kindLatch:
	case kindMulti:
		w.judgesMulti(a, c)
	case kindRed:
		w.judgesRed(a, c, floor)
	default:
		k := a.knows(&w.inquest, 0, a.of, commandTimeout*2)
		want, certain := k.says(floor)
		if want == "" {
			if want = promises.Outage; errors.Is(ctx.Err(), context.Canceled) && !w.unrouted(a, c, floor) {
				want = promises.Neither
			}
		}
		if certain && c.Class != want {
			w.brokenf("error: %v was told %s about %s, instead of %s: %v; %v", w.process, c.Class, a.of.name, want, err, &k)
		}
	}
}

// judgesLocal checks that an attempt which was refused because of a hold of its own process, and by nobody else, does not say so when that hold
// is long over: as after its process was stopped. The run must be locked.
func (w *worker) judgesLocal(a *attempt, c promises.Call, floor time.Duration) {
	t := a.of
	if c.Class != promises.Contention || !a.first || a.offered || w.ended || t.counts() || t.group() || t.kind == kindElection {
		return
	}
	until := a.until
	for _, h := range t.inside {
		switch {
		case h.p != a.p:
		case h.blind || h.err() == nil:
			return
		default:
			until = later(until, h.until())
		}
	}
	said := slices.ContainsFunc(w.inquest.since(subject{0, t.name}, a.asked), func(q question) bool { return q.told == refused })
	// Redis may keep the lock a little longer than its owner may rely on it.
	if over := time.Since(until) - floor - time.Second; !said && !until.IsZero() && over > 0 {
		w.brokenf("error: %v was told %s about %s because of a hold that was over %v before: %v", w.process, c.Class, t.name, time.Since(until), c.Err)
	}
}

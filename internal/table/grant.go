package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/policy"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/term"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/internal/yield"
)

// Grant is one owner's holding of one lock: a holder field in Redis, with a number of its own. It is acquired once,
// counts its open acquisitions, and is released when the last one is unlocked.
//
// It knows neither a Hold nor a context of a user, except through the functions that end them, so that the runtime notices a
// Hold that the program can no longer reach.
type Grant struct {
	queue.Timed[clock.Instant] // when to look at it again; guarded by the table's mutex

	table  *Table
	handle *Handle // through which it was acquired: kind, names and the user's name
	owner  *Owner  // the caller's; without one, nil until somebody asks for it
	holder wire.Holder

	// The table's mutex guards what follows. There may be a hundred thousand held locks, so small fields stand together.

	first Acquisition // mostly the only one; the others are in rare

	// turns are those of the owner's operations, so that the count in Redis follows the count here. Unlocks come before
	// acquisitions.
	turns   queue.Turns
	attempt *Attempt // of a pending grant of a shared owner
	rare    *rarely  // nil means that the grant has nothing of this
	token   uint64   // of a fenced lock
	micros  int64    // see proof
	term    term.Term

	streak yield.Streak
	stage  stage
	opened bool // the first acquisition is open
	shared bool // its owner is the caller's, so other goroutines may have it too
	listed bool // it is among the holdings of its owner, or will be once it has one
	// inDoubt means that a command that can make this number a holder has had no reply: it may still be executed.
	inDoubt bool
	lost    bool // or ended before its last unlock; for the count of losses
	waited  bool // it was refused until its turn came
	// lengthened means that a command asked for a longer lease than the acquisition did, whether or not it had a reply.
	lengthened bool
	// needsCleanup means that Redis may have something that only a release removes: a lock that it granted after the verb
	// had left, or a place in a queue.
	needsCleanup bool

	contested bool // it, or the grant from which it was handed over, stood in the line
	accused   bool // a possible self-deadlock was logged

	// For the watchdog.

	inRound  bool  // its renewal is on its way: sent, or soon to be
	alone    bool  // its renewal is a call of its own
	failures int16 // renewals or background releases that failed in a row, at most maxFailures
}

// stage is how far a grant has come. Stages follow each other in this order, and some are left out. Only a late reply goes
// back, from retired to retiring: Redis made a holder that has to be released. docs/architecture.md draws the transitions.
type stage uint8

const (
	pending   stage = iota // its acquire may be under way
	held                   // confirmed; its deadline had not passed when the table last looked
	expired                // past its deadline: over for its users, although Redis may still have it
	releasing              // its last unlock is under way
	retiring               // over here; a background release is under way
	retired
)

// newGrant gives an attempt a new pending grant.
func (t *Table) newGrant(a *Attempt) {
	t.number++
	h := a.Handle
	g := &Grant{
		table: t, handle: h, owner: a.owner, holder: wire.NewHolder(h.Kind.Of(a.Permits), h.Names(), t.cfg.ClientID, t.number),
		term: term.Term{Lease: a.Lease}, shared: a.owner != nil,
	}
	g.turns.Begin()
	if h.Kind.Lasting {
		t.notePast(g)
	}
	a.grant = g
	if g.shared {
		g.attempt = a
		t.list(g)
	}
}

// list puts a grant among the holdings of its owner, now or when it gets one.
func (t *Table) list(g *Grant) {
	g.listed = true
	if g.owner != nil {
		t.grants.Add(g, g.owner, g.shared)
	}
}

// inRedis returns the grant's holder, with its field. The table's mutex must be held.
func (g *Grant) inRedis() *wire.Holder {
	g.holder.Restore(g.table.cfg.ClientID)
	return &g.holder
}

// shrink drops the texts that can be made again. They are half of what a held lock takes, and nobody needs them until the next
// renewal or the unlock.
func (g *Grant) shrink() {
	g.handle.names.Drop()
	g.holder.Shrink()
}

// HeldAs implements owner.Holding.
func (g *Grant) HeldAs() HeldKey { return g.handle.sideKey() }

// sameOwner reports whether two grants have one owner.
func (g *Grant) sameOwner(other *Grant) bool {
	return g == other || g.owner != nil && g.owner == other.owner
}

// sibling returns the same owner's grant of the other side of the name, or nil.
func (g *Grant) sibling() *Grant {
	if g.owner == nil {
		return nil
	}
	return g.table.grants.Of(HeldKey{g.handle.Key, g.handle.Kind.Side.Opposite()}, g.owner)
}

// sibling returns the grant of the other side of the name that the attempt shares, or nil: none if the hold is over that made it this owner's.
func (a *Attempt) sibling() *Grant {
	if a.owner == nil {
		return nil
	}
	if o, _ := a.Now(); o != a.owner {
		return nil
	}
	return a.grant.sibling()
}

// usable reports whether the grant is held as far as is known. It reports false for nil.
func (g *Grant) usable(now clock.Instant) bool {
	return g != nil && g.stage == held && !g.term.Past(now)
}

// renewal returns the lease with which the watchdog renews the grant: the longest one of the open acquisitions for which it
// keeps the grant. It renews three times in the shortest one. Zero means that it does not keep the grant.
func (g *Grant) renewal() (longest, shortest time.Duration) {
	if g.opened && g.rare == nil { // as most grants
		return g.first.renewal, g.first.renewal
	}
	for i := range g.open() {
		a := g.at(i)
		longest = max(longest, a.renewal)
		if a.renewal > 0 && (shortest == 0 || a.renewal < shortest) {
			shortest = a.renewal
		}
	}
	return longest, shortest
}

// renewing reports whether the watchdog keeps the grant.
func (g *Grant) renewing() bool {
	_, shortest := g.renewal()
	return shortest > 0
}

// drop takes an acquisition out of the open ones. The remaining ones may let the next renewal come later.
func (g *Grant) drop(a *Acquisition) {
	asPlanned := g.term.RenewAt == g.term.Renewal(g.renewal())
	g.close(a)
	if asPlanned {
		g.term.RenewAt = g.term.Renewal(g.renewal())
	}
}

// unregister removes the grant from its owner, and from its name if it excludes others there.
func (t *Table) unregister(g *Grant) {
	k := g.handle.Key
	g.listed = false
	if g.owner != nil {
		t.grants.Remove(g, g.owner, g.shared)
	}
	if !t.exclusive[k.Family].Remove(k.Name, g) {
		return
	}
	if l := t.lines.Of(k); l != nil {
		l.Head().bell.Ring()
	}
}

// holder returns the exclusive holder of a name in this process, or nil.
func (t *Table) holder(k Key) *Grant { return t.exclusive[k.Family][k.Name] }

// rival returns another owner's grant that holds the name exclusively in this process, or is being released. It returns nil
// if there is none.
func (t *Table) rival(g *Grant, now clock.Instant) *Grant {
	h := t.holder(g.handle.Key)
	if h != nil && !h.sameOwner(g) && (h.usable(now) || h.stage == releasing) {
		return h
	}
	return nil
}

// sending notes, before a command that may lengthen the lease is sent, until when Redis may keep the holder.
func (g *Grant) sending(lease time.Duration, now clock.Instant) {
	g.lengthened = g.lengthened || lease > g.term.Lease
	g.term.Sending(lease, g.table.cfg.CommandTimeout, now)
}

// confirm counts an acquire, a re-entry or a renewal that Redis granted, from the moment before it was sent.
func (g *Grant) confirm(sent clock.Instant, lease time.Duration, n *Notices) {
	if g.handle.Kind.Lasting {
		lease = term.Forever
	}
	g.term.Confirm(sent, lease)
	g.term.RenewAt = g.term.Renewal(g.renewal())
	if g.failures > 0 {
		n.Report(notice.RenewalRecovered, g.handle.Name, notice.LogRenewed, nil)
	}
	g.failures, g.alone, g.inRound = 0, false, false
	g.table.plan(g, n)
}

// maxFailures is more than any pause between two attempts depends on.
const maxFailures = 1000

// fail counts a renewal or a background release that failed, and returns how many did so in a row.
func (g *Grant) fail() int {
	g.failures = min(g.failures+1, maxFailures)
	return int(g.failures)
}

// awaitTurn returns the step that waits until the grant should be looked at again.
func (g *Grant) awaitTurn(pause time.Duration) Step {
	return Step{Do: Sleep, Pause: pause, Wait: g.turns.Idle()}
}

// retire ends the grant here. A background release follows if Redis may have the holder, or may still make one.
func (t *Table) retire(g *Grant, now clock.Instant, n *Notices) {
	t.unregister(g)
	if g.inDoubt || g.needsCleanup {
		t.cleanUp(g, now, n)
	} else {
		t.finish(g)
	}
}

// cleanUp hands the release of a grant to the background, which tries it until Redis replies or the release can no longer matter.
func (t *Table) cleanUp(g *Grant, now clock.Instant, n *Notices) {
	if !t.tasks.Keep() {
		if g.handle.Kind.Lasting {
			n.Log(g.handle.Name, notice.LogNotGivenBack, fault.ErrClosed)
		}
		t.finish(g)
		return
	}
	t.counts.leave(g.stage)
	t.counts.InDoubt++
	if g.handle.Kind.Lasting && g.stage != retiring {
		t.owed++
	}
	g.stage, g.attempt = retiring, nil
	g.failures = 0
	giveUpAt := max(now.Add(max(g.tombstone(), t.cfg.CommandTimeout)), g.term.LatestExpiry)
	if g.handle.Kind.Queues {
		giveUpAt = giveUpAt.Add(t.cfg.FairWait) // a place in the queue outlasts its waiter by that time
	}
	if g.stood() != 0 {
		giveUpAt = max(giveUpAt, now.Add(lineLife))
	}
	g.rarely().giveUpAt = giveUpAt
	t.schedule(g, now, n)
	g.turns.Notify()
}

// finish ends the grant for good.
func (t *Table) finish(g *Grant) {
	t.counts.leave(g.stage)
	if g.handle.Kind.Lasting && g.stage == retiring {
		t.owed--
	}
	t.alive.Forget(g.holder.Number, g)
	g.stage, g.attempt = retired, nil
	t.heap.Remove(g)
	g.turns.Notify()
}

// tombstone returns the lifetime of the tombstone that a release writes for the grant's number. It is zero, which means
// none, if every command that could create its holder had a reply.
func (g *Grant) tombstone() time.Duration {
	if !g.inDoubt {
		return 0
	}
	return policy.Tombstone(g.term.Lease)
}

// attach has the owner remember a lost grant until all of its acquisitions are closed.
func (g *Grant) attach() {
	if g.owner != nil && g.mustUnlock() {
		g.owner.Attach(g.handle.sideKey(), g)
	}
}

// settleLost forgets a lost grant once all of its acquisitions are closed.
func (g *Grant) settleLost() {
	if g.owner != nil && !g.mustUnlock() {
		g.owner.Detach(g.handle.sideKey(), g)
	}
}

// Inspect returns the call that asks Redis about the lock, and whether it is held by this grant.
func (g *Grant) Inspect() wire.Call {
	defer g.table.lock().Unlock()
	return g.inRedis().Inspect(g.handle.Names())
}

// acquired makes an acquisition of a held grant.
func (g *Grant) acquired(a *Attempt) *Acquisition {
	q := g.another()
	*q = Acquisition{
		grant: g, handle: a.Handle, byHold: a.ByHold,
		plain: !g.shared && g.open() == 1, done: a.Done,
	}
	if a.Renewed {
		q.renewal = a.Lease
	}
	g.table.open++
	if !q.byHold {
		a.Handle.unlocks.Add(q)
		a.Handle.locked = true
		g.owes(q, a.by)
	}
	return q
}

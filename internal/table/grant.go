package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// plan sets when a grant that is not over here must be looked at.
func (t *Table) plan(g *Grant, n *notice.List) {
	switch {
	case g.stage == held && !t.closed:
		t.schedule(g, g.term.Due(!g.inRound && g.renewing()), n)
	case g.stage == expired:
		t.schedule(g, g.term.Ends(), n)
	}
}

// schedule has a grant looked at in time.
func (t *Table) schedule(g *Grant, due clock.Instant, n *notice.List) {
	t.heap.Set(g, due)
	if at := t.heap.Alarm(); at != 0 {
		n.Alarm(at)
	}
}

// over reports whether the grant has ended in this process.
func (g *Grant) over() bool { return g.stage == retiring || g.stage == retired }

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

// shrink drops the texts that can be made again. They are half of what a held lock takes, and much of what a waiter does. Nobody needs
// them until the next renewal, or the unlock.
func (g *Grant) shrink() {
	g.handle.names.Drop()
	g.holder.Shrink()
}

// HeldAs implements owner.Holding.
func (g *Grant) HeldAs() HeldKey { return g.handle.sideKey() }

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
	if l := t.queueOf(k); l != nil {
		l.Head().bell.Ring()
	}
}

// holder returns the exclusive holder of a name in this process, or nil.
func (t *Table) holder(k Key) *Grant { return t.exclusive[k.Family][k.Name] }

// rival returns another owner's grant that holds the name exclusively in this process, or is being released. It returns nil
// if there is none.
func (t *Table) rival(g *Grant, now clock.Instant) *Grant {
	k := g.handle.Key
	h := t.exclusive[k.Family][k.Name]
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
func (g *Grant) confirm(sent clock.Instant, granted time.Duration, n *notice.List) {
	longest, shortest := g.renewal()
	g.term.Confirm(sent, granted)
	g.term.RenewAt = g.term.Renewal(longest, shortest)
	if g.failures > 0 {
		n.Report(observe.EventRenewalRecovered, g.handle.Name, notice.LogRenewed, nil)
	}
	g.failures, g.alone, g.inRound = 0, false, false
	if t := g.table; !t.closed {
		t.schedule(g, g.term.Due(shortest > 0), n)
	}
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
func (t *Table) retire(g *Grant, now clock.Instant, n *notice.List) {
	t.unregister(g)
	if g.inDoubt || g.needsCleanup {
		t.cleanUp(g, now, n)
	} else {
		t.finish(g)
	}
}

// cleanUp hands the release of a grant to the background, which tries it until Redis replies or the release can no longer matter.
func (t *Table) cleanUp(g *Grant, now clock.Instant, n *notice.List) {
	if !t.tasks.Keep() {
		t.finish(g)
		return
	}
	t.counts.leave(g.stage)
	t.counts.InDoubt++
	g.stage, g.attempt, g.failures = retiring, nil, 0
	giveUpAt := max(now.Add(max(g.tombstone(), t.cfg.CommandTimeout)), g.term.LatestExpiry)
	if g.handle.Kind.Queues {
		giveUpAt = giveUpAt.Add(t.cfg.FairWait) // a place in the queue outlasts its waiter by that time
	}
	if g.lineTerm() != 0 {
		giveUpAt = max(giveUpAt, now.Add(lineLife))
	}
	g.rarely().giveUpAt = giveUpAt
	t.schedule(g, now, n)
	g.turns.Notify()
}

func (t *Table) finish(g *Grant) {
	t.counts.leave(g.stage)
	delete(t.alive, g.holder.Number)
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
	return config.Tombstone(g.term.Lease)
}

// attach has the owner remember a lost grant until all of its acquisitions are closed.
func (g *Grant) attach() {
	if g.owner != nil && g.mustUnlock() {
		g.owner.Attach(g.handle.sideKey(), g)
	}
}

// forgetLost forgets a lost grant once all of its acquisitions are closed.
func (g *Grant) forgetLost() {
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
		grant: g, handle: a.Handle, byHold: a.ByHold, plain: a.Owner == nil,
	}
	if a.Renewed {
		q.renewal = a.Lease
	}
	g.table.open++
	if !q.byHold {
		a.Handle.unlocks.Add(q)
	}
	return q
}

// leavesMore reports whether a grant that is parked or exported has left more in Redis than its holder, or may yet do so. A background
// release of the holder, which is gone, removes that.
func (g *Grant) leavesMore() bool {
	return g.inDoubt || g.needsCleanup || g.lineTerm() != 0 || g.rare != nil && g.rare.seat != nil
}

// lineTerm returns the term with which the grant may still stand in the line in Redis, although it does not wait any more. Zero
// means that it stands in no line.
func (g *Grant) lineTerm() time.Duration {
	if g.rare == nil {
		return 0
	}
	return g.rare.lineTerm
}

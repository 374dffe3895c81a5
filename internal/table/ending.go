package table

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table/internal/fairness"
	"github.com/go-rlock/rlock/observe"
)

// endLost ends the unlock of an acquisition whose grant is over, without a turn.
func (t *Table) endLost(x *Exit) Step {
	g, a := x.grant, x.acq
	g.drop(a)
	a.handle.unlocks.Forget(a)
	g.forgetLost()
	g.table.unlocked(a)
	if why := a.ending.Err(); errors.Is(why, fault.ErrLost) {
		return x.finish(why)
	}
	return x.finish(lossOf(a.handle, g.whyLost())) // it was ended before: by Close, or by an unlock that waited for its turn
}

// quit ends a hold whose last unlock, or export, begins.
func (t *Table) quit(g *Grant) {
	t.counts.leave(g.stage)
	g.stage = releasing
	t.heap.Remove(g)
}

// left returns for how long the next command of an exit may take, if it tried something before. Zero means the command timeout.
func (t *Table) left(x *Exit, now clock.Instant) time.Duration {
	if spent := now.Sub(x.start); spent > 0 && !x.background {
		return max(t.cfg.CommandTimeout-spent, time.Millisecond)
	}
	return 0
}

// endPart ends an exit that leaves the grant as it is.
func (t *Table) endPart(x *Exit, err error) Step {
	x.grant.turns.End()
	t.unlocked(x.acq)
	return x.finish(err)
}

func (x *Exit) finish(err error) Step {
	x.phase = released
	return Step{Do: Done, Err: err}
}

// noteRelease remembers a release of which other processes got a message.
func (t *Table) noteRelease(x *Exit, freed int64, now clock.Instant) {
	g := x.grant
	others, own := x.snapshot.After(freed-1, g.handle.Kind.Messages)
	if freed > 0 && t.cfg.Cluster && g.handle.Kind.Channel != "" {
		others = max(others, 1) // Redis does not count the receivers at other nodes
	}
	if others > 0 && !x.parks && t.holder(g.handle.Key) == g {
		t.publicReleases.Set(g.handle.Key, fairness.Release{At: now, Turn: now.Sub(g.streak.since), Others: others, Own: own})
	}
}

// endRelease ends an exit and its grant, after a reply to the release.
func (t *Table) endRelease(x *Exit, err error, now clock.Instant, n *notice.List) Step {
	if err != nil {
		t.counts.lost(x.grant)
	}
	t.over(x.grant, x.start, err, n)
	t.unregister(x.grant)
	if (x.parks || x.ticket != nil) && x.grant.leavesMore() {
		x.grant.rarely().park = nil
		t.cleanUp(x.grant, now, n)
	} else {
		t.finish(x.grant)
	}
	return t.endPart(x, err)
}

// endGone ends an exit whose release found that the lock was lost before. If the reply comes after the deadline, nobody need have taken it away.
func (t *Table) endGone(x *Exit, why error, now clock.Instant, n *notice.List) Step {
	if errors.Is(why, errHolderGone) && x.grant.term.Past(now) {
		why = errLeaseEnded
	}
	if x.acq.renewal > 0 {
		n.Report(observe.EventLost, x.grant.handle.Name, notice.LogLost, lossOf(x.grant.handle, why))
	}
	x.grant.rarely().loss = x.grant.lostBy(x.sent) // the reply may come after the deadline, and yet it was gone before
	return t.endRelease(x, why, now, n)
}

// endSilent ends an exit whose release failed or had no reply. Its grant is over nevertheless, and the release goes on in
// the background.
func (t *Table) endSilent(x *Exit, err error, now clock.Instant, n *notice.List) Step {
	t.over(x.grant, x.start, nil, n)
	t.unregister(x.grant)
	t.cleanUp(x.grant, now, n)
	return t.endPart(x, err)
}

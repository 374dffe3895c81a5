package table

import (
	"errors"
	"slices"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// mayReenter reports whether the owner of an attempt holds the name by another acquisition than the one that it
// got, which may be nil.
func (w *world) mayReenter(v *verb, got *Acquisition) bool {
	t := v.proc.table
	for _, side := range [2]wire.Side{wire.MainSide, wire.ReadSide} {
		g := t.grants.Of(HeldKey{v.a.Handle.Key, side}, v.a.owner)
		if !g.usable(w.now) {
			continue
		}
		open := g.open()
		if got != nil && g == got.grant {
			open--
		}
		if open > 0 {
			return true
		}
	}
	return false
}

// open counts the acquisitions of a process that a caller could still unlock, or whose unlock is under way.
func (w *world) open(p *process) int {
	n := 0
	for _, r := range w.records {
		if r.proc == p && !r.settled && !r.over && (r.unlocked || r.acq.ending.Err() == nil) {
			n++
		}
	}
	for _, v := range w.verbs { // handed over, and not returned yet
		if v.proc == p && v.a.got != nil && v.a.got.ending.Err() == nil {
			n++
		}
	}
	return n
}

// checkStop checks a process that shuts down: it is drained exactly when nothing is open, and renews until then.
func (w *world) checkStop(p *process) {
	if p.drained == nil || p.closed {
		return
	}
	if drained := ready(p.drained, false); !drained && w.open(p) == 0 {
		w.failf("Drained: c%d is not drained, and nothing is open", p.index)
	} else if drained && w.open(p) > 0 {
		w.failf("Drained: c%d is drained, and %d are open", p.index, w.open(p))
	}
	for _, r := range w.records {
		if r.proc == p && !r.unlocked && !errors.Is(r.told, fault.ErrClosed) && r.acq.ending.Err() == nil {
			w.failf("Stopped: the holder of #%d is not told", r.acq.grant.holder.Number)
		}
	}
	if n := p.table.Counts().HandOvers; n != p.handOvers {
		w.failf("Stopped: c%d hands over", p.index)
	}
	for _, g := range p.table.heap.All() {
		if g.stage == held && !g.inRound && g.renewing() && g.DueAt() > g.term.RenewAt {
			w.failf("Stopped: c%d does not renew #%d", p.index, g.holder.Number)
		}
	}
}

// checkCounts checks the gauges of a process.
func (w *world) checkCounts(p *process) {
	var want Counts
	for _, g := range p.table.heap.All() {
		switch g.stage {
		case held:
			want.Held++
		case retiring:
			want.InDoubt++
		default: // no gauge has it
		}
	}
	for _, e := range w.exits {
		if e.proc == p && e.x.background && !slices.Contains(p.table.heap.All(), e.x.grant) {
			want.InDoubt++
		}
	}
	for _, v := range w.verbs {
		if v.proc == p && v.slept {
			want.Waiting++
		}
	}
	got := p.table.Counts()
	if got.Held != want.Held || got.Waiting != want.Waiting || got.InDoubt != want.InDoubt {
		w.failf("Counts: c%d has %+v, and not %+v", p.index, got, want)
	}
}

// stop begins to shut a process down. A repetition changes nothing.
func (w *world) stop() bool {
	p := w.someone()
	seldom := 16
	for _, v := range w.verbs {
		switch {
		case v.proc != p:
		case v.a.got != nil: // a lock was handed over, and its caller has not got it yet: that is rare
			seldom = 1
		case v.a.phase == resting && v.a.queue != nil && p.table.holder(v.a.Handle.Key) != nil:
			seldom = min(seldom, 2) // a lock could be handed over
		}
	}
	if p.closed || w.keepsOn || w.rand(seldom) > 0 {
		return false
	}
	if p.drained == nil {
		p.handOvers = p.table.Counts().HandOvers
	}
	p.drained = p.table.Stop(&p.notices)
	p.deliver()
	w.logf("c%d shuts down", p.index)
	return true
}

func (w *world) close() bool {
	p := w.someone()
	if p.closed || w.rand(3) > 0 {
		return false
	}
	p.closed = true
	p.tasks.Close()
	open := w.open(p)
	if left, _ := p.table.Close(w.now, &p.notices); left != open {
		w.failf("Drained: Close finds %d open acquisitions, and not %d", left, open)
	}
	p.deliver()
	for _, r := range w.records {
		if r.proc == p && r.acq.Err(w.now) == nil {
			w.failf("Ends: a lock is held after Close")
		}
	}
	return true
}

package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/notice"
)

// soonSuspect is after how long, at most, a wait for a hold with the same context is logged.
const soonSuspect = time.Second

// suspect notes the hold for which an attempt begins to wait, if it may be the hold of the attempt's own caller. Such a hold is
// older than the attempt. The wait is suspicious soon if the attempt has the context with which the hold was acquired.
// Otherwise it is so after a lease of the hold.
func (t *Table) suspect(a *Attempt) {
	h := t.holder(a.Handle.Key)
	if a.suspected || h == nil {
		return
	}
	a.Seen.Here = a.Seen.Here || !h.sameOwner(a.grant)
	a.suspected = true
	if !h.renewing() && h.term.Lease <= 3*soonSuspect {
		return // it ends by itself soon
	}
	same := false
	for i := range h.open() {
		same = same || a.Done != nil && h.at(i).done == a.Done
	}
	switch {
	case h.stage != held || h.sameOwner(a.grant) || h.rare != nil && h.rare.accused || h.streak.began() > a.began:
	case same:
		a.own, a.SuspectAfter = h, min(soonSuspect, h.term.Lease/3)
	default: // also with an owner: WithOwner inside Do waits for itself
		a.own, a.SuspectAfter = h, h.term.Lease
	}
}

// Suspect logs that an attempt may wait for a hold of its own caller, if it still waits for that hold: once for each hold. It
// is called [Attempt.SuspectAfter] after the attempt began to sleep. Meanwhile the attempt may take its steps.
func (t *Table) Suspect(a *Attempt, n *notice.List) {
	defer t.lock().Unlock()
	h := a.own
	if a.phase == done || h.stage != held || h.rare != nil && h.rare.accused || t.closed {
		return
	}
	h.rarely().accused = true
	message := notice.LogLong
	if a.SuspectAfter < h.term.Lease {
		message = notice.LogSelf
	}
	n.Report(notice.SelfDeadlock, h.handle.Name, message, nil)
}

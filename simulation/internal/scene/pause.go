package scene

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/simseed"
)

// pauses stops a process for a while, and continues it: no goroutine of it runs meanwhile, and its timers fire late. What it has sent is
// executed, and what it is sent arrives. Others may have its locks once their leases have ended. Without the changed runtime, nothing stops.
func (s strike) pauses() {
	if !simseed.Deterministic {
		return
	}
	var d time.Duration
	switch s.random.IntN(3) {
	case 0: // as on a busy machine: too short for a lease to end that is renewed
		d = logarithmic(s.random, time.Millisecond, time.Second)
		s.disturb(d + 2*time.Second)
	case 1: // of the leases, only first terms end
		d = s.upTo(5 * time.Second)
		s.disturb(d + 12*time.Second)
	case 2:
		d = s.upTo(watchdogTimeout + 10*time.Second)
		s.disturb(leasesEnd + 12*time.Second)
	}
	s.mu.Lock()
	s.p.pauses = append(s.p.pauses, span{time.Now(), time.Now().Add(d)})
	for _, t := range s.wanted {
		for _, a := range t.waiting {
			a.troubled = a.troubled || a.p == s.p
		}
	}
	s.mu.Unlock()
	s.trace.Note("%v is stopped for %v", s.p, d)
	s.p.self.Stop()
	time.Sleep(d)
	s.p.self.Continue()
	s.trace.Note("%v continues, after %v", s.p, d)
	time.Sleep(min(4*time.Second, 4*d))
}

// pausedSince returns the longest time for which the process was stopped since a moment. The run must be locked.
func (p *process) pausedSince(t time.Time) (longest time.Duration) {
	for _, pause := range p.pauses {
		if !pause.to.Before(t) {
			longest = max(longest, pause.to.Sub(pause.from))
		}
	}
	return longest
}

// missed reports whether the process was stopped since a moment, or its connections hung for long: what it was told meanwhile may have been over
// when it heard of that. The run must be locked.
func (p *process) missed(t time.Time) bool {
	return slices.ContainsFunc(slices.Concat(p.pauses, p.clogs), func(s span) bool { return !s.to.Before(t) })
}

// isPaused reports whether the process is stopped, or has just continued and may not have noticed yet what it missed. The run must be locked.
func (p *process) isPaused() bool {
	n := len(p.pauses)
	return n > 0 && time.Now().Before(p.pauses[n-1].to.Add(p.glance()))
}

// resumed returns when the process last continued. The run must be locked.
func (p *process) resumed() (t time.Time) {
	for _, pause := range p.pauses {
		t = pause.to
	}
	return t
}

// outlasted reports whether the process was stopped, or its connections hung, for so long since an owner got its target that the lease may have
// ended: a renewal had to come within the first term, and then a third of the lease after the one before. The run must be locked.
func (h *holder) outlasted() bool {
	for _, pause := range slices.Concat(h.p.pauses, h.p.clogs) {
		first := pause.from.Sub(h.since) < firstTerm+commandTimeout && pause.to.Sub(pause.from) > time.Second
		if pause.to.After(h.asked) && (first || pause.to.Sub(pause.from) > h.watchdog()/2) {
			return true
		}
	}
	return false
}

// late reports whether an owner was told that it has its target after its process had been stopped: it may be over. Then it knows that by its
// hold, if it has one. The run must be locked.
func (h *holder) late() bool {
	return h.p.pausedSince(h.asked) > 0 && (h.blind || h.err() != nil)
}

// onlyStops reports whether nothing strikes but that processes are stopped.
func (s *Scene) onlyStops() bool {
	return len(s.Nemeses) > 0 && !slices.ContainsFunc(s.Nemeses, func(n string) bool { return n != nemesisStop })
}

// settled reports whether nothing is under way that a nemesis has delayed: none strikes, or only stops do, and every process runs and has nothing
// under way. The run must be locked.
func (r *run) settled() bool {
	if !r.onlyStops() {
		return time.Now().After(r.disturbed)
	}
	return !slices.ContainsFunc(r.processes, func(p *process) bool {
		return p.busy > 0 || len(p.pauses) > 0 && time.Now().Before(p.pauses[len(p.pauses)-1].to)
	})
}

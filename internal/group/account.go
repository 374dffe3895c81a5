package group

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/outcome"
)

// account has what each member of a group has answered during a request, over all of its rounds. So the class of the request's end
// does not depend on which questions were under way then. It is safe for concurrent use.
type account struct {
	rule  *rule
	floor time.Duration // how long a member may be silent before that counts as an outage

	mu      sync.Mutex // a leaf: what a question under way says is asked without it
	members []answers
	refused bool // some member has refused
}

// answers is what one member has answered.
type answers struct {
	outcome.Record

	heard    bool              // it has said something
	refusal  error             // the latest one
	sent     clock.Instant     // when it was asked last
	progress *outcome.Progress // of that question; nil means that it is over
}

// newAccount returns the account of a request that begins.
func newAccount(r *rule, floor time.Duration) *account {
	return &account{rule: r, floor: floor, members: make([]answers, len(r.names))}
}

// asked notes that a member was asked. An earlier question may still be under way.
func (c *account) asked(i int, p *outcome.Progress, now clock.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.members[i]
	for before := m.progress; before != nil && before != p; before = m.progress {
		c.mu.Unlock()
		said := before.At(now)
		c.mu.Lock()
		if m.progress == before { // otherwise it has ended meanwhile
			c.note(m, said)
			break
		}
	}
	m.sent, m.progress = now, p
}

// note notes what a question says whose outcome will come later, if at all.
func (c *account) note(m *answers, r outcome.Result) {
	switch {
	case r.Refused:
		c.failed(m, fault.ErrRefused)
	case r.Err != nil:
		c.failed(m, r.Err)
	default:
		m.Asked(0, m.sent)
	}
}

// took notes how a question ended. waited means that a member that was granted had refused before. Without a reply, the silence of the
// member counts from its oldest question that has none.
func (c *account) took(i int, p *outcome.Progress, waited bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.members[i]
	sent, progress := m.sent, m.progress
	if progress == p {
		progress = nil
	}
	if c.refused = c.refused || err == nil && waited; err != nil {
		c.failed(m, err)
	} else {
		*m = answers{heard: true}
	}
	m.sent, m.progress = sent, progress
}

func (c *account) failed(m *answers, err error) {
	switch {
	case errors.Is(err, fault.ErrNotAcquired):
		*m = answers{heard: true, refusal: err}
		m.Refused()
		c.refused = true
	case noReply(err):
		m.Asked(0, m.sent)
		if errors.Is(err, fault.ErrNoConnection) {
			m.Unsent()
		}
	default:
		*m = answers{heard: true}
		m.Failed(err)
	}
}

// at returns what a member says at a moment, and whether a question to it has no reply.
func (m *answers) at(now clock.Instant, floor time.Duration) (r outcome.Result, open bool) {
	known := m.Record
	if m.progress != nil {
		if r = m.progress.At(now); r.Known() && !cutOff(r.Err) {
			return r, false
		}
		if known.Asked(0, m.sent); r.Unsent {
			known.Unsent()
		}
	}
	return known.At(now, floor), known.Open()
}

// cutOff reports whether a call says no more than that the time of its question is over, which may have been short: as after its end,
// that is no answer, and the silence counts from when the member was asked.
func cutOff(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Fate == fault.Left
}

// known reports whether a member has refused or failed, at any time.
func (c *account) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.members {
		if m := &c.members[i]; m.heard && m.At(0, 1).Err != nil {
			return true
		}
	}
	return c.refused
}

// at returns the error of a request that ends at a moment. The latest answer of each member decides, unless the member has been
// silent for long since. If those who have a failure on record are none, and too few refuse now, it was refused if any member refused
// during the wait: all of them are well, and others were faster. certain means that the members have said so. Otherwise some have said
// nothing yet that would decide, and have not been silent for long.
func (c *account) at(now clock.Instant) (certain bool, err error) {
	c.mu.Lock()
	members, refused := slices.Clone(c.members), c.refused
	c.mu.Unlock()
	errs, silent := make([]error, len(members)), make([]error, len(members))
	refusals, failures, unheard, asked := 0, 0, 0, false
	for i := range members {
		m := &members[i]
		switch r, open := m.at(now, c.floor); {
		case r.Err != nil:
			errs[i] = r.Err
			failures++
		case r.Refused:
			errs[i] = cmp.Or(m.refusal, fault.ErrRefused)
			refusals++
		case open:
			asked, silent[i] = true, r.Silence()
			// Where one refusal decides, a question that is cut off changes nothing, also if it is the first to its member.
			if !m.heard && (!refused || c.rule.need < len(members)) {
				unheard++
			}
		}
	}
	spare := len(members) - c.rule.need
	switch {
	case refusals > spare:
		return true, c.rule.of(errs)
	case refusals+unheard > spare: // failures are not all of it: those who have said nothing yet may refuse
		for i, err := range silent {
			errs[i] = cmp.Or(errs[i], err)
		}
		return false, c.rule.of(errs)
	case failures > 0:
		return true, c.rule.of(errs)
	case refusals > 0:
		return true, c.rule.refused(errs)
	case refused:
		return true, fault.ErrRefused
	case asked:
		return false, c.rule.of(silent)
	}
	return false, fault.ErrLate // what was granted has run out
}

// resultOf returns what an error says of the lock. Nil says nothing.
func resultOf(err error) outcome.Result {
	if errors.Is(err, fault.ErrNotAcquired) {
		return outcome.Result{Refused: true}
	}
	return outcome.Result{Err: err}
}

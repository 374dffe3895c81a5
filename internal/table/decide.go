package table

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// While an owner of this process holds a lock, the head of the local queue does not ask Redis: it waits until the lock is
// handed over to it, or until it hears how the hold ended.

// grace is when the head asks Redis after a message that came while an owner of this process holds the lock. Mostly the
// message is about an earlier release of our own, and the lock has been handed over by then.
const grace = 5 * time.Millisecond

// decide returns for how long the head of a local queue has nothing to do, because this process knows that asking Redis is
// in vain. Zero or less means that it should ask.
func (t *Table) decide(a *Attempt, why Cause, now clock.Instant) time.Duration {
	if why == ByTime || a.Handle.Kind.Channel == "" { // a polling waiter asks whoever the holder is: it has no other chance
		return 0
	}
	if g := t.rival(a.grant, now); g != nil {
		return t.waitFor(a, g, why, now)
	}
	p := t.public.of(a.Handle.Key)
	if p == nil {
		return 0
	}
	until := p.at.Add(t.cfg.StandBack)
	if heard, _ := t.messages.Heard(a.Handle.Names().Channel); heard > p.own {
		if why != ByMessage {
			return 0
		}
		until = now.Add(p.yield(now))
	}
	if a.Ends != 0 && a.Ends < until {
		return 0
	}
	return until.Sub(now)
}

// waitFor returns for how long the head rests while another owner of this process holds the lock, or releases it.
func (t *Table) waitFor(a *Attempt, rival *Grant, why Cause, now clock.Instant) time.Duration {
	pause, soon := t.cfg.PollInterval, t.cfg.StandBack // a release that is announced is as good as answered
	if rival.stage == held {
		a.refuse()
		pause, soon = min(pause, rival.deadline.Sub(now)+rival.margin), grace
	}
	if why == ByMessage && a.askAt == 0 {
		a.askAt = now.Add(soon)
	}
	if a.askAt != 0 {
		pause = min(pause, a.askAt.Sub(now))
	}
	return pause
}

// refuse notes that the lock was refused without asking Redis.
func (a *Attempt) refuse() {
	a.asked = true // in effect: an attempt whose wait is over has been refused
	a.note(Outcome{Refused: true})
}

// refusedHere reports whether another owner of this process holds the lock, so that a single attempt need not ask.
func (t *Table) refusedHere(a *Attempt, now clock.Instant) bool {
	g := t.rival(a.grant, now)
	if g == nil || g.stage != held || a.grant.sibling().usable(now) {
		return false
	}
	if !g.renewing() && now.Sub(g.confirmed) > t.cfg.WatchdogTimeout/3 {
		return false // no renewal would show that the lock was taken away
	}
	a.refuse()
	return true
}

// publicRelease is a lock that was released while other processes listened.
type publicRelease struct {
	key    Key
	at     clock.Instant
	turn   time.Duration // for how long this process had had it
	others int64         // how many listened, as far as is known
	own    uint64        // with one more message of its channel than these, somebody else has released it since
}

// publicReleases remembers the latest one of a few names. A forgotten one costs other processes a turn, and no more.
type publicReleases struct {
	latest [8]publicRelease
	next   int
}

func (p *publicReleases) add(latest publicRelease) {
	at := slices.IndexFunc(p.latest[:], func(old publicRelease) bool { return old.key == latest.key })
	if at < 0 {
		at = p.next
		p.next = (p.next + 1) % len(p.latest)
	}
	p.latest[at] = latest
}

// of returns the latest one of a name, or nil.
func (p *publicReleases) of(k Key) *publicRelease {
	for i := range p.latest {
		if p.latest[i].key == k {
			return &p.latest[i]
		}
	}
	return nil
}

// yield returns how long to let other processes pass after a release by one of them. Redis notifies subscribers in a fixed
// order, so the same process would always win. A process that held the lock recently therefore waits a little longer, by at
// most a tenth of the time for which it held it.
func (p *publicRelease) yield(now clock.Instant) time.Duration {
	const shortest, longest = 50 * time.Microsecond, 500 * time.Microsecond // less cannot be slept
	if p.others < 2 || p.turn <= 0 {
		return 0
	}
	round := float64(p.turn) * float64(p.others+1)
	d := min(p.turn/10, longest)
	if d = time.Duration(float64(d) * (1 - float64(now.Sub(p.at))/round)); d < shortest {
		return 0
	}
	return d
}

// Yield is the pause before this process asks for a lock that somebody else has released: it released the lock itself so
// long ago, after a turn of that length, while others listened.
func Yield(turn, since time.Duration, others int64) time.Duration {
	now := clock.Instant(since) + 1
	return (&publicRelease{at: 1, turn: turn, others: others}).yield(now)
}

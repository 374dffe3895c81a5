package table

import (
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

// Epoch implements Messages.
func (p *process) Epoch(channel string) uint64 {
	if s := p.sub(channel); s != nil && s.confirmed {
		return s.epoch
	}
	return 0
}

// Counts implements Messages.
func (*process) Refused(string) *fault.Error { return nil }

func (p *process) Counts() bool { return p.world.counts }

// Unheard implements Messages. In the model, all subscriptions are at the server of the scripts.
func (p *process) Unheard(string, uint64) {}

// pumping is a command that a table asked for.
type pumping struct {
	own string
	at  clock.Instant
}

// Pump implements Told.
func (p *process) Pump(own string, after time.Duration) {
	p.pumps = append(p.pumps, &pumping{own, p.world.now.Add(after)})
}

// Watch implements Told. Both channels are in one command. The process does not subscribe to the twin while it listens to the
// channel as others do.
func (p *process) Watch(base, twin string) {
	atOnce := p.world.rand(2) == 0
	for _, channel := range [2]string{base, twin} {
		s := p.sub(channel)
		switch {
		case s != nil:
		case channel == twin && len(p.sub(base).listeners) > 0:
			continue
		default:
			s = p.subscribe(channel, false)
			s.subscribed = atOnce
		}
		if s.watches++; s.subscribed && channel == base { // it is told at least once that the lock may be free
			p.mail = append(p.mail, message{channel: channel, confirms: s})
		}
	}
}

// Unwatch implements Told.
func (p *process) Unwatch(base, twin string) {
	for _, channel := range [2]string{base, twin} {
		s := p.sub(channel)
		if s == nil || s.watches == 0 {
			if channel == base {
				p.world.failf("Empty: %s is unwatched, but nobody watches", base)
			}
			continue
		}
		if s.watches--; s.idle() {
			p.subs = queue.Without(p.subs, s)
		}
	}
	if s := p.sub(base); s == nil || s.watches == 0 { // here, no subscription outlasts its watch
		var n notice.List
		p.table.Unwatched(base, &n)
		n.Deliver(p)
	}
}

// hears passes a message on as the hub does.
func (w *world) hears(p *process, s *subscription, m message) {
	s.messages++
	switch m.payload {
	case "5":
		if base := p.sub(strings.TrimSuffix(strings.TrimSuffix(s.channel, "{}"), ":rlock-twin")); base != nil {
			base.public = w.now
		}
		return
	case "0", "1":
		w.epochs++
		s.epoch = w.epochs
		s.notify()
		public := s.public != 0 && w.now.Sub(s.public) < 100*time.Millisecond
		if s.public = 0; !public { // the process that made it looks after it
			p.freed(s)
		}
		return
	}
	told, ok := wire.ParseMessage(m.payload)
	switch {
	case !ok:
		w.failf("Message: %q", m.payload)
	case told.Subject == wire.AskAgain:
		w.epochs++
		s.epoch = w.epochs
		s.notify()
	default:
		if told.Subject == wire.Granted {
			w.hearsOf(p, m.name, told)
		}
		failed := make(map[*Attempt]error)
		for _, v := range w.verbs {
			failed[v.a] = v.a.failed
		}
		p.table.Hear(m.channel, told, w.now, &p.notices)
		w.givesBack(p, m.name, told)
		for _, v := range w.verbs {
			if v.a.failed != nil && failed[v.a] == nil {
				*w.evidenceOf(v.a) = evidence{failed: w.step}
			}
		}
		p.deliver()
		if told.Subject == wire.Watch && p.table.watches[m.channel] == nil {
			w.checkPump(p, m.name, "the request to watch")
		}
	}
}

// ranked is a waiter in the line of a name after the last action.
type ranked struct {
	inLine
	grant *Grant
	at    clock.Instant // of the server
}

// checkLines checks that no waiter loses its place in the line unless it left, got the lock, or was passed over for long
// enough, and that one that was passed over for long enough is removed.
func (w *world) checkLines() {
	for _, n := range w.names {
		s := n.server
		for i, m := range n.ranks {
			b, granted := s.born[m.field]
			granted = granted && b.lastly >= m.at
			over := m.missed != 0 && s.now.Sub(m.missed) >= passedOver
			switch {
			case m.epoch != s.epoch:
			case s.line.index(m.field) >= 0 && !over:
			case s.line.index(m.field) >= 0:
				for _, behind := range n.ranks[i+1:] {
					if b, ok := s.born[behind.field]; ok && b.lastly > m.at && s.line.index(behind.field) < 0 && s.told {
						w.failf("Turns: %s keeps its place, although it was passed over for long enough before %s", m.field, behind.field)
					}
				}
			case !over && !granted && m.grant != nil && m.grant.stage == pending && m.grant.inRedis().Field == m.field:
				w.failf("Turns: %s loses its place", m.field)
			}
		}
		for _, h := range s.holders {
			i := s.line.index(h.field)
			if i >= 0 && s.line.waiters[i].epoch == s.epoch && !s.line.waiters[i].late {
				w.failf("Line: %s has the lock, and stands in the line", h.field)
			}
		}
		n.ranks = n.ranks[:0]
		for _, m := range s.line.waiters {
			n.ranks = append(n.ranks, ranked{m, w.grants[m.field], s.world()})
		}
		s.told = false
	}
}

// checkStall checks that a free lock is given to a waiter of the line that can be reached, without a poll.
func (w *world) checkStall(n *name) {
	s := n.server
	if !s.lined || len(s.holders) > 0 {
		return
	}
	for _, m := range s.line.waiters {
		g := w.grants[m.field]
		if g == nil || g.stage != pending || m.epoch != s.epoch || !s.watching(n.server.ownChannel(w.base(n), m.field)) || w.procOf(g).stopped {
			continue
		}
		atOnce := 100 * time.Millisecond
		if slices.ContainsFunc(w.verbs, func(v *verb) bool { return v.name == n && v.a.retries > 0 }) {
			atOnce = soon // it pauses after a failure
		}
		if !w.anyWakes(n, atOnce) {
			w.failf("Stall: %s is free, and nobody gives it to %s", n.text, m.field)
		}
		return
	}
}

// freed says that the lock of a watched channel may be free.
func (p *process) freed(s *subscription) {
	if s.watches > 0 && !strings.Contains(s.channel, ":rlock-twin") {
		p.table.Freed(s.channel, &p.notices)
		p.deliver()
	}
}

// pump sends a command that a table asked for.
func (w *world) pump() bool {
	for _, p := range w.procs {
		i := slices.IndexFunc(p.pumps, func(q *pumping) bool { return q.at <= w.now })
		if i < 0 || p.stopped {
			continue
		}
		q := p.pumps[i]
		p.pumps = slices.Delete(p.pumps, i, i+1)
		c := p.table.PumpCall(q.own)
		w.bag = append(w.bag, &flight{call: c, proc: p, name: w.nameOf(text(c.Keys[0])), pump: q, until: w.now.Add(modelCommand)})
		w.logf("c%d pumps %s", p.index, q.own)
		return true
	}
	return false
}

// checkPump checks that a process follows up what left the lock free.
func (w *world) checkPump(p *process, n *name, what string) {
	if p.table.pumps[p.own(n)] == nil && !p.closed {
		w.failf("Pump: c%d does not follow up %s", p.index, what)
	}
}

// pumping reports whether a process is about to pump a name, perhaps when it knows that it watches the channel.
func (w *world) pumping(n *name) bool {
	base := w.base(n)
	return base != "" && slices.ContainsFunc(w.procs, func(p *process) bool {
		s := p.sub(base)
		return slices.ContainsFunc(p.pumps, func(q *pumping) bool { return q.own == p.own(n) }) || s != nil && s.watches > 0 && !s.confirmed
	})
}

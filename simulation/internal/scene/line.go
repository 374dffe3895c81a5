package scene

import (
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// line is where those stand in Redis that wait for a lock. Fair locks whose names differ only in braces have one.
type line struct {
	key    string
	list   bool // a fair queue; a sorted set otherwise
	of     []*target
	excess map[*process]time.Time // since when more stand there for a process than want the lock there
	told   bool                   // of somebody who has the lock, too
}

// lined adds the line of a target, if it has one.
func (r *run) lined(t *target) {
	l := &line{excess: make(map[*process]time.Time)}
	switch {
	case t.counts(), t.kind == kindRed, t.kind == kindLatch, r.Broadcast:
		return
	case t.fair():
		l.key, l.list = redissonQueue(t.name), true
	default:
		l.key, _ = wire.NewNames(wire.Kinds["lock"], t.name, "").LineKeys[1].(string)
	}
	if i := slices.IndexFunc(r.lines, func(o *line) bool { return o.key == l.key }); i >= 0 {
		l = r.lines[i]
	} else {
		r.lines = append(r.lines, l)
	}
	l.of = append(l.of, t)
}

// lineGlances is how often the watch looks until it looks at the lines.
const lineGlances = 8

func redissonQueue(name string) string {
	key, _ := wire.NewNames(wire.Kinds["fair"], name, "").Keys[1].(string)
	return key
}

// members returns who stands in a line.
func (r *run) members(l *line) (all []string) {
	r.home(l.of[0].name).With(func(s *simredis.Server) {
		command := "ZRANGE"
		if l.list {
			command = "LRANGE"
		}
		members, _ := s.Do(command, l.key, "0", "-1").([]any)
		for _, m := range members {
			m, _ := m.(string)
			all = append(all, m)
		}
	})
	return all
}

// queued checks that no more stand in a line for a living process than want the lock there. The run must be locked.
func (r *run) queued(l *line, members []string, down bool) {
	now := time.Now()
	for _, p := range r.processes {
		stand := 0
		for _, m := range members {
			if strings.HasPrefix(m, p.clients[0].ID()) {
				stand++
			}
		}
		switch {
		case stand <= l.wanting(p), down, p.ended, !p.healthy(), now.Before(r.disturbed):
			delete(l.excess, p)
		case l.excess[p].IsZero():
			l.excess[p] = now
		case now.Sub(l.excess[p]) > max(r.strayFor(), 2*lineGlances*r.glance()): // each of two looks may meet another one that is leaving
			r.brokenf("left: for %v, more have stood in %s for %v than want the lock there: %v", now.Sub(l.excess[p]), l.key, p, members)
			l.excess[p] = now.Add(time.Hour)
		}
	}
}

// served returns the members of a line who have the lock. A fair queue has seats, which others take next. After a failover, a client whose
// subscription is still at the old master does without the line for a while, and takes the lock although it stands there.
func (r *run) served(l *line, all []string) (have []string) {
	if l.list || r.Topology != "" {
		return nil
	}
	r.home(l.of[0].name).With(func(s *simredis.Server) {
		for _, m := range all {
			holder, _, _ := strings.Cut(m, "|")
			has := func(t *target) bool { return s.Do("HEXISTS", t.name, holder) == int64(1) }
			if slices.ContainsFunc(l.of, has) && s.Do("ZSCORE", l.key, m) != nil {
				have = append(have, m)
			}
		}
	})
	return have
}

// leavesLine checks that a waiter that has got the lock stands in the line no more: the script that gives it the lock takes it out. A client that
// was not permitted to subscribe does without the line for a while.
func (r *run) leavesLine(l *line, served []string) {
	unlined := slices.Contains(r.Nemeses, nemesisBusy) && time.Now().Before(r.disturbed)
	if len(served) > 0 && !l.told && !unlined {
		l.told = true
		r.brokenf("left: %v have the lock, and stand in %s", served, l.key)
	}
}

// wanting is how many calls of a process want a lock whose line this is. The run must be locked.
func (l *line) wanting(p *process) (n int) {
	for a := range p.wants() {
		if slices.ContainsFunc(l.of, a.of.meets) {
			n++
		}
	}
	return n
}

// waitFor returns the attempts of a process that want what a target has. The run must be locked.
func (p *process) waitFor(of *target) (all []*attempt) {
	for a := range p.wants() {
		if a.of.meets(of) {
			all = append(all, a)
		}
	}
	return all
}

package scene

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// The kinds of what a scene's workers want.
const (
	kindLock       = "lock"
	kindFenced     = "fenced"
	kindFair       = "fair"
	kindFencedFair = "fenced fair"
	kindSpin       = "spin"
	kindRW         = "rw"
	kindFencedRW   = "fenced rw"
	kindYieldingRW = "yielding rw" // its readers wait for writers
	kindSemaphore  = "semaphore"
	kindPlain      = "plain semaphore" // in scenes in which no process dies, because the permits of the dead are gone
	kindMulti      = "multi"
	kindRed        = "red"
	kindElection   = "election" // of the fenced lock of its name
	kindLatch      = "latch"
)

// target is one lock, and what the checkers know of it. The mutex of the run guards it.
type target struct {
	kind, name string
	members    []*target // of a multi lock

	inside  []*holder
	waiting []*attempt
	tokens  promises.Tokens
	deeds
	freeSince time.Time // as the watch sees it; zero means that it is not free
	kept      time.Time // until when the lock is kept by AtLeast
	untold    time.Time // until when waiters need not notice that the lock is free
	deleting  time.Time // when somebody began to delete it for the last time
	deleted   time.Time // when that was done
	last      time.Time // when a worker last began or ended something with it
	wrote     time.Time // until when a writer may have left it last
	extra     int       // permits that were added for a while
	out       int       // permits of a plain semaphore that somebody has
	taken     int       // how often the processes have taken it
	stray     stray
	exported  string    // the latest ticket
	ticketed  string    // its holder in Redis
	unadopted time.Time // until when that may be there, because nobody could adopt it
	relic     string    // the holder in the data with which the server last started again
}

// permits is how many permits a semaphore has.
const permits = 3

func (t *target) counts() bool { return t.kind == kindSemaphore || t.kind == kindPlain }

// greatest returns the greatest token.
func (t *target) greatest() rlock.Token { return rlock.Token(t.tokens.Greatest()) }

func (t *target) shares() bool {
	return t.kind == kindRW || t.kind == kindFencedRW || t.kind == kindYieldingRW
}

func (t *target) fenced() bool {
	return t.kind == kindFenced || t.kind == kindFencedFair || t.kind == kindFencedRW || t.kind == kindElection
}

func (t *target) fair() bool { return t.kind == kindFair || t.kind == kindFencedFair }

// atoms are the locks that an acquisition of the target takes.
func (t *target) atoms() []*target {
	if t.kind == kindMulti {
		return t.members
	}
	return []*target{t}
}

// group reports whether the target is several locks.
func (t *target) group() bool { return t.kind == kindMulti || t.kind == kindRed }

// meets reports whether an acquisition of one target takes a lock that one of the other takes.
func (t *target) meets(o *target) bool {
	return slices.ContainsFunc(t.atoms(), func(m *target) bool { return slices.Contains(o.atoms(), m) })
}

// prepare makes the targets, and gives the semaphores their permits.
func (r *run) prepare() {
	byName := make(map[string]*target)
	add := func(kind, name string) *target {
		if byName[name] == nil {
			t := &target{kind: kind, name: name}
			byName[name] = t
			r.locks = append(r.locks, t)
			r.lined(t)
		}
		return byName[name]
	}
	for _, l := range r.Locks {
		if l.Kind != kindMulti {
			r.wanted = append(r.wanted, add(l.Kind, l.Name))
			continue
		}
		t := &target{kind: kindMulti, name: l.Name}
		for name := range strings.FieldsSeq(l.Name) {
			t.members = append(t.members, add(memberKind(name), name))
		}
		r.wanted = append(r.wanted, t)
	}
	r.setPermits()
}

// memberKind returns the kind of a member of a multi lock.
func memberKind(name string) string {
	switch {
	case strings.HasPrefix(name, "fair"):
		return kindFair
	case strings.HasPrefix(name, "fenced"):
		return kindFenced
	case strings.HasPrefix(name, "rw"):
		return kindRW
	}
	return kindLock
}

// most returns how many permits a semaphore may have out. The run must not be locked.
func (r *run) most(t *target) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return permits + t.extra
}

// setPermits sets how many permits semaphores have, which no client does. A server of a cluster that has forgotten nothing keeps what it has.
func (r *run) setPermits() {
	if r.Total {
		return
	}
	for _, t := range r.locks {
		if t.counts() {
			r.home(t.name).Do("SET", t.name, strconv.Itoa(permits), "NX")
		}
	}
}

// acquirer returns a new handle of the process. reads selects a side of a read-write lock.
func (p *process) acquirer(t *target, reads bool) handles.Any {
	c := p.clients[0]
	switch t.kind {
	case kindFenced, kindElection:
		return c.NewLock(t.name, rlock.Fenced())
	case kindFair:
		return c.NewFairLock(t.name)
	case kindFencedFair:
		return c.NewFairLock(t.name, rlock.Fenced())
	case kindSpin:
		return c.NewSpinLock(t.name)
	case kindRW, kindFencedRW, kindYieldingRW:
		var opts []rlock.LockOption
		switch t.kind {
		case kindFencedRW:
			opts = append(opts, rlock.Fenced())
		case kindYieldingRW:
			opts = append(opts, rlock.WriterPreference())
		}
		if reads {
			return c.NewRWLock(t.name, opts...).Reader()
		}
		return c.NewRWLock(t.name, opts...).Writer()
	case kindSemaphore:
		return c.NewSemaphore(t.name, p.total()...)
	case kindMulti:
		var members []*rlock.Lock
		for _, m := range t.members {
			member, _ := p.acquirer(m, reads).(*rlock.Lock)
			members = append(members, member)
		}
		return rlock.NewMultiLock(members...)
	case kindRed:
		var members []*rlock.Lock
		for _, client := range p.clients {
			members = append(members, client.NewLock(t.name))
		}
		return rlock.NewRedLock(members...)
	}
	return c.NewLock(t.name)
}

// total returns the option that sets semaphores up, in scenes that want it.
func (p *process) total() []rlock.LockOption {
	if p.Total {
		return []rlock.LockOption{rlock.Total(permits)}
	}
	return nil
}

// vacant reports whether nobody has a target in Redis, or waits for it there. It looks at one server.
func (r *run) vacant(t *target) bool {
	if t.counts() {
		return r.free(t)
	}
	for _, a := range t.atoms() {
		taken := false
		r.home(a.name).With(func(s *simredis.Server) { taken = s.Do("EXISTS", a.name) != int64(0) })
		stands := func(l *line) bool { return slices.Contains(l.of, a) && len(r.members(l)) > 0 }
		if taken || slices.ContainsFunc(r.lines, stands) {
			return false
		}
	}
	return true
}

// free reports whether anybody could have the target now, as the servers see it. Where some may and others not, it is not free.
func (r *run) free(t *target) bool {
	switch t.kind {
	case kindSpin:
		return false // spinning is slow by nature
	case kindSemaphore, kindPlain:
		var have int
		r.home(t.name).With(func(s *simredis.Server) {
			text, _ := s.Do("GET", t.name).(string)
			have, _ = strconv.Atoi(text)
		})
		return have >= permits
	}
	for _, a := range t.atoms() {
		servers := r.servers
		if r.group != nil {
			servers = []*simnet.Server{r.home(a.name)}
		}
		for _, server := range servers {
			taken := false
			server.With(func(s *simredis.Server) { taken = s.Do("EXISTS", a.name) != int64(0) })
			if taken {
				return false
			}
		}
	}
	return true
}

package client

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// foreign has a process listen to a channel of the tests' lock that knows of no line. It returns its messages.
func (s *server) foreign() *subscription {
	sub := newSubscription(s)
	sub.foreign = true
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.channels = []string{s.base}
	s.subs = append(s.subs, sub)
	return sub
}

// takeForOthers has a holder that knows of no line take the tests' lock, if it is free.
func (s *server) takeForOthers(lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get(name) != nil {
		return false
	}
	s.locks[name] = &lockInRedis{holder: "java:1", count: 1, expires: until(lease.Milliseconds())}
	s.raw("HSET", name, "java:1", "1")
	s.raw("PEXPIRE", name, strconv.FormatInt(lease.Milliseconds(), 10))
	return true
}

// freeForOthers frees that lock as its release does, and announces it.
func (s *server) freeForOthers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.locks, name)
	s.raw("DEL", name)
	s.announce(s.base)
}

// cut breaks the subscription connections of all clients. The driver connects them again by itself after a while, as go-redis does.
func (s *server) cut(again time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		channels := sub.channels
		if len(channels) == 0 || sub.foreign {
			continue
		}
		sub.channels = nil
		sub.breaks <- &fault.Error{Fate: fault.InDoubt, Transient: true, Err: errConnectionReset}
		time.AfterFunc(again, func() { sub.confirm(channels) })
	}
}

// line returns the members of the tests' line.
func (s *server) line() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var members []string
	for key, q := range s.lines {
		if strings.Contains(key, name) {
			for _, w := range q.waiters {
				members = append(members, w.member)
			}
		}
	}
	return members
}

// loseLine empties every line, as FLUSHALL or a failover does.
func (s *server) loseLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.lines)
	s.raw()
}

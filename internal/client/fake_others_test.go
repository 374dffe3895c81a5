package client

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// foreign has a process listen to a channel of the tests' lock that knows of no line. It returns its messages.
func (s *server) foreign() *subscription { return s.listens(s.base) }

// listens has somebody who is no client listen to a channel.
func (s *server) listens(channel string) *subscription {
	sub := newSubscription(s)
	sub.foreign = true
	s.mu.Lock()
	s.subs = append(s.subs, sub)
	s.mu.Unlock()
	sub.confirm([]string{channel})
	<-sub.arrives
	return sub
}

// takeForOthers has a holder that knows of no line take the tests' lock, if it is free.
func (s *server) takeForOthers(lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis.Do("EXISTS", name) != int64(0) {
		return false
	}
	if len(s.frees) > 1 {
		s.redis.Do("HSET", name, "mode", "write", "java:1:write", "1")
	} else {
		s.redis.Do("HSET", name, "java:1", "1")
	}
	s.redis.Do("PEXPIRE", name, strconv.FormatInt(lease.Milliseconds(), 10))
	return true
}

// freeForOthers frees that lock as its release does, and announces it.
func (s *server) freeForOthers() {
	s.drop()
	s.announce()
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
		sub.deafen()
		sub.breaks <- &fault.Error{Fate: fault.InDoubt, Transient: true, Err: errConnectionReset}
		time.AfterFunc(again, func() { sub.confirm(channels) })
	}
}

// lineKey is the key of the line of the tests' lock.
var lineKey = text(wire.NewNames(wire.Plain, name, "").LineKeys[1])

// line returns the members of the tests' line.
func (s *server) line() (members []string) {
	all, _ := s.do("ZRANGE", lineKey, "0", "-1").([]any)
	for _, member := range all {
		if m := text(member); !strings.ContainsAny(m[:1], "!#") { // a mark
			members = append(members, m)
		}
	}
	return members
}

// loseLine empties the line, as FLUSHALL or a failover does.
func (s *server) loseLine() { s.do("DEL", lineKey) }

// count returns the count of the tests' latch.
func (s *server) count() int64 {
	n, _ := strconv.ParseInt(text(s.do("GET", name)), 10, 64)
	return n
}

// set sets the count of the tests' latch, as another process does. Zero deletes it, without a message.
func (s *server) set(count int64) {
	if count == 0 {
		s.drop()
		return
	}
	s.do("SET", name, strconv.FormatInt(count, 10))
}

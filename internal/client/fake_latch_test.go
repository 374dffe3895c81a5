package client

import (
	"strconv"

	"github.com/go-rlock/rlock/internal/wire"
)

// others has the names of the scripts that belong to no kind of lock.
var others = func() map[*wire.Script]string {
	all := make(map[*wire.Script]string)
	for name, s := range wire.Others {
		all[s] = name
	}
	return all
}()

// other carries out a script that belongs to no kind of lock. The server's mutex must be held.
func (s *server) other(command string, c *wire.Call) wire.Reply {
	if command == "latch count" {
		return wire.Reply{N: s.counts[c.Key()]}
	}
	key, _ := c.Keys[len(c.Keys)-1].(string)
	marks := s.marks[key]
	if marks == nil {
		marks = make(map[int64]int64)
		s.marks[key] = marks
	}
	answer, used := marks[c.Args.Number]
	switch {
	case command == "mark" && used:
		return wire.Reply{N: 1}
	case used:
		return wire.Reply{N: answer}
	case command == "mark":
		marks[c.Args.Number] = 0
		return wire.Reply{}
	}
	answer = s.latch(command, c)
	marks[c.Args.Number] = answer
	return wire.Reply{N: answer}
}

// latch changes a latch, and returns what the script replies.
func (s *server) latch(command string, c *wire.Call) int64 {
	count, there := s.counts[c.Key()]
	channel, _ := c.Args.Channel.(string)
	switch {
	case command == "set count" && !there:
		text, _ := c.Args.Extra.(string)
		s.counts[c.Key()], _ = strconv.ParseInt(text, 10, 64)
		s.publish(channel, "1")
		return 1
	case command == "delete latch" && there:
		delete(s.counts, c.Key())
		s.publish(channel, "1")
		return 1
	case command == "count down" && count > 1:
		s.counts[c.Key()]--
		return count - 1
	case command == "count down" && there:
		delete(s.counts, c.Key())
		if count == 1 {
			s.publish(channel, "0")
		}
	}
	return 0
}

// count returns the count of the tests' latch.
func (s *server) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[name]
}

// set sets the count of the tests' latch, as another process does. Zero deletes it, without a message.
func (s *server) set(count int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if count == 0 {
		delete(s.counts, name)
		s.raw("DEL", name)
		return
	}
	s.counts[name] = count
	s.raw("SET", name, strconv.FormatInt(count, 10))
}

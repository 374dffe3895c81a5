package client

import (
	"flag"
	"os"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/transcript"
	"github.com/go-rlock/rlock/internal/wire"
)

// The server of these tests writes down what it replies. The module simulation compares that with the replies of the real scripts.
var recordTo = flag.String("record", "", "write what the servers of the tests reply to this file")

var recording struct {
	sync.Mutex

	file *os.File
}

// note writes an entry, if the transcript is wanted.
func (s *server) note(e transcript.Entry) {
	if *recordTo == "" || s.test == "" {
		return
	}
	recording.Lock()
	defer recording.Unlock()
	var err error
	if recording.file == nil {
		if recording.file, err = os.Create(*recordTo); err != nil {
			panic(err)
		}
	}
	e.Server, e.Micros = s.test, time.Now().UnixMicro()
	if err := e.Write(recording.file); err != nil {
		panic(err)
	}
}

// raw notes a command of somebody else. The data are changed without one if there is none, so that what follows is not comparable.
func (s *server) raw(args ...string) { s.note(transcript.Entry{Raw: args, Over: len(args) == 0}) }

// called notes a call. The mutex must be held.
func (s *server) called(c *wire.Call, r wire.Reply, listeners map[string]int64) {
	e := transcript.Entry{Listeners: listeners}
	e.Called(*c, r)
	if l := s.get(c.Key()); l != nil {
		e.Holders, e.Left = []string{l.holder}, left(l.expires)
	}
	for _, key := range c.Keys[1:] {
		if text, ok := key.(string); ok && s.lines[text] != nil {
			for _, w := range s.lines[text].waiters {
				holder, _, _, _, _ := parts(w.member)
				e.Line = append(e.Line, holder)
			}
		}
	}
	s.note(e)
}

// listening returns how many listen to each channel. The mutex must be held.
func (s *server) listening() map[string]int64 {
	all := make(map[string]int64)
	for _, sub := range s.subs {
		for _, channel := range sub.channels {
			all[channel]++
		}
	}
	return all
}

// until returns when a key is gone that gets a lease of so many ms now. Redis counts whole ms, and a key lives through its last one.
func until(millis int64) time.Time {
	return time.Now().Truncate(time.Millisecond).Add(time.Duration(millis+1) * time.Millisecond)
}

// left returns for how many ms a key lives that is gone at a moment, as PTTL says.
func left(expires time.Time) int64 {
	return expires.Sub(time.Now().Truncate(time.Millisecond)).Milliseconds() - 1
}

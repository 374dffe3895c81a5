package client

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// once has Redis carry out a call that must count once, however often it is sent and whenever it arrives. The call's script
// looks for its number, of [table.Table.Number], among the marks: see once_prelude.lua. So the call is sent again with the same
// number while it has no reply, or only trouble that may pass, until ctx ends or one command timeout is over. Close ends the pauses,
// but for those of a call that lasts.
//
// If a command may still be executed when once gives up, the reply has the error of such a command: its fate says that
// the outcome is unknown. mark, which marks the number as used, then goes out in the background until Redis has answered it.
// Later the call cannot count any more. A call that lasts goes out itself instead, for some time since its first command.
//
// The marks of calls that went well do not stay: a script that forgets gets their numbers.
//
// The caller must have begun an operation, unless the call lasts.
func (c *Client) once(ctx context.Context, call, mark wire.Call, w *Wait) wire.Reply {
	cfg := &c.cfg.Table
	if call.Script.Forgets {
		call.Args.Other = c.finished.take(mark.Keys[0])
	}
	call.Args.Millis = wire.Millis(cfg.Memory())
	mark.Args.Millis = call.Args.Millis
	over := clock.Now().Add(cfg.CommandTimeout)
	var doubt *wire.Reply
	for tries := 1; ; tries++ {
		left := over.Sub(clock.Now())
		// A lost reply should leave time for another try. A slow server gets more time with each.
		within := max(min(left, cfg.Floor()<<min(tries-1, 8)), time.Millisecond)
		q := transport.Question{Call: call, Slot: transport.QuerySlot, Within: within, Stop: w.stop}
		if w.lasts != 0 {
			q.Slot = transport.DutySlot
		}
		if w.single {
			w.first(&q)
		}
		w.known.Asked(0, clock.Now())
		r := c.conn.Ask(ctx, q, nil)
		if r.Err == nil {
			w.known.Answered()
			if tries == 1 { // its only command
				c.finished.add(mark.Keys[0], mark.Args.Number)
			}
			return r
		}
		w.failed(ctx, r.Err)
		if r.Err.InDoubt() {
			doubt = &r
		}
		pause := cfg.Retry(tries)
		if !w.single && mayPass(r.Err) && over.Sub(clock.Now()) > pause {
			if w.pause(ctx, pause) {
				continue
			}
		}
		until, again := clock.Now().Add(cfg.Memory()), mark
		switch {
		case w.lasts != 0 && mayPass(r.Err):
			until, again = over.Add(w.lasts-cfg.CommandTimeout), call
		case doubt == nil:
			return r
		}
		if w.lasts == 0 || !c.tasks.Retired() { // after Close, nobody would repeat it
			c.Background(func() { c.repeat(context.Background(), again, until) })
		}
		if doubt == nil {
			return r
		}
		return *doubt
	}
}

// failed notes a question that has had no usable answer. If its caller left it, or had no connection for it, it stays open.
func (w *Wait) failed(ctx context.Context, err *fault.Error) {
	switch {
	case err.Fate == fault.Left:
	case err.Fate == fault.NotSent && ctx.Err() != nil:
		if errors.Is(err, fault.ErrNoConnection) {
			w.known.Unsent()
		}
	default:
		w.known.Failed(err)
	}
}

// mayPass reports whether a call that failed may have another outcome later.
func mayPass(err *fault.Error) bool { return err.Transient || err.InDoubt() }

// repeat sends a call that was given up, or its mark, until Redis has answered, or a moment has come.
func (c *Client) repeat(ctx context.Context, call wire.Call, until clock.Instant) {
	for tries := 1; ; tries++ {
		r := c.conn.Ask(ctx, transport.Question{Call: call, Slot: transport.DutySlot}, nil)
		if r.Err == nil || !mayPass(r.Err) || clock.Now() >= until || c.tasks.Retired() {
			return
		}
		if Sleep(c.cfg.Table.Retry(tries), nil, nil, nil, c.tasks.Stopped()) != table.ByTime {
			return
		}
	}
}

// finished has the numbers of calls that counted once and are over: no command of them is on its way. The zero value has none. It is
// safe for concurrent use.
type finished struct {
	mu      sync.Mutex      // a leaf
	numbers map[any][]int64 // by the key of their marks
	total   int
}

const (
	maxFinished = 1024 // in all; marks that are forgotten here live for their time
	maxTaken    = 16   // for one call
)

// add adds the number of a call.
func (s *finished) add(marks any, number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers == nil || s.total >= maxFinished {
		s.numbers, s.total = make(map[any][]int64), 0
	}
	s.numbers[marks] = append(s.numbers[marks], number)
	s.total++
}

// take removes some numbers of calls, and returns them as a script gets them. Nil means none.
func (s *finished) take(marks any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := s.numbers[marks]
	if len(numbers) == 0 {
		return nil
	}
	n := min(len(numbers), maxTaken)
	var text []byte
	for _, number := range numbers[:n] {
		text = strconv.AppendInt(append(text, ' '), number, 10)
	}
	s.total -= n
	if s.numbers[marks] = numbers[n:]; n == len(numbers) {
		delete(s.numbers, marks)
	}
	return string(text[1:])
}

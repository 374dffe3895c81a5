package client

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// once has Redis carry out a call that must count once, however often it is sent and whenever it arrives. The call's script
// looks for its number, of [table.Table.Number], among the marks: see once_prelude.lua. So the call is sent again with the same
// number while it has no reply, or only trouble that may pass, until ctx ends or one command timeout is over, within the limits.
// Close ends the pauses.
//
// If a command may still be executed when once gives up, the reply has the error of such a command: its fate says that
// the outcome is unknown. mark, which marks the number as used, then goes out in the background until Redis has answered it.
// Later the call cannot count any more.
//
// The marks of calls that went well do not stay: a script that forgets gets their numbers.
//
// The caller must have begun an operation.
func (c *Client) once(ctx context.Context, call, mark wire.Call, how limits) wire.Reply {
	cfg := &c.cfg.Table
	if call.Script.Forgets {
		call.Args.Other = c.settled.take(mark.Keys[0])
	}
	call.Args.Millis = wire.Millis(cfg.Memory())
	mark.Args.Millis = call.Args.Millis
	over := clock.Now().Add(cfg.CommandTimeout)
	var doubt *wire.Reply
	for tries := 1; ; tries++ {
		left := over.Sub(clock.Now())
		// A lost reply should leave time for another try. A slow server gets more time with each.
		within := max(min(left, cfg.Floor()<<min(tries-1, 8)), time.Millisecond)
		if how.single {
			within = left
		}
		how.known.Asked(clock.Now())
		r := c.conn.Ask(ctx, transport.Question{Call: call, Slot: transport.QuerySlot, Within: within, Stop: how.stop}, nil)
		if r.Err == nil {
			if tries == 1 && !r.Repeated { // its only command
				c.settled.add(mark.Keys[0], mark.Args.Number)
			}
			return r
		}
		how.note(ctx, r.Err)
		if r.Err.InDoubt() {
			doubt = &r
		}
		if r.Err.KeyDenied() && call.Unlined() {
			continue
		}
		pause := cfg.Retry(tries)
		if !how.single && mayPass(r.Err) && over.Sub(clock.Now()) > pause && c.waitOpen(ctx, pause, how.stop) {
			continue
		}
		if doubt == nil {
			return r
		}
		c.Background(func() { c.settle(context.WithoutCancel(ctx), mark) })
		return *doubt
	}
}

// limits says for how long a call that must count once is sent again: without the first two, for one command timeout.
type limits struct {
	stop   <-chan struct{} // closing it ends the wait for a slot and the pauses, not a command under way; nil means that nothing does
	single bool            // the call is sent once
	known  *outcome.Record // what its questions have shown, and those before it
}

// note notes a question that has had no reply of use. One that the caller left, or Redis did not answer, is open.
func (l *limits) note(ctx context.Context, err *fault.Error) {
	switch {
	case err.Fate == fault.Left:
	case err.Fate == fault.NotSent && ctx.Err() != nil:
		if errors.Is(err, fault.ErrNoConnection) {
			l.known.Unsent()
		}
	default:
		l.known.Failed(err)
	}
}

// mayPass reports whether a call that failed may have another outcome later.
func mayPass(err *fault.Error) bool { return err.Transient || err.InDoubt() }

// settle sends the mark of a call that was given up until Redis has answered, or no command can be on its way any more.
func (c *Client) settle(ctx context.Context, mark wire.Call) {
	until := clock.Now().Add(c.cfg.Table.Memory())
	for tries := 1; ; tries++ {
		r := c.conn.Ask(ctx, transport.Question{Call: mark, Slot: transport.DutySlot}, nil)
		if r.Err == nil || !mayPass(r.Err) || clock.Now() >= until || c.tasks.Retired() {
			return
		}
		timer := time.NewTimer(c.cfg.Table.Retry(tries))
		select {
		case <-timer.C:
		case <-c.tasks.Stopped():
			timer.Stop()
			return
		}
	}
}

// waitOpen pauses, and reports whether the pause was over before ctx ended, before Close, and before stop was closed.
func (c *Client) waitOpen(ctx context.Context, pause time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.tasks.Closed():
	case <-stop:
	}
	return false
}

// settled has the numbers of calls that counted once and are over: no command of them is on its way. The zero value has none. It is
// safe for concurrent use.
type settled struct {
	mu      sync.Mutex      // a leaf
	numbers map[any][]int64 // by the key of their marks
	total   int
}

const (
	maxSettled = 1024 // in all; marks that are forgotten here live for their time
	maxTaken   = 16   // for one call
)

// add adds the number of a call.
func (s *settled) add(marks any, number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers == nil || s.total >= maxSettled {
		s.numbers, s.total = make(map[any][]int64), 0
	}
	s.numbers[marks] = append(s.numbers[marks], number)
	s.total++
}

// take removes some numbers of calls, and returns them as a script gets them. Nil means none.
func (s *settled) take(marks any) any {
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

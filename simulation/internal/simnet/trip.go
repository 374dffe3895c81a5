package simnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/simulation/internal/simseed"
)

var (
	errReset   = &net.OpError{Op: "read", Err: io.EOF}
	errTimeout = &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
)

func inDoubt(err error) *fault.Error {
	return &fault.Error{Fate: fault.InDoubt, Transient: true, Stale: true, Err: err}
}

func notSent(err error) *fault.Error {
	return &fault.Error{Fate: fault.NotSent, Transient: true, Stale: true, Err: err}
}

// request is what is sent on one connection.
type request struct {
	cmds  [][]string
	asked bool         // another node of a cluster has said that the commands are to go to this one
	acks  *driver.Acks // that are waited for after each command; nil means none
	own   bool         // of the client library, which runs no code of the application for it
}

// answer is the reply to a command.
type answer struct {
	value    any
	offset   int64 // how many writes the server had sent to its replicas then
	replicas int64 // how many have acknowledged it
}

// trip is commands on their way to the server and back, on one connection.
type trip struct {
	*Link
	request

	gaveUp      time.Time     // when the client stops waiting
	there, back time.Duration // what the ways take
	late        time.Duration // after which a late command is executed
	half        bool          // one of two equally likely courses
	lot         float64       // which of the connections it is on, if these have the numbers from 0 to 1
}

// send sends commands on one connection, and waits for their replies, for at most the timeout.
func (l *Link) send(what request, timeout time.Duration) ([]answer, *fault.Error) {
	event := make([]string, 0, len(what.cmds))
	for _, c := range what.cmds {
		event = append(event, strings.Join(short(c), " "))
	}
	random, faults := l.draw(event...), l.server.faults.Load().at(what.cmds)
	t := &trip{
		Link: l, request: what, there: faults.way(random), back: faults.way(random),
		late: time.Duration(random.Int64N(int64(max(faults.LateMax, 1)))), half: random.IntN(2) == 0, lot: random.Float64(),
		gaveUp: time.Now().Add(timeout + time.Duration(random.IntN(int(time.Microsecond)))), // no two at one instant
	}
	l.server.trace.Say(func() string { return fmt.Sprintf("%s sends to %s: %s", l.name, l.server.name, list(t.cmds, brief)) })
	switch {
	case l.Dead():
		return t.take(t.silence)
	case l.server.IsDown():
		time.Sleep(t.there)
		return nil, notSent(errRefused)
	}
	luck := random.Float64()
	for _, f := range []struct {
		what   string
		chance float64
		course func() ([]answer, *fault.Error)
	}{
		{"lost on the way", faults.LostSend, t.lost},
		{"without a reply", faults.Silent, t.unanswered},
		{"with a lost reply", faults.LostReply, t.lostReply},
		{"late", faults.Late, t.lateSend},
		{"twice", faults.Repeated, t.repeated},
	} {
		if luck -= f.chance; luck < 0 {
			l.server.trace.Note("%s to %s, %s: %s", l.name, l.server.name, f.what, commands(t.cmds))
			return t.take(f.course)
		}
	}
	return t.take(t.usual)
}

// take has the trip take a course. That happens outside of the process, which may be stopped meanwhile. If the reply has come and the time is over
// when it continues, either may be what it notices.
func (t *trip) take(course func() ([]answer, *fault.Error)) ([]answer, *fault.Error) {
	var replies []answer
	var err *fault.Error
	over := make(chan struct{}, 1)
	outside(func() {
		go func() {
			grow()
			replies, err = course()
			over <- struct{}{}
		}()
	})
	<-over
	if err == nil && t.half && time.Now().After(t.gaveUp) {
		return nil, inDoubt(errTimeout)
	}
	return replies, err
}

// grow gives a new goroutine the stack that a script takes, at once: otherwise Go would copy it four times on the way there.
//
//go:noinline
func grow() {
	var room [16 << 10]byte
	room[0] = 1
	runtime.KeepAlive(&room)
}

// outside runs a function as part of no process: what it starts goes on while the caller's process is stopped.
func outside(f func()) { (*simseed.Process)(nil).Do(f) }

// later calls a function after a while, outside of all processes.
func later(d time.Duration, f func()) { outside(func() { time.AfterFunc(d, f) }) }

// usual is the trip on which nothing happens but what the whole link, or the server, suffers.
func (t *trip) usual() ([]answer, *fault.Error) {
	time.Sleep(t.there)
	if !t.passes(t.there, false) {
		t.executeAfter(0) // it arrives once the link is free
		return t.silence()
	}
	switch {
	case t.Dead():
		return t.silence()
	case t.server.IsDown():
		return nil, inDoubt(errReset)
	}
	replies := t.execute()
	if t.acks != nil {
		replies = t.awaitReplicas(replies)
	}
	time.Sleep(t.back)
	if !t.passes(t.back, true) || t.Dead() {
		return t.silence()
	}
	return replies, nil
}

// hangs returns for how long nothing passes on the connection from now on, there or back.
func (t *trip) hangs(back bool) time.Duration {
	t.mu.Lock()
	c, lot := t.clog, t.lot
	t.mu.Unlock()
	share := c.Requests
	if back {
		share, lot = c.Replies, 1-lot
	}
	if lot < share {
		return max(t.blocked(), time.Until(c.until))
	}
	return t.blocked()
}

// passes waits until a packet can pass, there or back, that takes so long. It reports whether the client still waits then.
func (t *trip) passes(way time.Duration, back bool) bool {
	for b := t.hangs(back); b > 0; b = t.hangs(back) {
		if b >= time.Until(t.gaveUp) {
			return false
		}
		time.Sleep(b + way/2)
	}
	return time.Now().Before(t.gaveUp)
}

// execute runs the commands at the server.
func (t *trip) execute() []answer {
	replies := make([]answer, len(t.cmds))
	for i, c := range t.cmds {
		replies[i].value, replies[i].offset = t.server.execute(t.Link, c, t.asked)
	}
	return replies
}

// awaitReplicas waits for the replicas that are to acknowledge each command, unless the server has refused it. It adds what the server then says
// about its replicas, if it is asked.
func (t *trip) awaitReplicas(replies []answer) []answer {
	for i := range replies {
		if _, refused := replies[i].value.(simredis.Err); refused {
			continue
		}
		replies[i].replicas = t.server.acknowledged(replies[i].offset, t.acks.Replicas, t.acks.Timeout)
	}
	return replies
}

// executeAfter runs the commands later, although nobody waits for their replies.
func (t *trip) executeAfter(d time.Duration) {
	later(d+t.hangs(false), func() {
		if !t.server.IsDown() {
			t.execute()
		}
	})
}

// silence waits until the client gives up.
func (t *trip) silence() ([]answer, *fault.Error) {
	time.Sleep(time.Until(t.gaveUp))
	return nil, inDoubt(errTimeout)
}

func (t *trip) lost() ([]answer, *fault.Error) {
	time.Sleep(t.there)
	return nil, inDoubt(errReset)
}

func (t *trip) unanswered() ([]answer, *fault.Error) {
	if t.half {
		t.executeAfter(t.there)
	}
	return t.silence()
}

func (t *trip) lostReply() ([]answer, *fault.Error) {
	if t.executeAfter(t.there); t.half {
		return t.lost() // the connection breaks while the command is on its way
	}
	time.Sleep(t.there + t.back)
	return nil, inDoubt(errReset)
}

func (t *trip) lateSend() ([]answer, *fault.Error) {
	if t.executeAfter(t.there + t.late); t.half {
		return t.lost()
	}
	return t.silence()
}

func (t *trip) repeated() ([]answer, *fault.Error) {
	if !t.peer {
		t.executeAfter(t.there + t.late)
	}
	return t.lostReply()
}

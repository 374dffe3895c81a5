package simnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// Driver implements driver.Driver on the simulated network.
type Driver struct {
	link *Link
	cfg  driver.Config
}

// Open returns a function for driver.Attach.
func (l *Link) Open() driver.Open {
	return func(cfg driver.Config) (driver.Driver, error) { return &Driver{l, cfg}, nil }
}

// Info implements driver.Driver.
func (d *Driver) Info() driver.Info {
	info := driver.Share(d.cfg, 10, 0)
	info.Bounded = true
	return info
}

// Node implements driver.Driver.
func (d *Driver) Node(context.Context, string) (driver.Node, *fault.Error) { return nil, nil }

// Refresh implements driver.Driver.
func (d *Driver) Refresh() {}

// Close implements driver.Driver.
func (d *Driver) Close(context.Context) {}

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

// argv returns a call as it is sent.
func argv(c *wire.Call, full bool) []string {
	args := make([]string, 0, 16)
	if full {
		args = append(args, "EVAL", c.Script.Source)
	} else {
		args = append(args, "EVALSHA", c.Script.Digest.(string))
	}
	args = append(args, fmt.Sprint(len(c.Keys)))
	for _, k := range c.Keys {
		args = append(args, k.(string))
	}
	for _, a := range c.AppendArgv(nil) {
		args = append(args, fmt.Sprint(a))
	}
	return args
}

// short is a call without the text of its script, for keys.
func short(args []string) []string {
	if args[0] == "EVAL" {
		return append([]string{"EVAL"}, args[2:]...)
	}
	return args
}

// Run implements driver.Driver.
func (d *Driver) Run(_ context.Context, _ driver.Node, c wire.Call) wire.Reply {
	sent := time.Now()
	args := argv(&c, false)
	raw, err := d.trip([][]string{args}, nil)
	if err == nil {
		if text, failed := raw[0].(simredis.Err); failed && driver.UnknownScript(string(text)) {
			raw, err = d.trip([][]string{argv(&c, true)}, nil)
		}
	}
	r := wire.Reply{N: -1, Err: err}
	if err == nil {
		r = reply(&c, raw[0])
	}
	r.Took = time.Since(sent)
	return r
}

func reply(c *wire.Call, raw any) wire.Reply {
	switch v := raw.(type) {
	case int64:
		return driver.Replied(c, v, nil)
	case []any:
		list := make([]int64, len(v))
		for i, e := range v {
			n, ok := e.(int64)
			if !ok {
				return driver.Unexpected("%T in a list", e)
			}
			list[i] = n
		}
		return driver.Replied(c, 0, list)
	case simredis.Err:
		return driver.Failed(driver.Rejected(v, string(v), false))
	}
	return driver.Unexpected("%T for a number", raw)
}

// trip sends commands on one connection and waits for their replies, for at most the command timeout.
func (d *Driver) trip(cmds [][]string, _ []any) ([]any, *fault.Error) {
	l, w := d.link, d.link.w
	began := time.Now()
	k := uint64(len(cmds))
	for _, c := range cmds {
		k = k*31 + key(short(c)...)
	}
	r := l.random(k)
	there, back, luck := w.way(r), w.way(r), r.Float64()
	late, extra := time.Duration(r.Int64N(int64(max(w.Faults.LateMax, 1)))), r.Float64()
	giveUp := func() *fault.Error {
		time.Sleep(max(time.Until(began.Add(d.cfg.CommandTimeout))+time.Duration(k%997), 0))
		return inDoubt(errTimeout)
	}
	if l.Dead() {
		return nil, giveUp()
	}
	if w.IsDown() {
		time.Sleep(there)
		return nil, notSent(errRefused)
	}
	run := func() []any {
		if w.IsDown() || l.Foreign && l.Dead() {
			return nil
		}
		out := make([]any, len(cmds))
		for i, c := range cmds {
			out[i] = l.exec(c)
		}
		return out
	}
	after := func(pause time.Duration) { // it is executed although nobody waits
		time.AfterFunc(pause+l.blocked(), func() { run() })
	}
	if w.Silent != nil && w.Silent(l, cmds[0]) {
		after(there)
		return nil, giveUp()
	}
	f := &w.Faults
	if all := f.LostSend + f.LostReply + f.Silent + f.Late; luck < all {
		w.Note("%s: fault %.4f (send %.4f reply %.4f silent %.4f late %.4f, extra %.2f) of %s", l.Name, luck, f.LostSend, f.LostReply, f.Silent, f.Late, extra, short(cmds[0]))
	}
	switch {
	case luck < f.LostSend:
		time.Sleep(there)
		return nil, inDoubt(errReset)
	case luck < f.LostSend+f.LostReply:
		time.Sleep(there)
		if !l.Dead() {
			run()
		}
		time.Sleep(back)
		return nil, inDoubt(errReset)
	case luck < f.LostSend+f.LostReply+f.Silent:
		if extra < 0.5 {
			after(there)
		}
		return nil, giveUp()
	case luck < f.LostSend+f.LostReply+f.Silent+f.Late:
		after(there + late)
		if extra < 0.5 {
			time.Sleep(there)
			return nil, inDoubt(errReset)
		}
		return nil, giveUp()
	}
	time.Sleep(there)
	for {
		b := l.blocked()
		if b <= 0 {
			break
		}
		if until := time.Until(began.Add(d.cfg.CommandTimeout)); b >= until { // it arrives later
			after(there)
			return nil, giveUp()
		}
		time.Sleep(b + there/2)
	}
	if l.Dead() {
		return nil, giveUp()
	}
	if w.IsDown() {
		return nil, inDoubt(errReset)
	}
	out := run()
	time.Sleep(back)
	for b := l.blocked(); b > 0; b = l.blocked() {
		if until := time.Until(began.Add(d.cfg.CommandTimeout)); b >= until {
			return nil, giveUp()
		}
		time.Sleep(b + back/2)
	}
	if l.Dead() || time.Since(began) > d.cfg.CommandTimeout {
		return nil, giveUp()
	}
	return out, nil
}

// Pipe implements driver.Driver.
func (d *Driver) Pipe(_ context.Context, _ driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	sent := time.Now()
	send := func(indexes []int, full bool) (unknown []int) {
		cmds := make([][]string, len(indexes))
		for i, at := range indexes {
			cmds[i] = argv(&calls[at], full)
		}
		raw, err := d.trip(cmds, nil)
		for i, at := range indexes {
			if err != nil {
				out[at] = wire.Reply{N: -1, Err: err}
				continue
			}
			if text, failed := raw[i].(simredis.Err); failed && !full && driver.UnknownScript(string(text)) {
				unknown = append(unknown, at)
				continue
			}
			out[at] = reply(&calls[at], raw[i])
			if acks != nil && out[at].Acquired() {
				out[at] = acks.Acknowledged(out[at], int64(acks.Replicas), nil)
			}
		}
		return unknown
	}
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	if unknown := send(all, false); len(unknown) > 0 {
		send(unknown, true)
	}
	for i := range out {
		out[i].Took = time.Since(sent)
	}
}

// Raw implements driver.Driver.
func (d *Driver) Raw(_ context.Context, _ driver.Node, cmd ...any) (any, *fault.Error) {
	args := make([]string, len(cmd))
	for i, a := range cmd {
		args[i] = fmt.Sprint(a)
	}
	raw, err := d.trip([][]string{args}, nil)
	if err != nil {
		return nil, err
	}
	if text, failed := raw[0].(simredis.Err); failed {
		return nil, driver.Rejected(text, string(text), false)
	}
	return raw[0], nil
}

// Do sends a command as a foreign client does, with no timeout to speak of.
func (l *Link) Do(args ...string) (any, error) {
	d := &Driver{l, driver.Config{CommandTimeout: 5 * time.Second}}
	raw, err := d.trip([][]string{args}, nil)
	if err != nil {
		return nil, err
	}
	if text, failed := raw[0].(simredis.Err); failed {
		return nil, text
	}
	return raw[0], nil
}

var _ = rand.New

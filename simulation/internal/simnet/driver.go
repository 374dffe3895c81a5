package simnet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// connections is how many commands a process may have under way, as in a usual pool.
const connections = 10

// Driver sends rlock's commands over a link.
type Driver struct {
	link *Link
	cfg  driver.Config
}

// Open makes a driver, for [driver.Attach].
func (l *Link) Open(cfg driver.Config) (driver.Driver, error) { return &Driver{l, cfg}, nil }

// Info implements [driver.Driver].
func (d *Driver) Info() driver.Info {
	info := driver.Share(d.cfg, connections, 0)
	info.Bounded = true
	return info
}

// Node implements [driver.Driver].
func (d *Driver) Node(context.Context, string) (driver.Node, *fault.Error) { return nil, nil } //nolint:nilnil // there is one server

// Refresh implements [driver.Driver].
func (d *Driver) Refresh() {}

// Close implements [driver.Driver].
func (d *Driver) Close(context.Context) {}

// Run implements [driver.Driver].
func (d *Driver) Run(_ context.Context, _ driver.Node, c wire.Call) wire.Reply {
	out := make([]wire.Reply, 1)
	d.pipe([]wire.Call{c}, nil, out)
	return out[0]
}

// Pipe implements [driver.Driver].
func (d *Driver) Pipe(_ context.Context, _ driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	d.pipe(calls, acks, out)
}

func (d *Driver) pipe(calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	sent := time.Now()
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	if unknown := d.sendCalls(calls, all, false, acks, out); len(unknown) > 0 {
		d.sendCalls(calls, unknown, true, acks, out)
	}
	for i := range out {
		out[i].Took = time.Since(sent)
	}
}

// sendCalls sends the calls with these indexes, with the text of their scripts or without. It returns those whose script the server does
// not know.
func (d *Driver) sendCalls(calls []wire.Call, indexes []int, full bool, acks *driver.Acks, out []wire.Reply) (unknown []int) {
	cmds := make([][]string, len(indexes))
	for i, at := range indexes {
		cmds[i] = argv(&calls[at], full)
	}
	replies, err := d.link.send(cmds, d.cfg.CommandTimeout)
	for i, at := range indexes {
		if err != nil {
			out[at] = driver.Failed(err)
			continue
		}
		if text, failed := replies[i].(simredis.Err); failed && !full && driver.UnknownScript(string(text)) {
			unknown = append(unknown, at)
			continue
		}
		out[at] = replied(&calls[at], replies[i])
		if acks != nil && out[at].Acquired() {
			out[at] = acks.Acknowledged(out[at], d.link.acknowledged(acks.Replicas, cmds[i]), nil)
		}
	}
	return unknown
}

// argv returns a call as it is sent.
func argv(c *wire.Call, full bool) []string {
	args := []string{"EVALSHA", text(c.Script.Digest)}
	if full {
		args = []string{"EVAL", c.Script.Source}
	}
	args = append(args, strconv.Itoa(len(c.Keys)))
	for _, k := range c.Keys {
		args = append(args, text(k))
	}
	for _, a := range c.AppendArgv(nil) {
		args = append(args, text(a))
	}
	return args
}

func text(v any) string { return fmt.Sprint(v) }

// replied returns what a reply says.
func replied(c *wire.Call, raw any) wire.Reply {
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

// Raw implements [driver.Driver].
func (d *Driver) Raw(_ context.Context, _ driver.Node, cmd ...any) (any, *fault.Error) {
	args := make([]string, len(cmd))
	for i, a := range cmd {
		args[i] = text(a)
	}
	replies, err := d.link.send([][]string{args}, d.cfg.CommandTimeout)
	if err != nil {
		return nil, err
	}
	switch v := replies[0].(type) {
	case simredis.Err:
		return nil, driver.Rejected(v, string(v), false)
	case simredis.Status:
		return string(v), nil
	}
	return replies[0], nil
}

// Subscribe implements [driver.Driver].
func (d *Driver) Subscribe(_ context.Context, _ driver.Node, sharded bool) driver.Subscription {
	return d.link.subscribe(sharded)
}

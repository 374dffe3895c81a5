package rlockrueidis

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Pipe sends calls in one pipeline, then sends the scripts that Redis did not know again, in full. On a cluster, if no node is
// given, it sends one pipeline to each node, and then each call whose slot has moved on its own.
func (d *conn) Pipe(ctx context.Context, at driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	p := pipe{conn: d, calls: calls, acks: acks, out: out}
	if at != nil || !d.cluster {
		all := make([]int, len(calls))
		for i := range all {
			all[i] = i
		}
		p.sendTo(ctx, at, all)
		return
	}
	byNode := make(map[driver.Node][]int)
	for i := range calls {
		node, f := d.Node(ctx, calls[i].Key())
		if f != nil {
			out[i] = driver.Failed(f)
			continue
		}
		byNode[node] = append(byNode[node], i)
	}
	var all sync.WaitGroup
	for node, indexes := range byNode {
		all.Go(func() {
			defer func() {
				if f := driver.Panicked(recover()); f != nil { // of a hook of the client
					p.fail(indexes, f)
				}
			}()
			p.sendTo(ctx, node, indexes)
		})
	}
	all.Wait()
	p.follow(ctx)
}

// pipe is one call of Pipe.
type pipe struct {
	conn  *conn
	calls []wire.Call
	acks  *driver.Acks
	out   []wire.Reply
}

// sendTo sends the calls with these indexes to a node.
func (p *pipe) sendTo(ctx context.Context, at driver.Node, indexes []int) {
	client, f := p.conn.at(at)
	if f != nil {
		p.fail(indexes, f)
		return
	}
	if unknown := p.send(ctx, client, indexes, false); len(unknown) > 0 {
		p.send(ctx, client, unknown, true)
	}
}

// fail gives the calls with these indexes an error.
func (p *pipe) fail(indexes []int, f *fault.Error) {
	for _, i := range indexes {
		p.out[i] = driver.Failed(f)
	}
}

// send sends the calls with these indexes, by digest or in full, and writes their replies. It returns the indexes of the calls whose
// scripts Redis does not know. The client must be of a single node: if a slot is moving (ASK), the pipelines of rueidis's cluster
// client panic when their commands take connections of the pool (v1.0.79).
func (p *pipe) send(ctx context.Context, client rueidis.Client, indexes []int, full bool) (unknown []int) {
	sent := time.Now()
	step := 1
	if p.acks.Waits() {
		step = 2
	}
	cmds := make([]rueidis.Completed, 0, step*len(indexes)+1)
	for _, at := range indexes {
		cmds = append(cmds, command(client, &p.calls[at], full))
		if p.acks.Waits() {
			wait := client.B().Arbitrary("WAIT", strconv.Itoa(p.acks.Replicas), text(wire.Millis(p.acks.Timeout)))
			cmds = append(cmds, wait.Blocking())
		}
	}
	within := p.conn.deadlines.Within(ctx, sent)
	limit := p.conn.limit(int64(cmds[0].Slot()))
	if err := limit.take(within); err != nil {
		p.fail(indexes, p.conn.classify(err))
		return nil
	}
	results := limited(limit, func() []rueidis.RedisResult { return client.DoMulti(within, cmds...) })
	p.conn.tend(results[0], p.calls[indexes[0]].Key())
	took := time.Since(sent)
	for i, at := range indexes {
		result := results[step*i]
		if !full && unknownScript(result) {
			unknown = append(unknown, at)
			continue
		}
		r := p.conn.reply(result, &p.calls[at])
		if p.acks.Waits() && r.Acquired() { // a refusal has written nothing to wait for
			acks, err := results[step*i+1].ToInt64()
			r = p.acks.Acknowledged(r, acks, p.conn.classify(err))
		}
		r.Took = took
		p.out[at] = r
	}
	return unknown
}

// limited sends with a place of a limit that was taken, which it gives back.
func limited[R any](l *limit, send func() R) R {
	defer l.free()
	return send()
}

// follow sends the calls again that their nodes have not executed because others have the keys.
func (p *pipe) follow(ctx context.Context) {
	for i := range p.calls {
		if f := p.out[i].Err; f != nil && (f.Code == "MOVED" || f.Code == "ASK" || errors.Is(f, errUnknownNode)) {
			sent := time.Now()
			r := p.conn.do(p.conn.deadlines.Within(ctx, sent), p.conn.client, &p.calls[i])
			p.out[i] = p.conn.reply(r, &p.calls[i])
			p.out[i].Took = time.Since(sent)
		}
	}
}

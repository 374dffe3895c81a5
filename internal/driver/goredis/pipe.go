package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

// Pipe sends calls in one pipeline, and sends the scripts that Redis does not know again in full.
//
// Without a node the pipeline is the whole deployment's: on a cluster go-redis takes each call to its own node, and follows
// redirections. With acks there must be one on a cluster: WAIT is about the writes of its own connection, and has no key by
// which a cluster client could find that node.
func (d *Driver) Pipe(ctx context.Context, at driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	p := pipe{driver: d, route: d.to(at), calls: calls, acks: acks, out: out}
	if acks != nil {
		p.route = d.patientTo(at) // WAIT is silent for as long as it waits
	}
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	if unknown := p.send(ctx, all, false); len(unknown) > 0 {
		p.send(ctx, unknown, true)
	}
}

// pipe is one call of [Driver.Pipe].
type pipe struct {
	driver *Driver
	route  route
	calls  []wire.Call
	acks   *driver.Acks
	out    []wire.Reply
}

// send sends the calls with these indexes, by digest or in full, and writes their replies. It returns the indexes of
// the calls whose scripts Redis does not know.
func (p *pipe) send(ctx context.Context, indexes []int, full bool) (unknown []int) {
	sent := time.Now()
	ctx = p.driver.deadlines.Within(ctx, sent)
	pipeline := p.driver.rdb.Pipeline()
	cmds := make([]*block, len(indexes))
	var waits []noRetry
	for i, at := range indexes {
		cmds[i] = command(ctx, full, &p.calls[at])
		_ = pipeline.Process(ctx, p.route.aim(cmds[i].once())) // queues; cannot fail
		if p.acks.Waits() {
			waits = append(waits, noRetry{redis.NewCmd(ctx, "wait", p.acks.Replicas, wire.Millis(p.acks.Timeout))})
			_ = pipeline.Process(ctx, p.route.aim(waits[i]))
		}
	}
	_, execErr := pipeline.Exec(ctx)
	took := time.Since(sent)
	for i, at := range indexes {
		ownError(cmds[i].once(), execErr)
		err := cmds[i].cmd.Err()
		if !full && redis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, at)
			continue
		}
		r := p.driver.outcome(&cmds[i].cmd, err, &p.calls[at])
		if p.acks.Waits() && r.Acquired() { // a refusal has written nothing to wait for
			ownError(waits[i], execErr)
			acks, err := waits[i].Int64()
			r = p.acks.Acknowledged(r, acks, p.driver.classify(err))
		}
		r.Took = took
		p.out[at] = r
	}
	return unknown
}

// ownError corrects the error of one command, given the error of the pipeline.
//
// If the connection breaks, go-redis writes that error also to commands whose replies it has read before. Such a command has a
// whole value, and no error of its own. If a user's hook fails the pipeline, a command may have neither a value nor an error, and
// gets the pipeline's.
func ownError(cmd noRetry, pipeline error) {
	switch err := cmd.Err(); {
	case err == nil && cmd.Val() == nil:
		cmd.SetErr(pipeline)
	case err != nil && whole(cmd.Val()) && broken(err):
		cmd.SetErr(nil)
	}
}

// whole reports whether go-redis has read a reply to its end: of a list that was cut off it keeps none.
func whole(value any) bool {
	switch v := value.(type) {
	case int64:
		return true
	case []any:
		return v != nil
	}
	return false
}

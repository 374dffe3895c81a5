package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// Small batches, and several at a time, let the server run one while this process makes the next. Both figures are
// measured. The order among batches does not matter, because each script has a caller that waits for it.
const (
	batchTarget = 32
	maxBatches  = 4
)

// pipelines has an auto-pipeliner for each node. They are made on clones of the nodes' clients: each client has a single
// auto-pipeliner that it gives to all callers, and the user may be one of them.
type pipelines struct {
	batches int // how many batches may be under way to a node at a time; zero means that nothing is gathered

	byNode sync.Map // *redis.Client -> *pipeliner

	mu      sync.Mutex // held to open and to stop pipelines
	stopped bool
	closing sync.WaitGroup
}

// pipeliner is the auto-pipeliner of a node.
type pipeliner struct {
	*redis.AutoPipeliner
	route route // to the node
}

// Gather queues a call for the pipeline of the node that has its key. It never waits: it reports false for a cluster
// whose topology is not known yet, because learning it may take long.
func (d *Driver) Gather(ctx context.Context, c wire.Call) (driver.Future, bool) {
	p := d.pipeliner(c.Key())
	if p == nil {
		return nil, false
	}
	f := &future{driver: d, pipeliner: p, call: c, sent: time.Now()}
	f.submit(ctx, false)
	return f, true
}

// StopGathering ends the pipelines, and waits until ctx ends for the batches that are under way.
func (d *Driver) StopGathering(ctx context.Context) {
	p := &d.pipelines
	p.mu.Lock()
	p.stopped = true
	p.remove(func(*pipeliner) bool { return true })
	p.mu.Unlock()
	task.Await(ctx, &p.closing)
}

// pipeliner returns the auto-pipeliner of the node that has a key, or nil if there is none.
func (d *Driver) pipeliner(key string) *pipeliner {
	if d.pipelines.batches == 0 {
		return nil
	}
	client, _ := d.rdb.(*redis.Client)
	if d.cluster != nil {
		if !d.routed.Load() {
			return nil
		}
		var err error
		if client, err = d.cluster.MasterForKey(context.Background(), key); err != nil {
			return nil
		}
	}
	if p := d.pipelines.of(client); p != nil {
		return p
	}
	return d.openPipeline(client)
}

// of returns the auto-pipeliner of a node if there is one.
func (p *pipelines) of(client *redis.Client) *pipeliner {
	v, _ := p.byNode.Load(client)
	found, _ := v.(*pipeliner)
	return found
}

// openPipeline makes the auto-pipeliner of a node. It returns nil once the pipelines are stopped.
func (d *Driver) openPipeline(client *redis.Client) *pipeliner {
	p := &d.pipelines
	p.mu.Lock()
	defer p.mu.Unlock()
	if opened := p.of(client); opened != nil {
		return opened
	}
	if p.stopped {
		return nil
	}
	p.remove(func(p *pipeliner) bool { return p.IsClosed() }) // its node has left the cluster
	own := client.WithTimeout(d.timeout)
	own.AddHook(sender{d.rdb, d.timeout})
	auto, err := own.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{
		MaxBatchSize: batchTarget, MaxConcurrentBatches: p.batches, Unordered: true,
	})
	if err != nil {
		return nil
	}
	opened := &pipeliner{auto, d.to(nil)}
	if d.cluster != nil {
		opened.route = d.to(node{client})
	}
	p.byNode.Store(client, opened)
	return opened
}

// remove closes the auto-pipeliners for which gone reports true. p.mu must be held.
func (p *pipelines) remove(gone func(*pipeliner) bool) {
	for client, v := range p.byNode.Range {
		if old, ok := v.(*pipeliner); ok && gone(old) {
			p.byNode.Delete(client)
			p.closing.Go(func() { _ = old.Close() }) // an error means that it stopped waiting
		}
	}
}

// future is a call in the pipeline of a node. One goroutine at a time may use it.
type future struct {
	driver    *Driver
	pipeliner *pipeliner
	call      wire.Call
	sent      time.Time
	full      bool
	cmd       noRetry
	result    redis.AutoFuture
}

func (f *future) submit(ctx context.Context, full bool) {
	f.full, f.cmd = full, command(ctx, full, &f.call)
	f.result = f.pipeliner.Submit(ctx, f.pipeliner.route.aim(f.cmd))
}

// Wait waits for the reply until ctx ends.
func (f *future) Wait(ctx context.Context) (wire.Reply, bool) {
	for {
		err := f.result.WaitContext(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return wire.Reply{}, false
		case err != nil && !f.full && redis.HasErrorPrefix(err, "NOSCRIPT"):
			f.submit(ctx, true)
			continue
		}
		r := f.driver.reply(f.cmd, err, &f.call)
		r.Took = time.Since(f.sent)
		if r.Err != nil && f.driver.notGathered(err) {
			r.Err.Err = fmt.Errorf("%w: %w", driver.ErrNotGathered, r.Err.Err)
		}
		return r, true
	}
}

// notGathered reports whether a call that a pipeline could not run has to be sent by itself: then go-redis follows a
// cluster's redirections. Nothing of it was executed.
func (d *Driver) notGathered(err error) bool {
	return errors.Is(err, redis.ErrClosed) || d.cluster != nil && begins(err, []string{"MOVED ", "ASK ", "READONLY"})
}

// sender is the hook that sends batches through the caller's client, with the hooks of that client, because a clone does not
// have them. It also gives batches a deadline: they have none, and connecting may take longer than any caller waits.
type sender struct {
	client  redis.UniversalClient
	timeout time.Duration
}

// DialHook changes nothing.
func (sender) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a command that is alone.
func (s sender) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.client.Process(driver.Bound(ctx, s.timeout), cmd)
	}
}

// ProcessPipelineHook sends a batch. An error that it returns becomes the error of every command that has none.
func (s sender) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx = driver.Bound(ctx, s.timeout)
		pipe := s.client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // queues; cannot fail
		}
		_, err := pipe.Exec(ctx)
		// Err is expensive here, so it is called only when something went wrong.
		if err != nil && slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			err = nil // each command has its own error
		}
		return err // of a hook of the user's
	}
}

package rlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Batches that are small, and several at a time, let the server run one while this process makes the next. Both figures
// are measured; the order among batches does not matter, for each script has a caller who waits for it.
const (
	batchTarget = 32
	maxBatches  = 4
)

// autoPipelines are the auto-pipeliners of a client, one for each node. They are made on clones of the nodes' clients, because
// those have one for all who ask, and the user may.
type autoPipelines struct {
	batches int // how many of a node may be under way at a time

	byNode sync.Map // *redis.Client -> *redis.AutoPipeliner

	mu      sync.Mutex // to open and to stop them
	stopped bool
	closing sync.WaitGroup
}

// question is a script that answers a number.
type question struct {
	script     *script
	name       string // of the lock, which tells the node
	keys, args []any
	// waiting ends the wait for a place among those who acquire; nil: it needs none.
	waiting context.Context //nolint:containedctx // for the length of the call
	// replicated tells that replicas must acknowledge it, where they are asked to.
	replicated bool
	// late is called with an answer that nobody waited for.
	late func(reply int64, err error)
}

// answer is what came of a question. With an error the reply is -1, but see [Client.take].
type answer struct {
	reply int64
	err   error
}

// ask runs a script, as exec runs commands: its error tells that nobody waited for the answer.
func (c *Client) ask(ctx context.Context, q question) (answer, error) {
	if pipeliner := c.pipelinerFor(&q); pipeliner != nil {
		got, err := c.askPipelined(ctx, pipeliner, &q)
		if err != nil || !c.mustLeave(got.err) {
			return got, err
		}
	}
	if c.inPlace(ctx) { // as exec does, and nothing is allocated for it
		return c.askAlone(c.bound(ctx), &q), nil
	}
	return c.askAside(ctx, q)
}

// askAside runs a script by itself, on a worker from which its caller can walk away.
func (c *Client) askAside(ctx context.Context, q question) (answer, error) {
	var got answer
	err := c.exec(ctx, func(ctx context.Context) { got = c.askAlone(ctx, &q) }, func() {
		if q.late != nil {
			q.late(got.reply, got.err)
		}
	})
	if err != nil {
		return answer{reply: -1}, err // got is not ours to look at
	}
	return got, nil
}

// askAlone runs a script by itself.
func (c *Client) askAlone(ctx context.Context, q *question) (got answer) {
	if q.waiting != nil {
		taken, err := c.place(q.waiting, q.name)
		if err != nil {
			return answer{-1, err}
		}
		defer taken.free()
	}
	if q.replicated {
		got.reply, got.err = c.take(ctx, q.script, q.keys, q.args...)
	} else {
		got.reply, got.err = c.runNumber(ctx, q.script, q.keys, q.args...)
	}
	return got
}

// askPipelined runs a script in a pipeline with what others send. Who waits can leave without a worker in between.
func (c *Client) askPipelined(ctx context.Context, pipeliner *redis.AutoPipeliner, q *question) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{reply: -1}, err
	}
	limit, cancel := context.WithTimeout(ctx, c.commandTimeout)
	defer cancel()
	for full := false; ; full = true {
		cmd := q.script.command(ctx, full, q.keys, q.args...)
		future := pipeliner.Submit(ctx, cmd)
		err := future.WaitContext(limit)
		switch {
		case err == nil:
			reply, err := number(cmd.Cmd)
			return answer{reply, err}, nil
		case limit.Err() != nil:
			return answer{reply: -1}, c.abandon(ctx, future, cmd, q.late)
		case !full && redis.HasErrorPrefix(err, "NOSCRIPT"):
		default:
			c.sawError(err)
			return answer{-1, err}, nil
		}
	}
}

// abandon leaves a command whose answer did not come while somebody waited for it, and says why.
func (c *Client) abandon(ctx context.Context, future redis.AutoFuture, cmd once, late func(int64, error)) error {
	if late != nil {
		c.background(func() {
			reply, err := int64(-1), future.Wait()
			if err == nil {
				reply, err = number(cmd.Cmd)
			}
			late(reply, err)
		})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.sawError(errNoAnswer)
	return errNoAnswer
}

// mustLeave tells whether a script that a pipeline could not run is to be sent by itself: there go-redis follows where a
// cluster sends it. Nothing of it was executed.
func (c *Client) mustLeave(err error) bool {
	if err == nil || errors.Is(err, redis.ErrClosed) {
		return err != nil
	}
	return c.cluster != nil &&
		(redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ") || says(err, "READONLY"))
}

// pipelinerFor returns the auto-pipeliner for a question, or nil if it is to be asked by itself.
func (c *Client) pipelinerFor(q *question) *redis.AutoPipeliner {
	if !c.autoPipeline || q.replicated && c.acks > 0 {
		return nil
	}
	node, _ := c.rdb.(*redis.Client)
	if c.cluster != nil {
		if !c.routed.Load() {
			return nil // to learn the way may take long
		}
		var err error
		if node, err = c.cluster.MasterForKey(context.Background(), q.name); err != nil {
			return nil
		}
	}
	if v, ok := c.pipelines.byNode.Load(node); ok {
		return v.(*redis.AutoPipeliner) //nolint:forcetypeassert // nothing else is stored
	}
	return c.pipelines.open(node, c.commandTimeout)
}

// open makes the auto-pipeliner of a node, or returns nil once they are stopped.
func (a *autoPipelines) open(node *redis.Client, timeout time.Duration) *redis.AutoPipeliner {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v, ok := a.byNode.Load(node); ok {
		return v.(*redis.AutoPipeliner) //nolint:forcetypeassert // nothing else is stored
	}
	if a.stopped {
		return nil
	}
	a.forget(func(p *redis.AutoPipeliner) bool { return p.IsClosed() }) // its node has left the cluster
	own := node.WithTimeout(timeout)
	own.AddHook(sender{node, timeout})
	pipeliner, err := own.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{
		MaxBatchSize: batchTarget, MaxConcurrentBatches: a.batches, Unordered: true,
	})
	if err != nil {
		return nil
	}
	a.byNode.Store(node, pipeliner)
	return pipeliner
}

// forget closes the auto-pipeliners that gone tells. It requires a.mu.
func (a *autoPipelines) forget(gone func(*redis.AutoPipeliner) bool) {
	for node, v := range a.byNode.Range {
		pipeliner := v.(*redis.AutoPipeliner) //nolint:forcetypeassert // nothing else is stored
		if gone(pipeliner) {
			a.byNode.Delete(node)
			a.closing.Go(func() { _ = pipeliner.Close() }) // an error tells that it waits no longer
		}
	}
}

// stop ends the auto-pipeliners, and waits until ctx ends for what they are sending.
func (a *autoPipelines) stop(ctx context.Context) {
	a.mu.Lock()
	a.stopped = true
	a.forget(func(*redis.AutoPipeliner) bool { return true })
	a.mu.Unlock()
	await(ctx, &a.closing)
}

// sender is the hook that has batches sent by the node's client, with the hooks of that, which a clone does not have. It
// gives them a deadline too: they have none, and to connect may take longer than anybody waits.
type sender struct {
	node    *redis.Client
	timeout time.Duration
}

func (s sender) bound(ctx context.Context) context.Context {
	return deadlineOnly{ctx, time.Now().Add(s.timeout)}
}

// DialHook changes nothing.
func (sender) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a command that is alone.
func (s sender) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return s.node.Process(s.bound(ctx), cmd) }
}

// ProcessPipelineHook sends a batch. What the hook returns would become the error of every command that has none.
func (s sender) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx = s.bound(ctx)
		pipe := s.node.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // queues; cannot fail
		}
		_, err := pipe.Exec(ctx)
		// Err is costly here, so it is asked only when something went wrong.
		if err != nil && slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			err = nil // each command has its own
		}
		return err // of a hook of the user's
	}
}

package rlockrueidis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// limits bounds how many connections to each node commands use at a time.
type limits struct {
	size   int
	one    atomic.Pointer[limit] // outside clusters, and while the topology is not known
	byNode sync.Map              // node -> *limit
	tends  atomic.Bool           // whether tend does something
}

// limit is that of one node.
type limit struct {
	under chan struct{}
	most  atomic.Int64 // how many were in use at a time, since tend did something
}

// limit returns that of the node that has a slot.
func (d *conn) limit(slot int64) *limit {
	if now := d.topology.shards.Load(); now != nil {
		if master, ok := now.of(slot); ok {
			if l, ok := d.limits.byNode.Load(master); ok {
				return l.(*limit)
			}
			l, _ := d.limits.byNode.LoadOrStore(master, d.limits.fresh())
			return l.(*limit)
		}
	}
	if l := d.limits.one.Load(); l != nil {
		return l
	}
	d.limits.one.CompareAndSwap(nil, d.limits.fresh())
	return d.limits.one.Load()
}

func (l *limits) fresh() *limit { return &limit{under: make(chan struct{}, l.size)} }

// take waits until a command may use a connection.
func (l *limit) take(ctx context.Context) error {
	select {
	case l.under <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", fault.ErrNoConnection, ctx.Err())
	}
	for n := int64(len(l.under)); ; {
		most := l.most.Load()
		if n <= most || l.most.CompareAndSwap(most, n) {
			return nil
		}
	}
}

func (l *limit) free() { <-l.under }

// tend looks at the outcome of a command, and does something about the connections of the pool:
//
//   - If the command's connection was broken, others may be, too: a server that restarts breaks all of them, and rueidis notices that only
//     when it uses one, or sends it a PING a second later. So it is made to use them.
//   - If the server is a replica now, the connections lead to an old master. Behind a name, new ones may lead to the new master. So
//     they are closed: rueidis would keep them, because an error that Redis replies does not break a connection.
func (d *conn) tend(r rueidis.RedisResult, key string) {
	err := r.Error()
	if err == nil {
		return
	}
	reply, replied := rueidis.IsRedisErr(err)
	demoted := replied && !d.cluster && strings.HasPrefix(reply.Error(), "READONLY")
	if !demoted && (replied || !broken(err) || errors.Is(err, context.DeadlineExceeded)) || !d.limits.tends.CompareAndSwap(false, true) {
		return
	}
	cmd := d.client.B().Arbitrary("PING").Keys(key).Build()
	most := int(d.limit(int64(cmd.Slot())).most.Swap(0))
	if !d.background.run(func(over context.Context) {
		defer d.limits.tends.Store(false)
		ctx, cancel := context.WithTimeout(over, d.timeout)
		defer cancel()
		command := func() rueidis.Completed { return d.client.B().Arbitrary("PING").Keys(key).Blocking() }
		if demoted { // past its deadline it is not sent, and rueidis closes the connection; with AlwaysPipelining it is sent, and Redis does
			ctx = driver.Bound(over, -time.Hour)
			command = func() rueidis.Completed { return d.client.B().Arbitrary("QUIT").Blocking() }
		}
		var all sync.WaitGroup
		for range most { // at the same time, so that each has another connection
			all.Go(func() {
				defer func() { _ = recover() }() // of a hook of the client
				d.client.Do(ctx, command())
			})
		}
		all.Wait()
	}) {
		d.limits.tends.Store(false)
	}
}

// Package demo has a Redis within this process, and a ticket office at work on it, which has something of each kind of lock to show.
package demo

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// Redis starts a Redis within this process, and returns its address. Nobody else can reach it.
func Redis() (addr string, stop func(), err error) {
	server, err := miniredis.Run()
	if err != nil {
		return "", nil, err
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // it has no clock: its keys expire only when its time is moved forward
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case now := <-tick.C:
				server.FastForward(now.Sub(last))
				server.SetTime(now)
				last = now
			case <-done:
				return
			}
		}
	}()
	return server.Addr(), func() { close(done); <-ended; server.Close() }, nil
}

// office is the ticket office at work.
type office struct {
	rdb     *redis.Client
	clients []*rlock.Client
	working sync.WaitGroup
}

// tickets is how many there are for each evening.
const tickets = 20

// Office has a ticket office work until ctx ends. Five counters sell the tickets of an evening, each under the same lock, so that none is sold
// twice, and Office says so whenever they are sold out. Around them, others use the other kinds.
func Office(ctx context.Context, rdb *redis.Client, say func(format string, args ...any)) error {
	o := &office{rdb: rdb}
	defer func() {
		o.working.Wait()
		for _, client := range o.clients {
			_ = client.Close()
		}
	}()
	opened := o.client("manager", "office", 7)
	if err := rdb.Set(ctx, "stock:evening", tickets, 0).Err(); err != nil {
		return err
	}
	if _, err := opened.NewCountDownLatch("doors-open").TrySetCount(ctx, 2); err != nil {
		return err
	}
	o.work(ctx, func(ctx context.Context) error { return opened.NewCountDownLatch("doors-open").Await(ctx) })
	for i := range 5 {
		counter := o.client("counter", fmt.Sprint("office-", i+1), 100+i)
		o.work(ctx, func(ctx context.Context) error { return o.sell(ctx, counter.NewFairLock("tickets:evening"), say) })
		o.holds(ctx, 2, counter.NewSemaphore("printers", rlock.Total(3)).Do)
		o.holds(ctx, 4, counter.NewRWLock("prices").Reader().Do)
	}
	for i := range 3 {
		shop := o.client("web-shop", fmt.Sprintf("web-7f9c-%d", i), 17)
		o.work(ctx, func(ctx context.Context) error {
			seat := fmt.Sprintf("seats:%c%d", 'A'+rand.IntN(8), 1+rand.IntN(30))
			return shop.NewLock(seat).Do(ctx, pause(6), rlock.Lease(20*time.Second))
		})
		o.holds(ctx, 5, shop.NewLock("payments:gateway").Do)
	}
	o.holds(ctx, 3, o.client("campaign", "batch-1", 811).NewRWLock("prices").Writer().Do)
	o.holds(ctx, 90, o.client("accounting", "batch-0", 4113).NewLock("settlement", rlock.Fenced()).Do)
	o.work(ctx, func(ctx context.Context) error {
		return o.clients[0].NewLock("cron:newsletter").Do(ctx, pause(2), rlock.AtLeast(time.Minute))
	})
	o.holds(ctx, 60, o.client("", "", 0).NewLock("legacy:import").Do, rlock.Lease(75*time.Second))
	<-ctx.Done()
	return nil
}

// client returns a client as if it were a process of its own, without an identity if it has no service.
func (o *office) client(service, host string, pid int) *rlock.Client {
	opts := []rlock.Option{rlock.WithLogger(slog.New(slog.DiscardHandler))} // a visitor may free locks
	if service != "" {
		opts = append(opts, rlock.WithIdentity(rlock.Identity{Service: service, Host: host, PID: pid, Version: "v1.4.2", Started: time.Now()}))
	}
	client, err := rlock.New(o.rdb, opts...)
	if err != nil {
		panic(err) //nolint:forbidigo // the options are those above
	}
	o.clients = append(o.clients, client)
	return client
}

// work does something again and again. That a lock is lost, or taken for too long, is a part of it.
func (o *office) work(ctx context.Context, do func(context.Context) error) {
	o.working.Go(func() {
		for ctx.Err() == nil {
			_ = do(ctx)
			_ = pause(1)(ctx)
		}
	})
}

// holds takes something again and again, for about so many seconds.
func (o *office) holds(
	ctx context.Context, seconds int, do func(context.Context, func(context.Context) error, ...rlock.AcquireOption) error, opts ...rlock.AcquireOption,
) {
	o.work(ctx, func(ctx context.Context) error { return do(ctx, pause(seconds), opts...) })
}

// pause returns what takes about so many seconds.
func pause(seconds int) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(time.Duration(seconds)*time.Second/2 + rand.N(time.Duration(seconds)*time.Second)):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
}

// sell sells one ticket, in three steps that another counter must not come between.
func (o *office) sell(ctx context.Context, lock *rlock.Lock, say func(format string, args ...any)) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		left, err := o.rdb.Get(ctx, "stock:evening").Int()
		if err != nil {
			return err
		}
		if err := pause(2)(ctx); err != nil { // takes the payment, prints the ticket
			return err
		}
		if left--; left == 0 {
			say("all %d tickets are sold, none of them twice; the next evening is on sale", tickets)
			left = tickets
		}
		return o.rdb.Set(ctx, "stock:evening", left, 0).Err()
	})
}

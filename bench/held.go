package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// memory is the memory of the process after a garbage collection, in bytes, and its number of goroutines.
type memory struct {
	heap, stack uint64
	goroutines  int
}

func measureMemory() memory {
	runtime.GC()
	runtime.GC() // frees the objects that the finalizers of the first run released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()}
}

// lockNames returns n names of locks.
func lockNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("bench:held:%d", i)
	}
	return names
}

// lockAll locks all names with several goroutines. It creates the handles, because they are part of a lock's cost.
func lockAll(ctx context.Context, lib Library, names []string) ([]Handle, error) {
	const workers = 32
	handles := make([]Handle, len(names))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(names) && errs[w] == nil; i += workers {
				handles[i] = lib.Handle(names[i])
				errs[w] = handles[i].Lock(ctx)
			}
		})
	}
	wg.Wait()
	return handles, errors.Join(errs...)
}

// warm locks and unlocks enough names to create the connections and goroutines that exist once, not per lock.
func warm(ctx context.Context, lib Library) error {
	names := make([]string, 64)
	for i := range names {
		names[i] = fmt.Sprintf("bench:warm:%d", i)
	}
	handles, err := lockAll(ctx, lib, names)
	if err != nil {
		return err
	}
	errs := make([]error, len(handles))
	for i, h := range handles {
		errs[i] = h.Unlock(ctx)
	}
	return errors.Join(errs...)
}

// runHeld holds many locks. It measures the cost, and whether the locks survive.
func runHeld(ctx context.Context, c Cell, lib Library) (Metrics, error) {
	servers := newServers(c.Addrs)
	defer servers.close()
	names := lockNames(c.Locks)
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = lib.Key(name)
	}
	quiet := measureMemory().goroutines
	if err := warm(ctx, lib); err != nil && c.Library != floor { // in S6 the floor only renews
		return nil, err
	}
	before := measureMemory()
	handles, err := lockAll(ctx, lib, names)
	if err != nil {
		return nil, err
	}
	if err := servers.reset(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	watched, err := watchTTLs(ctx, c, servers, keys)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(start).Seconds()
	after := measureMemory()
	sent, err := servers.sent(ctx, c.Library)
	if err != nil {
		return nil, err
	}
	runtime.KeepAlive(handles)
	n := float64(c.Locks)
	return Metrics{
		mGoroutines: float64(after.goroutines - quiet),
		mRate:       sent / elapsed,
		mBytes:      (float64(after.heap) - float64(before.heap)) / n,
		mStack:      (float64(after.stack) - float64(before.stack)) / n,
		mLate:       float64(watched.late), mLost: float64(watched.gone), mLowest: float64(watched.lowest),
	}, nil
}

// ttlWatch summarizes the keys' times to live.
type ttlWatch struct{ late, gone, lowest int64 }

// watchTTLs samples a part of the keys at a time while the cell measures, and all of them at the end. A key is late when
// less than a third of its lease is left: the slowest library here renews after half of the lease.
func watchTTLs(ctx context.Context, c Cell, s *servers, keys []string) (ttlWatch, error) {
	const part, pause = 500, 100 * time.Millisecond
	limit := c.Lease.Milliseconds() / 3
	w := ttlWatch{lowest: c.Lease.Milliseconds()}
	parts := slices.Collect(slices.Chunk(keys, part))
	look := func(part []string) (int64, error) {
		gone, late, lowest, err := s.ttls(ctx, part, limit)
		w.late += late
		w.lowest = min(w.lowest, lowest)
		return gone, err
	}
	for i, end := 0, time.Now().Add(c.Measure); time.Now().Before(end); i++ {
		if _, err := look(parts[i%len(parts)]); err != nil {
			return w, err
		}
		time.Sleep(pause)
	}
	for _, part := range parts {
		gone, err := look(part)
		if err != nil {
			return w, err
		}
		w.gone += gone
	}
	return w, nil
}

// errGranted is the error of a waiter that should wait, because somebody holds its lock.
var errGranted = errors.New("got a lock that is held")

// allWait returns an error if a waiter has returned.
func allWait(failed chan error) error {
	n := len(failed)
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d waiters did not wait: %w", n, cap(failed), cmp.Or(<-failed, errGranted))
}

// runWaiters lets many goroutines wait for as many locks, and measures the cost of a waiter.
func runWaiters(ctx context.Context, c Cell, lib Library) (Metrics, error) {
	servers := newServers(c.Addrs)
	defer servers.close()
	names := lockNames(c.Locks)
	e, _ := entrantNamed(c.Library)
	holder, err := e.open(c) // a separate client, like that of another process
	if err != nil {
		return nil, err
	}
	held, err := lockAll(ctx, holder, names)
	if err != nil {
		return nil, err
	}
	if err := warm(ctx, lib); err != nil {
		return nil, err
	}
	sockets, _, err := servers.sockets(ctx)
	if err != nil {
		return nil, err
	}
	if err := servers.reset(ctx); err != nil { // each waiter asks once at least, and rest counts that
		return nil, err
	}
	before := measureMemory()
	failed := make(chan error, len(names)) // no waiter can get a lock, so every return is a failure
	for _, name := range names {
		h := lib.Handle(name)
		go func() { failed <- h.Lock(ctx) }()
	}
	settled, err := rest(ctx, c, servers)
	if err != nil {
		return nil, err
	}
	if err := servers.reset(ctx); err != nil {
		return nil, err
	}
	time.Sleep(c.Measure)
	sent, err := servers.sent(ctx, c.Library)
	if err != nil {
		return nil, err
	}
	after := measureMemory()
	all, pubsub, err := servers.sockets(ctx)
	if err != nil {
		return nil, err
	}
	runtime.KeepAlive(held)
	if err := allWait(failed); err != nil {
		return nil, err
	}
	n := float64(c.Locks)
	m := Metrics{
		mSockets: float64(all - sockets), mPubSub: float64(pubsub),
		mGoroutines: float64(after.goroutines - before.goroutines),
		mBytes:      (float64(after.heap) - float64(before.heap)) / n,
		mStack:      (float64(after.stack) - float64(before.stack)) / n,
	}
	if c.Measure > 0 {
		m[mRate] = sent / c.Measure.Seconds()
	}
	if settled > 0 {
		m[mSettled] = settled.Seconds()
	}
	return m, nil
}

// rest watches the waiters for the warm-up. It returns when they had settled: from then on for a second, all of them sent at most
// one command for a hundred. Zero means that they did not.
func rest(ctx context.Context, c Cell, servers *servers) (settled time.Duration, err error) {
	type look struct {
		at   time.Duration
		sent float64
	}
	var looks []look
	begin := time.Now()
	for {
		sent, err := servers.sent(ctx, c.Library)
		if err != nil {
			return 0, err
		}
		now := look{time.Since(begin), sent}
		if settled == 0 {
			looks = append(looks, now)
			for looks[0].at < now.at-time.Second {
				if before := looks[0]; before.sent >= float64(c.Locks) && now.sent-before.sent <= float64(c.Locks)/100 {
					settled = before.at
					break
				}
				looks = looks[1:]
			}
		}
		if now.at > c.Warmup {
			return settled, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

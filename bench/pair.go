package main

import (
	"context"
	"runtime"
	"strconv"
	"time"
)

// runPair measures uncontended pairs of one goroutine: their duration, allocations and commands.
func runPair(ctx context.Context, c Cell, lib Library) (Metrics, error) {
	servers := newServers(c.Addrs)
	defer servers.close()
	// A context that can end costs rlock more than one that never does, so the cell chooses.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !c.CanEnd {
		ctx = context.WithoutCancel(ctx)
	}
	h, names := lib.Handle(oneName), int64(0)
	if c.Together > 0 {
		h = together(lib, lockNames(c.Together))
	}
	pair := func() error {
		if c.Fresh {
			names++
			h = lib.Handle("bench:" + strconv.FormatInt(names, 10))
		}
		if err := h.Lock(ctx); err != nil {
			return err
		}
		return h.Unlock(ctx)
	}
	for end := time.Now().Add(c.Warmup); time.Now().Before(end); {
		if err := pair(); err != nil {
			return nil, err
		}
	}
	if err := servers.reset(ctx); err != nil {
		return nil, err
	}
	idle, err := servers.used(ctx, c.Library)
	if err != nil {
		return nil, err
	}
	times := make([]float64, 0, 1<<20) // large enough not to grow between the readings
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	last := time.Now()
	for end := last.Add(c.Measure); last.Before(end); {
		if err := pair(); err != nil {
			return nil, err
		}
		now := time.Now()
		times = append(times, float64(now.Sub(last))/float64(time.Microsecond))
		last = now
	}
	runtime.ReadMemStats(&after)
	spent, err := servers.used(ctx, c.Library)
	if err != nil {
		return nil, err
	}
	n := float64(len(times))
	w := Waits{}
	for _, t := range times {
		w.add(time.Duration(t * float64(time.Microsecond)))
	}
	return Metrics{
		mLatency: median(times), mLatency99: w.quantile(0.99, time.Microsecond),
		mAllocs: float64(after.Mallocs-before.Mallocs) / n, mCommands: spent.all() / n,
		mScriptCPU: spent.script / n, mCPU: (spent.cpu - idle.cpu) / n,
	}, nil
}

package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cell is one measurement: a scenario of one size with one library. It is what a child process is told.
type Cell struct {
	Scenario   string
	Library    string
	Addrs      []string      // one server, or the nodes of a cluster
	Processes  int           // that share the work, 1 if not said otherwise
	Process    int           // which of them the child is
	Goroutines int           // in each process
	Names      int           // of locks; 0: one for each goroutine
	Hold       time.Duration // for which the lock is kept
	Locks      int           // held, or waited for
	Lease      time.Duration // 0: what the library comes with
	Poll       time.Duration // of libraries that poll
	Warmup     time.Duration
	Measure    time.Duration
	PlainCtx   bool   // in S1, the context never ends; otherwise it can
	Arena      string // file that the processes of a cell share
}

// isCluster says whether the cell runs on a cluster.
func (c *Cell) isCluster() bool { return len(c.Addrs) > 1 }

// leaseOr returns the cell's lease, or another if it has none.
func (c *Cell) leaseOr(d time.Duration) time.Duration {
	if c.Lease > 0 {
		return c.Lease
	}
	return d
}

// poll returns how often libraries that poll do so. Their own pauses would show nothing but the pause, so each size has
// the one that was the best for them of 1, 2, 5, 10 and 20 ms.
func (c *Cell) poll() time.Duration {
	if c.Poll > 0 {
		return c.Poll
	}
	return time.Millisecond
}

// goRedis opens a client as go-redis comes, the same for every library on it.
func (c *Cell) goRedis() (redis.UniversalClient, error) {
	var rdb redis.UniversalClient
	if c.isCluster() {
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs})
	} else {
		rdb = redis.NewClient(&redis.Options{Addr: c.Addrs[0]})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return rdb, rdb.Ping(ctx).Err()
}

// Outcome is what a cell, or one process of it, found.
type Outcome struct {
	Metrics Metrics `json:",omitempty"`
	Tally   *Tally  `json:",omitempty"` // of a process, for those who add the processes up
	Error   string  `json:",omitempty"`
	Broken  string  `json:",omitempty"` // how exclusion was seen not to hold
}

// Metrics are figures by their names.
type Metrics map[string]float64

// The names of the metrics.
const (
	mPairs      = "pairs/s"
	mLatency    = "latency µs"
	mLatency99  = "p99 µs"
	mAllocs     = "allocations"
	mCommands   = "commands" // for one acquisition
	mHandOffs   = "hand-offs/s"
	mBetween    = "between processes/s"
	mPerHandOff = "commands per hand-off"
	mWait50     = "p50 wait ms"
	mWait99     = "p99 wait ms"
	mSpread     = "max/min per goroutine"
	mShares     = "shares of the processes %" // a list: a number from 1 follows the name
	mShare      = "max/min per process"
	mLongest    = "longest waits of the processes ms" // a list
	mTail       = "p99/p50"
	mFIFO       = "p99 to FIFO"  // to what the last in a queue would wait, were each hand-off the floor's
	mLeft       = "left waiting" // for a free lock, when all others had gone
	mGoroutines = "goroutines"
	mRate       = "commands/s"
	mBytes      = "bytes per lock"
	mStack      = "stack bytes per lock"
	mLost       = "lost"
	mLate       = "late"
	mLowest     = "lowest TTL ms"
	mSockets    = "sockets"
	mPubSub     = "pub/sub sockets"
)

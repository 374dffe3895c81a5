package main

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// oneName is the name of the lock in cells that have one.
const oneName = "bench:one"

// Cell describes one measurement: a scenario of one size with one library. A child process receives it as JSON.
type Cell struct {
	Scenario   string
	Library    string
	Addrs      []string      // one server, or the nodes of a cluster
	Processes  int           // that share the work; zero means one
	Process    int           // the index of the child
	Goroutines int           // per process
	Fleet      bool          // each goroutine has a client of its own
	Fault      string        // what happens to waiters
	Names      int           // of locks; zero means one per goroutine
	Permits    int           // of a semaphore that all goroutines share; zero means that they take locks
	Hold       time.Duration // how long an owner keeps the lock
	Together   int           // locks that are taken as one; zero means a single lock
	RoundTrip  time.Duration // what a network adds to each; zero means none
	Locks      int           // held or waited for
	Lease      time.Duration // zero means the library's default
	Poll       time.Duration // the interval of libraries that poll; zero means 1 ms
	Warmup     time.Duration
	Measure    time.Duration
	Period     time.Duration // the longest one of what a library sends at rest: Measure has three of them at least, whatever the scale
	Fresh      bool          // in S1, each pair has a name and a handle of its own
	CanEnd     bool          // in S1, the context can end
	Arena      string        // the file that the processes of a cell share
}

// scale makes the times of a cell longer or shorter.
func (c *Cell) scale(by float64) {
	c.Warmup, c.Measure = scaled(c.Warmup, by), max(scaled(c.Measure, by), 3*c.Period)
}

// isCluster reports whether the cell runs on a cluster.
func (c *Cell) isCluster() bool { return len(c.Addrs) > 1 }

// opening returns the time that the clients of a fleet may need in addition to start.
func (c *Cell) opening() time.Duration {
	if !c.Fleet {
		return 0
	}
	return time.Duration(c.Goroutines) * 20 * time.Millisecond
}

// lease returns the cell's lease, or rlock's default if it has none.
func (c *Cell) lease() time.Duration { return cmp.Or(c.Lease, 30*time.Second) }

// leaseMs is lease in milliseconds, as a word of a command.
func (c *Cell) leaseMs() string { return strconv.FormatInt(c.lease().Milliseconds(), 10) }

// poll returns the poll interval. The libraries' own intervals would dominate the figures, so each size uses the best one
// of 1, 2, 5, 10 and 20 ms.
func (c *Cell) poll() time.Duration {
	if c.Poll > 0 {
		return c.Poll
	}
	return time.Millisecond
}

// goRedis opens a client with go-redis's default options, the same for every library on top of it.
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

// rueidis opens a client with rueidis's default options.
func (c *Cell) rueidis() (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs})
}

// Outcome is the result of a cell, or of one process of it.
type Outcome struct {
	Metrics Metrics `json:",omitempty"`
	Tally   *Tally  `json:",omitempty"` // of one process; the lab adds the processes up
	Error   string  `json:",omitempty"`
}

// Metrics maps the names of figures to their values.
type Metrics map[string]float64

// The names of the metrics.
const (
	mPairs      = "pairs/s"
	mLatency    = "latency µs"
	mLatency99  = "p99 µs"
	mAllocs     = "allocations"
	mCommands   = "commands" // per acquisition
	mHandOffs   = "hand-offs/s"
	mBetween    = "between processes/s"
	mPerHandOff = "commands per hand-off"
	mScripts    = "scripts"    // per hand-off, like the next two
	mSubscribe  = "subscribes" // and their opposite
	mPings      = "pings"
	mScriptCPU  = "script µs" // of Redis, per pair or hand-off
	mCPU        = "Redis µs"  // of its main thread, per pair or hand-off
	mWait50     = "p50 wait ms"
	mWait99     = "p99 wait ms"
	mWaitMax    = "longest wait ms"
	mFewest     = "fewest turns" // of a goroutine
	mMost       = "most turns"
	mSpread     = "max/min per goroutine"
	mShares     = "shares of the processes %" // a list: the name is followed by a number from 1
	mShare      = "max/min per process"
	mLongest    = "longest waits of the processes ms" // a list
	mTail       = "p99/p50"
	mRound      = "p99 to a round" // of all goroutines, each with one turn
	mFIFO       = "p99 to FIFO"    // compared with the last waiter in a queue whose hand-offs take the floor's time
	mGap        = "longest gap ms" // between two turns
	mLeft       = "left waiting"   // for a free lock, when all others had finished
	mGoroutines = "goroutines"
	mRate       = "commands/s"
	mSettled    = "settled after s"
	mBytes      = "bytes per lock"
	mStack      = "stack bytes per lock"
	mLost       = "lost"
	mLate       = "late"
	mLowest     = "lowest TTL ms"
	mSockets    = "sockets"
	mPubSub     = "pub/sub sockets"
)

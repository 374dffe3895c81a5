package interop_test

import "time"

// count is a loop in which threads add to a number in Redis under a lock. If two owners hold the lock at once, additions are
// lost.
type count struct {
	Kind    string
	Names   []string
	Counter string // the key of the number
	Threads int
	Readers int // threads that check, under the read lock, that the number does not change
	For     time.Duration
	Lease   time.Duration // zero means that the watchdog renews the lock
}

// counted is the result of count.
type counted struct {
	Increments []int64 `json:"increments"` // per thread
	Reads      int64   `json:"reads"`
}

// sum returns the number of additions.
func (c counted) sum() (n int64) {
	for _, i := range c.Increments {
		n += i
	}
	return n
}

// Count starts the loop in Java. The result is an error if a reader saw the number change.
func (c *redissonClient) Count(loop count) <-chan result[counted] {
	r := request{
		Op: "count", Client: c.name, Kind: loop.Kind, Names: loop.Names, Counter: loop.Counter,
		Threads: loop.Threads, Readers: loop.Readers, MS: loop.For.Milliseconds(),
	}
	if loop.Lease != 0 {
		r.Lease = milliseconds(loop.Lease)
	}
	return ask[counted](c.jvm, r)
}

// bench is a loop in which threads lock and unlock as fast as they can.
type bench struct {
	Kind    string
	Names   []string
	Threads int
	Warmup  time.Duration
	For     time.Duration
}

// benched is the result of bench, without the warm-up.
type benched struct {
	Pairs    []int64       `json:"pairs"`    // per thread
	HandOffs int64         `json:"handOffs"` // acquisitions by another thread of the loop than the last one
	Elapsed  time.Duration `json:"nanos"`
}

// Bench starts the loop in Java.
func (c *redissonClient) Bench(loop bench) <-chan result[benched] {
	return ask[benched](c.jvm, request{
		Op: "bench", Client: c.name, Kind: loop.Kind, Names: loop.Names, Threads: loop.Threads,
		Warmup: loop.Warmup.Milliseconds(), MS: loop.For.Milliseconds(),
	})
}

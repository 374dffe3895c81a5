package interop_test

import "time"

// count is a loop in which threads add to a number in Redis under a lock, in a way that loses additions if two are in
// the lock at a time.
type count struct {
	Kind    string
	Names   []string
	Counter string // the key of the number
	Threads int
	Readers int // threads that look whether the number moves under the read lock of the name
	For     time.Duration
	Lease   time.Duration // 0: renewed
}

// counted is what they did.
type counted struct {
	Increments []int64 `json:"increments"` // of each thread
	Reads      int64   `json:"reads"`
}

// sum returns how many additions there were.
func (c counted) sum() (n int64) {
	for _, i := range c.Increments {
		n += i
	}
	return n
}

// Count starts the loop. The result is an error if a reader saw the number move.
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

// benched is what they did after the warm-up.
type benched struct {
	Pairs    []int64       `json:"pairs"`    // of each thread
	HandOffs int64         `json:"handOffs"` // acquisitions by another thread than the last, of those of the loop
	Elapsed  time.Duration `json:"nanos"`
}

// Bench starts the loop.
func (c *redissonClient) Bench(loop bench) <-chan result[benched] {
	return ask[benched](c.jvm, request{
		Op: "bench", Client: c.name, Kind: loop.Kind, Names: loop.Names, Threads: loop.Threads,
		Warmup: loop.Warmup.Milliseconds(), MS: loop.For.Milliseconds(),
	})
}

package redistest

import (
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest/host"
)

// Stopwatch returns a function that says how much time has passed for this process since then. While the machine stands still, or runs other
// processes, that is less than by the clock of the wall: a test that says how long something may take does not fail for that. In virtual
// time, it is the time. The stopwatch stops with the test.
func Stopwatch(tb testing.TB) func() time.Duration {
	tb.Helper()
	last := time.Now()
	if host.Virtual {
		return func() time.Duration { return time.Since(last) }
	}
	const tick = 10 * time.Millisecond
	var mu sync.Mutex
	var passed time.Duration
	look := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		step := time.Since(last)
		last = last.Add(step)
		passed += min(step, 2*tick) // this goroutine was to run after a tick
		return passed
	}
	ticker, over := time.NewTicker(tick), make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-ticker.C:
				look()
			case <-over:
				return
			}
		}
	})
	tb.Cleanup(func() {
		ticker.Stop()
		close(over)
		looking.Wait()
	})
	return look
}

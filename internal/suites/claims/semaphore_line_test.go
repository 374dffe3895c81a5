package claims

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// limiter is what both semaphores have.
type limiter interface {
	Do(ctx context.Context, fn func(context.Context) error, opts ...rlock.AcquireOption) error
}

// limiters makes a semaphore with so many permits.
var limiters = map[string]func(*rlock.Client, string, int) limiter{
	"semaphore": func(c *rlock.Client, name string, permits int) limiter {
		return c.NewSemaphore(name, rlock.Total(permits))
	},
}

// TestAPermitCostsFewCommands has many processes share a few permits. Each asks once and is refused, is told, asks once more, and
// releases. The others cost nothing.
func TestAPermitCostsFewCommands(t *testing.T) {
	t.Parallel()
	for what, limiter := range limiters {
		for _, processes := range []int{32, 256} {
			if testing.Short() && processes > 32 {
				continue
			}
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				const permits, turns = 8, 10
				server := redistest.Start(t)
				admin, name := server.Client(t), testkit.NewName()
				var inside, most atomic.Int64
				run := func(turns int) {
					var wg sync.WaitGroup
					begin := make(chan struct{})
					for range processes {
						s := limiter(testkit.NewClient(t, server.Client(t)), name, permits)
						wg.Go(func() {
							<-begin
							for range turns {
								err := s.Do(t.Context(), func(context.Context) error {
									for n := inside.Add(1); n > most.Load(); {
										most.Store(n)
									}
									time.Sleep(time.Millisecond) // the work
									inside.Add(-1)
									return nil
								})
								if err != nil {
									t.Error(err)
								}
							}
						})
					}
					close(begin)
					wg.Wait()
				}
				require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
				began := time.Now()
				run(turns)
				calls := testkit.Stats(t, admin)
				perTurn := float64(calls["evalsha"]+calls["eval"]) / float64(processes*turns)
				t.Logf("%d processes: %.2f commands, %.2f messages", processes, perTurn, float64(calls["publish"])/float64(processes*turns))
				polls := time.Since(began).Seconds() / 5 / turns // a waiter asks every 5 s, which counts where a turn takes long
				require.LessOrEqual(t, perTurn, 3.0+polls)
				require.LessOrEqual(t, most.Load(), int64(permits))
			})
		}
	}
}

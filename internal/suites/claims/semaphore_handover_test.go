package claims

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestPermitsStayInTheProcess: a turn of the goroutines of one process costs about two commands.
func TestPermitsStayInTheProcess(t *testing.T) {
	t.Parallel()
	for what, limiter := range limiters {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			const permits, goroutines, turns = 4, 32, 100
			server := redistest.Start(t)
			client := testkit.NewClient(t, server.Client(t))
			s := limiter(client, testkit.NewName(), permits)
			var inside, most atomic.Int64
			run := func(turns int) {
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for range turns {
							err := s.Do(t.Context(), func(context.Context) error {
								for n := inside.Add(1); n > most.Load(); {
									most.Store(n)
								}
								inside.Add(-1)
								return nil
							})
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
			}
			run(1)
			admin := server.Client(t)
			require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
			run(turns)
			calls := testkit.Stats(t, admin)
			perTurn := float64(calls["evalsha"]+calls["eval"]) / float64(goroutines*turns)
			t.Logf("%.2f commands a turn", perTurn)
			require.LessOrEqual(t, perTurn, 2.5)
			require.LessOrEqual(t, most.Load(), int64(permits))
		})
	}
}

// TestPermitsAreHandedOverInOrder: waiters of a process have their turns as they came, also behind one that wants more.
func TestPermitsAreHandedOverInOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	client := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never))
	name := testkit.NewName()
	s := client.NewSemaphore(name, rlock.Total(2))
	line := "rlock:{" + name + "}"
	first := testkit.Must(s.Acquire(t.Context(), rlock.Permits(2)))
	wants := []int{1, 1, 1, 1, 1, 2, 1, 1, 1, 2, 2, 1, 1}
	together := [][]int{{0, 1}, {2, 3}, {4}, {5}, {6, 7}, {8}, {9}, {10}, {11, 12}}
	type turn struct {
		waiter int
		hold   *rlock.Hold
	}
	turns := make(chan turn, len(wants))
	for i, permits := range wants {
		go func() {
			hold, err := s.Acquire(t.Context(), rlock.Permits(permits))
			if err != nil {
				t.Error(err)
			}
			turns <- turn{i, hold}
		}()
		testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == i+1 })
	}
	require.NoError(t, first.Unlock(t.Context()))
	for _, want := range together {
		var got []int
		var holds []*rlock.Hold
		for range want {
			next := testkit.Within(t, "somebody has a turn", turns)
			got, holds = append(got, next.waiter), append(holds, next.hold)
		}
		require.ElementsMatch(t, want, got)
		require.Empty(t, turns)
		if client.Stats().Waiting > 0 {
			testkit.Eventually(t, "the next one has asked", func() bool { return admin.Exists(t.Context(), line).Val() == 1 })
		}
		for _, hold := range holds {
			require.NoError(t, hold.Unlock(t.Context()))
		}
	}
}

// TestABusyProcessLeavesPermitsToOthers: another process that waits has its turns, also for all permits.
func TestABusyProcessLeavesPermitsToOthers(t *testing.T) {
	t.Parallel()
	for _, wants := range []int{1, 4} {
		t.Run(strconv.Itoa(wants), func(t *testing.T) {
			t.Parallel()
			const permits, goroutines, turns = 4, 16, 25
			server := redistest.Start(t)
			name := testkit.NewName()
			busy := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never))
			hot := busy.NewSemaphore(name, rlock.Total(permits))
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for ctx.Err() == nil {
						_ = hot.Do(ctx, func(context.Context) error { return nil })
					}
				})
			}
			testkit.Eventually(t, "permits are passed on", func() bool { return busy.Stats().Acquired > 100 })
			s := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewSemaphore(name)
			before := busy.Stats().Acquired
			for range turns {
				hold := testkit.Must(s.Acquire(t.Context(), rlock.Permits(wants)))
				require.NoError(t, hold.Unlock(t.Context()))
			}
			perTurn := float64(busy.Stats().Acquired-before) / turns
			stop()
			wg.Wait()
			t.Logf("%.1f turns of the busy process for each of the other one", perTurn)
			require.LessOrEqual(t, perTurn, 40.0)
		})
	}
}

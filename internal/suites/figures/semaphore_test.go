package figures

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestFigureSemaphore compares a semaphore with its two scripts alone, run by go-redis: one caller, and 128 that share eight permits.
// The callers of the scripts do not wait: each has a semaphore of its own.
func TestFigureSemaphore(t *testing.T) {
	figure(t)
	server := redistest.Start(t)
	rdb := server.Client(t)
	client := testkit.NewClient(t, rdb)
	for _, script := range []*wire.Script{wire.Others["acquire plain permits"], wire.Others["change"]} {
		require.NoError(t, rdb.ScriptLoad(t.Context(), script.Source).Err())
	}
	for what, kind := range map[string]*wire.Kind{"plain semaphore": wire.PlainPermit} {
		for _, callers := range []int{1, 128} {
			var ratios, pairs []float64
			for round := range 8 {
				raw := perSecond(t, callers, func(i int) func() error {
					names := wire.NewNames(kind, testkit.NewName(), client.ID())
					require.NoError(t, rdb.Set(t.Context(), names.Keys[0].(string), 8, 0).Err())
					number := int64(i) << 32
					return func() error {
						number++
						for _, c := range pair(names, number) {
							keys := make([]string, len(c.Keys))
							for k, key := range c.Keys {
								keys[k], _ = key.(string)
							}
							c.Args.Publish = wire.PublishPlain
							if err := rdb.EvalSha(t.Context(), c.Script.Digest.(string), keys, c.AppendArgv(nil)...).Err(); err != nil {
								return err
							}
						}
						return nil
					}
				})
				name := testkit.NewName()
				require.NoError(t, rdb.Set(t.Context(), name, 8, 0).Err())
				leased, plain := client.NewSemaphore(name), client.NewPlainSemaphore(name)
				ours := perSecond(t, callers, func(int) func() error {
					if kind == wire.PlainPermit {
						return func() error {
							if err := plain.Acquire(t.Context()); err != nil {
								return err
							}
							return plain.Release(t.Context(), 1)
						}
					}
					return func() error {
						hold, err := leased.Acquire(t.Context())
						if err != nil {
							return err
						}
						return hold.Unlock(t.Context())
					}
				})
				if round > 0 {
					ratios, pairs = append(ratios, ours/raw), append(pairs, ours)
				}
			}
			slices.Sort(ratios)
			slices.Sort(pairs)
			t.Logf("%s, %d callers: %.2f (%.2f to %.2f) of the raw pairs, a pair takes %.2f of a raw one; %.0f pairs/s", what, callers,
				ratios[3], ratios[0], ratios[6], 1/ratios[3], pairs[3])
		}
	}
}

// pair returns the calls that take and give back one permit.
func pair(names *wire.Names, number int64) []wire.Call {
	s := wire.NewSemaphore(names)
	all := []wire.Call{s.Take(2*number, 1), s.AddPermits(2*number+1, 1)}
	for i := range all { // each call forgets the mark of the one before
		all[i].Args.Other = fmt.Sprint(2*number - 1 + int64(i))
	}
	return all
}

// perSecond runs a loop in so many goroutines for a second, and returns how often it ran in all.
func perSecond(t *testing.T, goroutines int, loop func(int) func() error) float64 {
	t.Helper()
	var runs atomic.Int64
	var wg sync.WaitGroup
	loops := make([]func() error, goroutines)
	for i := range loops {
		loops[i] = loop(i)
	}
	begin := time.Now()
	for _, run := range loops {
		wg.Go(func() {
			for time.Since(begin) < time.Second {
				if err := run(); err != nil {
					t.Error(err)
					return
				}
				runs.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(runs.Load()) / time.Since(begin).Seconds()
}

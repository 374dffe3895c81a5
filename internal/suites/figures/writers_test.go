package figures

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestFigureWriterPreference has twelve clients read with holds of 5 to 65 ms, and others write now and then, with the option and without.
func TestFigureWriterPreference(t *testing.T) {
	figure(t)
	for _, writers := range []int{1, 4} {
		for _, opts := range [][]rlock.LockOption{nil, {rlock.WriterPreference()}} {
			t.Run(fmt.Sprintf("%d writers, %d options", writers, len(opts)), func(t *testing.T) { readingAndWriting(t, writers, opts) })
		}
	}
}

func readingAndWriting(t *testing.T, writers int, opts []rlock.LockOption) {
	t.Helper()
	const readers, longest, rest, length = 12, 65 * time.Millisecond, 200 * time.Millisecond, 20 * time.Second
	server, name := redistest.Start(t), testkit.NewName()
	admin := server.Client(t)
	var mu sync.Mutex
	waits, missed := make(map[bool][]time.Duration), 0
	var over atomic.Bool
	var wg sync.WaitGroup
	for i := range readers + writers {
		rw := testkit.NewClient(t, server.Client(t)).NewRWLock(name, opts...)
		lock, writes := rw.ReadLock(), i >= readers
		if writes {
			lock = rw.WriteLock()
		}
		wg.Go(func() {
			for !over.Load() {
				begin := time.Now()
				hold, err := lock.Acquire(context.Background(), rlock.Wait(15*time.Second))
				wait := time.Since(begin)
				mu.Lock()
				if waits[writes] = append(waits[writes], wait); err != nil {
					missed++
				}
				mu.Unlock()
				if err != nil {
					continue
				}
				if time.Sleep(5*time.Millisecond + rand.N(longest-5*time.Millisecond)); hold.Unlock(context.Background()) != nil {
					t.Error("a hold was lost")
				}
				if writes {
					time.Sleep(rand.N(rest))
				}
			}
		})
	}
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	time.Sleep(length)
	calls := testkit.Stats(t, admin)
	over.Store(true)
	wg.Wait()
	for writes, who := range map[bool]string{false: "readers", true: "writers"} {
		all := waits[writes]
		slices.Sort(all)
		at := func(share float64) time.Duration { return all[int(share*float64(len(all)-1))].Round(time.Millisecond) }
		t.Logf("%s: %d turns, waits p50 %v, p99 %v, max %v", who, len(all), at(0.5), at(0.99), at(1))
	}
	t.Logf("%d gave up after 15 s; %.1f scripts a turn", missed, float64(calls["evalsha"])/float64(len(waits[false])+len(waits[true])))
}

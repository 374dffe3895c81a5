package interop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// newPreferringPair is newRWPair with readers in Go that prefer writers. It also returns the channel of the waiters in Go.
func newPreferringPair(t *testing.T, v version) (p *rwPair, own string) {
	t.Helper()
	// A reader of Redisson that is about to sleep misses the release of a writer, in any version.
	const watchdog = 3 * time.Second
	p = newRWPair(t, v, settings{Watchdog: watchdog}, rlock.WithWatchdogTimeout(watchdog))
	client := newClient(t, p.rdb, rlock.WithWatchdogTimeout(watchdog))
	p.inGo = client.NewRWLock(p.name, rlock.WriterPreference())
	p.goReads, p.goWrites = goHandOf(p.owner, p.inGo.Reader()), goHandOf(p.owner, p.inGo.Writer())
	p.goWriter = goHand(t.Context(), p.inGo.Writer())
	return p, rwChannel(p.name) + ":" + client.ID()
}

func TestReadersThatPreferWritersShareWithRedisson(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p, _ := newPreferringPair(t, v)
		for _, readers := range bothOrders(p.goReads, p.javaReads) {
			for _, writers := range bothOrders(p.goWriter, p.javaWriter) {
				p.turnOfReadersAndWriter(t, readers, writers)
			}
		}
	})
}

// TestOnlyReadersOfRlockWaitForAWriterOfRlock has a writer in Go wait. A reader of Redisson passes it, and keeps it out all the same.
func TestOnlyReadersOfRlockWaitForAWriterOfRlock(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p, own := newPreferringPair(t, v)
		late := goHand(t.Context(), newClient(t, p.rdb).NewRWLock(p.name, rlock.WriterPreference()).Reader())
		p.goReads.lock(t)
		writing := p.goWriter.ask()
		subscribed(t, p.rdb, own, 1)
		late.refused(t, "it waits for the writer")
		p.javaReads.lock(t)
		p.goReads.lock(t) // a re-entry
		p.goReads.release(t)
		p.goReads.release(t)
		late.refused(t, "a reader of Redisson reads, and the writer waits for it")
		reading := late.ask()
		require.Empty(t, writing)
		p.javaReads.release(t)
		p.goWriter.granted(t, writing)
		require.Empty(t, reading)
		p.javaReads.refused(t, "a writer writes")
		p.goWriter.release(t)
		late.granted(t, reading)
		late.release(t)
		require.Empty(t, keysOf(t, p.rdb))
	})
}

// TestNobodyWaitsForAWriterOfRedisson has a writer in Java wait, which stands in no line.
func TestNobodyWaitsForAWriterOfRedisson(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p, _ := newPreferringPair(t, v)
		p.javaReads.lock(t)
		writing := p.javaWriter.ask()
		subscribed(t, p.rdb, rwChannel(p.name), 1)
		p.goReads.lock(t)
		p.javaReads.release(t)
		require.Empty(t, writing, "a reader of rlock reads")
		p.goWriter.refused(t, "a reader of rlock reads")
		p.goReads.release(t)
		p.javaWriter.granted(t, writing)
		p.goReads.refused(t, "a writer of Redisson writes")
		reading := p.goReads.ask()
		subscribed(t, p.rdb, rwChannel(p.name), 1)
		require.Empty(t, reading)
		p.javaWriter.release(t)
		p.goReads.granted(t, reading)
		p.goReads.release(t)
		require.Empty(t, keysOf(t, p.rdb))
	})
}

// TestFigureWriterPreferenceBesideRedisson measures how long one writer of rlock waits for readers of rlock that prefer writers, for those of
// Redisson, which know nothing of that, and for both. A reader has each of its holds for the same time, from 5 to 65 ms.
func TestFigureWriterPreferenceBesideRedisson(t *testing.T) {
	if !measures() {
		t.Skip("needs RLOCK_FIGURES=1")
	}
	for _, v := range versions() {
		needJava(t, v)
		for _, readers := range [][2]int{{12, 0}, {0, 12}, {12, 12}} {
			t.Run(fmt.Sprintf("redisson %s/%d readers of rlock, %d of Redisson", v, readers[0], readers[1]), func(t *testing.T) {
				waitsOfWriter(t, v, readers[0], readers[1])
			})
		}
	}
}

func waitsOfWriter(t *testing.T, v version, inGo, inJava int) {
	t.Helper()
	const length = 20 * time.Second
	server := redistest.Start(t)
	rdb := server.Client(t)
	s := shift{kind: "read", name: newName(), log: newTurnLog(rdb), length: length}
	reader := func(language string, i int) shift {
		mine := s
		mine.me, mine.hold = fmt.Sprintf("%s reads %d", language, i), 5*time.Millisecond+time.Duration(i)*60*time.Millisecond/11
		return mine
	}
	var wg sync.WaitGroup
	java := sharedJVM(t, v).open(t, settings{}, server.Addr)
	var inTurn []<-chan result[int64]
	for i := range inJava {
		inTurn = append(inTurn, java.Turns(reader("Java", i)))
	}
	for i := range inGo {
		lock := newClient(t, rdb).NewRWLock(s.name, rlock.WriterPreference()).Reader()
		wg.Go(func() {
			if err := reader("Go", i).inGo(lock); err != nil {
				t.Error(err)
			}
		})
	}
	var waits []time.Duration
	missed, writer := 0, newClient(t, rdb).NewRWLock(s.name, rlock.WriterPreference()).Writer()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(rand.N(200 * time.Millisecond)) {
		asked := time.Now()
		hold, err := writer.Acquire(t.Context(), rlock.Wait(15*time.Second))
		if waits = append(waits, time.Since(asked)); errors.Is(err, rlock.ErrNotAcquired) {
			missed++
			continue
		}
		require.NoError(t, err)
		require.NoError(t, s.log.note("Go writes", "in"))
		time.Sleep(35 * time.Millisecond)
		require.NoError(t, s.log.note("Go writes", "out"))
		require.NoError(t, hold.Unlock(context.Background()))
	}
	for _, done := range inTurn {
		_, err := await(done, length+aLongTime)
		require.NoError(t, err)
	}
	wg.Wait()
	sum := tallyOf(s.log.turns(t))
	goReads, _ := sum.of("Go reads")
	javaReads, _ := sum.of("Java reads")
	slices.Sort(waits)
	at := func(share float64) time.Duration {
		return waits[int(share*float64(len(waits)-1))].Round(time.Millisecond)
	}
	t.Logf("the writer asked %d times, and gave up %d times after 15 s; waits p50 %v, p99 %v, max %v; %d reads of rlock, %d of Redisson",
		len(waits), missed, at(0.5), at(0.99), at(1), goReads, javaReads)
}

package main

import (
	"os"
	"sync"
	"testing"
	"time"
)

func testArena(t *testing.T) *arena {
	t.Helper()
	file, err := newArena()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	a, err := openArena(file)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestSectionsCountHandOffs(t *testing.T) {
	t.Parallel()
	a := testArena(t)
	a.section(ownerID(0, 0), 0) // before the counting phase
	a.phase.Store(phaseCount)
	a.section(ownerID(0, 0), 0) // the same goroutine
	a.section(ownerID(0, 1), 0)
	a.section(ownerID(1, 1), 0)
	a.section(ownerID(1, 1), 0)
	if a.counter.Load() != 5 || a.taken.Load() != 4 || a.handOffs.Load() != 2 || a.between.Load() != 1 {
		t.Errorf("counter %d, taken %d, hand-offs %d, between processes %d",
			a.counter.Load(), a.taken.Load(), a.handOffs.Load(), a.between.Load())
	}
}

func TestOverlappingSectionsLoseAnUpdate(t *testing.T) {
	t.Parallel()
	a := testArena(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { a.section(ownerID(0, i), 50*time.Millisecond) })
	}
	wg.Wait()
	if n := a.counter.Load(); n == 4 {
		t.Error("four concurrent sections lost no update")
	}
}

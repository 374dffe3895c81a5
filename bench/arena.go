package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// arena is memory that the processes of a cell share: the data that the lock under test guards, and the current phase.
// Redis would be the natural place for both, but its commands would distort the measurement. Reading memory costs almost
// nothing, and the same for all libraries.
type arena struct {
	phase atomic.Int32
	ready atomic.Int32 // processes that wait for the first phase

	// Only the lock under test guards these fields. They are atomic so that no write is torn: each is read first and
	// written later.
	counter  atomic.Int64 // sections in all phases
	last     atomic.Int64 // the last holder, see ownerID
	taken    atomic.Int64 // acquisitions in the counting phase
	handOffs atomic.Int64 // acquisitions by another goroutine than the last holder
	between  atomic.Int64 // acquisitions by another process than the last holder's

	// For S5 and S12.
	releasedAt atomic.Int64 // ns since the epoch

	// For S12.
	admitted atomic.Int32 // the number of processes that may begin
	inside   atomic.Int64 // the owner; zero means none
	overlaps atomic.Int64 // turns that began while another one lasted
	turnAt   atomic.Int64 // when the last turn began, ns since the epoch
	gap      atomic.Int64 // the longest time between two of them in the counting phase, ns
}

// The phases.
const (
	phaseWait = int32(iota)
	phaseWarm
	phaseCount
	phaseOver
)

// makeArena makes the arena of a cell, and opens it. The caller must remove its file after the cell.
func makeArena(c *Cell) (a *arena, remove func(), err error) {
	if c.Arena, err = newArena(); err != nil {
		return nil, nil, err
	}
	remove = func() { _ = os.Remove(c.Arena) }
	if a, err = openArena(c.Arena); err != nil {
		remove()
		return nil, nil, err
	}
	return a, remove, nil
}

// newArena creates the file of an arena and returns its name.
func newArena() (string, error) {
	f, err := os.CreateTemp("", "rlock-bench-arena-")
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return f.Name(), f.Truncate(int64(os.Getpagesize()))
}

// openArena maps the file of an arena into memory. It is one page, and stays mapped for the lifetime of the process.
func openArena(name string) (*arena, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	mem, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*arena)(unsafe.Pointer(&mem[0])), nil
}

// ownerID identifies a goroutine among those of all processes. It is never zero.
func ownerID(process, goroutine int) int64 { return int64(process)<<32 | int64(goroutine+1) }

// section is the critical section that the lock under test guards. It increments the counter, and sleeps for the hold in
// between. Two concurrent sections lose an update of the counter.
func (a *arena) section(me int64, hold time.Duration) (counted bool) {
	before := a.counter.Load()
	if counted = a.phase.Load() == phaseCount; counted {
		a.taken.Store(a.taken.Load() + 1)
		last := a.last.Load()
		if last != me {
			a.handOffs.Store(a.handOffs.Load() + 1)
		}
		if last>>32 != me>>32 {
			a.between.Store(a.between.Load() + 1)
		}
	}
	a.last.Store(me)
	if hold > 0 && a.phase.Load() < phaseOver { // the waiters of a fleet then end soon
		time.Sleep(hold)
	}
	a.counter.Store(before + 1)
	return counted
}

// await waits until a phase has begun.
func (a *arena) await(phase int32) {
	for a.phase.Load() < phase {
		time.Sleep(500 * time.Microsecond)
	}
}

package main

import (
	"errors"
	"sync"
	"sync/atomic"
)

// fleet is a library in which every handle belongs to a client of its own: a Redis client with its own connections, and a
// lock client on top of it. The clients share a process, because a machine with two cores cannot run 1,024 processes.
type fleet struct {
	clients []Library
	handles atomic.Int64 // that have been created
}

// openFleet opens a client for each goroutine of the cell.
func openFleet(e entrant, c Cell) (Library, error) {
	const workers = 32
	f := &fleet{clients: make([]Library, c.Goroutines)}
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(f.clients) && errs[w] == nil; i += workers {
				f.clients[i], errs[w] = e.open(c)
			}
		})
	}
	wg.Wait()
	return f, errors.Join(errs...)
}

// Handle returns a handle of the next client.
func (f *fleet) Handle(name string) Handle {
	next := int(f.handles.Add(1)-1) % len(f.clients)
	return f.clients[next].Handle(name)
}

// Key returns the key of the first client; all have the same.
func (f *fleet) Key(name string) string { return f.clients[0].Key(name) }

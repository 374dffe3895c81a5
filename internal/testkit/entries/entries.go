// Package entries counts which functions of rlock run, in a copy of the library in which each function reports its entry. It imports
// nothing of rlock, because the copies import it.
package entries

import (
	"maps"
	"sync"
)

var (
	mu      sync.Mutex
	entered map[string]int // nil means that nothing is counted now
)

// Enter notes that a function has been called. Only the copies call it.
func Enter(function string) {
	mu.Lock()
	defer mu.Unlock()
	if entered != nil {
		entered[function]++
	}
}

// During runs f, and returns how often each function was called meanwhile.
func During(f func()) map[string]int {
	mu.Lock()
	entered = make(map[string]int)
	mu.Unlock()
	f()
	mu.Lock()
	defer mu.Unlock()
	counts := maps.Clone(entered)
	entered = nil
	return counts
}

package figures

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAWaiterTakesLittleMemory has many goroutines wait for as many locks, and looks at the heap once they rest. It counts the goroutines, and
// what the client library keeps for the channels to which they are subscribed.
func TestAWaiterTakesLittleMemory(t *testing.T) { // it counts the memory of the whole process
	const waiters, most = 5000, 6000
	server := redistest.Start(t)
	holder, waiter := server.Client(t).Pipeline(), testkit.NewClient(t, server.Client(t)) // a client of rlock would count, too
	name := func(i int) string { return fmt.Sprint("name ", i) }
	for i := range waiters {
		holder.HSet(t.Context(), name(i), "another client:1", 1)
		holder.PExpire(t.Context(), name(i), time.Minute)
	}
	_, err := holder.Exec(t.Context())
	require.NoError(t, err)
	holder.Discard()
	require.NoError(t, waiter.NewLock("warm").Lock(t.Context()))
	before := heap()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() { _ = waiter.NewLock(name(i)).Lock(ctx) })
	}
	testkit.Eventually(t, "all wait", func() bool { return waiter.Stats().Waiting == waiters })
	least := uint64(1 << 60)
	testkit.Eventually(t, "they rest", func() bool {
		least = min(least, (heap()-before)/waiters)
		return least <= most
	})
	t.Logf("%d B a waiter", least)
	cancel()
	all.Wait()
}

// heap returns the bytes in use on the heap.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees the memory that finalizers released
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return mem.HeapAlloc
}

// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAllocationsOfAPair counts all allocations of a lock and an unlock, those of valkey-go included. The least of three counts is
// taken: the collector may clear away what other tests left.
func TestAllocationsOfAPair(t *testing.T) { // not parallel: it counts allocations
	server := redistest.Start(t)
	locks, err := New(client(t, valkey.ClientOption{InitAddress: []string{server.Addr}}))
	require.NoError(t, err)
	defer func() { require.NoError(t, locks.Close()) }()
	lock, ctx := locks.NewLock(testkit.NewName()), context.Background()
	least := 1000.0
	for range 3 {
		least = min(least, testing.AllocsPerRun(200, func() {
			if err := lock.Lock(ctx); err != nil {
				t.Error(err)
			}
			if err := lock.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}))
	}
	require.LessOrEqual(t, least, 20.0)
	t.Logf("%v allocations", least)
}

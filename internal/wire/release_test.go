package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestAReleaseThatCannotWriteItsTombstoneIsAnnounced checks that no waiter sleeps on after such a release.
func TestAReleaseThatCannotWriteItsTombstoneIsAnnounced(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, sort := range []struct {
		what string
		kind *wire.Kind
		line bool
	}{
		{"plain", wire.Plain, false},
		{"plain of the line", wire.Plain, true},
		{"write", wire.Write, false},
		{"write of the line", wire.Write, true},
		{"read", wire.Read, false},
		{"fair", wire.Fair, false},
	} {
		t.Run(sort.what, func(t *testing.T) {
			t.Parallel()
			kind, line := sort.kind, sort.line
			ctx, name, a, b := t.Context(), testkit.NewName(), clientID("A"), clientID("B")
			n, waits := wire.NewNames(kind, name, a), wire.NewNames(kind, name, b)
			channel := n.Channel
			holder, waiter := wire.NewHolder(kind, n, a, 1), wire.NewHolder(kind, waits, b, 2)
			_, err := testkit.RunCall(rdb, holder.Acquire(n, time.Minute, nil))
			require.NoError(t, err)
			if kind.Queues {
				seat := wire.NewSeat(waits, b, 1)
				channel = seat.Channel
				_, err := testkit.RunCall(rdb, waiter.Queue(waits, time.Minute, time.Minute, time.Second, seat, false))
				require.NoError(t, err)
			}
			sub := rdb.Subscribe(ctx, channel)
			defer sub.Close()
			_, err = sub.Receive(ctx)
			require.NoError(t, err)
			tombstones, _ := n.Keys[len(n.Keys)-1].(string)
			require.NoError(t, rdb.Set(ctx, tombstones, "x", 0).Err())

			release := holder.Release(n, time.Minute)
			if line {
				release = holder.Give(n, time.Minute, 0, nil)
			}
			_, err = testkit.RunCall(rdb, release)
			require.ErrorContains(t, err, "WRONGTYPE")
			_, err = sub.ReceiveTimeout(ctx, 5*time.Second)
			require.NoError(t, err, "its waiter hears of it")
			held, err := rdb.HExists(ctx, name, holder.Field.(string)).Result()
			require.NoError(t, err)
			require.False(t, held)
			if !kind.Queues {
				require.Zero(t, rdb.Exists(ctx, name).Val(), "the lock is free")
			}
		})
	}
}

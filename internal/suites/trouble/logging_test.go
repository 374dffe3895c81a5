package trouble

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// slowHandler is a log handler that blocks until unblock is closed.
type slowHandler struct {
	slog.Handler
	unblock chan struct{}
}

func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-h.unblock
	return nil
}

func TestASlowLogHandlerDelaysNothing(t *testing.T) {
	t.Parallel()
	unblock := make(chan struct{})
	logger := slog.New(slowHandler{slog.DiscardHandler, unblock})
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb, rlock.WithLogger(logger), rlock.WithWatchdogTimeout(1500*time.Millisecond))
	lost := client.NewLock(testkit.NewName())
	require.NoError(t, lost.Lock(t.Context()))
	hold, err := client.NewLock(testkit.NewName()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), lost.Name()).Err())
	for range 6 {
		before := hold.Deadline()
		testkit.Eventually(t, "the other hold is renewed", func() bool { return hold.Deadline().After(before) })
	}
	close(unblock)
	require.ErrorIs(t, lost.Unlock(t.Context()), rlock.ErrLost)
	require.NoError(t, hold.Unlock(t.Context()))
}

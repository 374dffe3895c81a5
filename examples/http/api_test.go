package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// TestStatusesAreThoseOfTheGuide compares the statuses with the table of the guide.
func TestStatusesAreThoseOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide/waiting.md")
	require.NoError(t, err)
	examples := map[string]error{
		"`ErrNotAcquired`":           fmt.Errorf("%w: %w", rlock.ErrNotAcquired, context.DeadlineExceeded),
		"`ErrUnavailable`":           fmt.Errorf("%w: %w", rlock.ErrUnavailable, context.DeadlineExceeded),
		"`ErrNotReplicated`":         errors.Join(rlock.ErrNotReplicated, rlock.ErrUnavailable),
		"`ErrLost`":                  fmt.Errorf("%w: %w: %w", rlock.ErrLost, rlock.ErrNotAcquired, context.Canceled),
		"`ErrNotHeld`":               rlock.ErrNotHeld,
		"`ErrClosed`":                rlock.ErrClosed,
		"`ErrNoPermits`":             errors.Join(rlock.ErrNoPermits, rlock.ErrNotAcquired),
		"`ErrReentered`":             rlock.ErrReentered,
		"`ErrUpgrade`":               rlock.ErrUpgrade,
		"`ErrInvalidName`":           rlock.ErrInvalidName,
		"`ErrInvalidOption`":         rlock.ErrInvalidOption,
		"`context.Canceled`":         context.Canceled,
		"`context.DeadlineExceeded`": context.DeadlineExceeded,
		"an error of Redis":          errors.New("NOPERM this user has no permissions"),
	}
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \|[^|]*\|[^|]*\|[^|]*\| (\d+)\b`).FindAllStringSubmatch(string(guide), -1)
	require.Len(t, rows, len(examples))
	for _, row := range rows {
		require.Contains(t, examples, row[1])
		require.Equal(t, row[2], fmt.Sprint(status(examples[row[1]])), row[1])
	}
}

// TestReady is unready while too many requests wait.
func TestReady(t *testing.T) {
	t.Parallel()
	locks, err := rlock.New(redistest.Embedded(t))
	require.NoError(t, err)
	t.Cleanup(func() { locks.Close() })
	a := &api{locks: locks}
	ready := func() int {
		w := httptest.NewRecorder()
		a.routes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code
	}
	require.Equal(t, http.StatusOK, ready())
	lock := invoiceLock(locks, "42")
	require.NoError(t, lock.Lock(t.Context()))
	ctx, leave := context.WithCancel(t.Context())
	for range maxWaiting + 1 {
		go func() { _ = lock.Lock(ctx) }()
	}
	redistest.Eventually(t, "it is unready", func() bool { return ready() == http.StatusServiceUnavailable })
	leave()
	redistest.Eventually(t, "it is ready again", func() bool { return ready() == http.StatusOK })
}

// TestShutdownEndsLateRequests tells a request that takes too long to give up. It gets its answer, and its lock is free.
func TestShutdownEndsLateRequests(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	locks, err := rlock.New(rdb)
	require.NoError(t, err)
	server := newServer(locks, rdb, provider{takes: time.Hour})
	var finished atomic.Bool
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		<-time.After(100 * time.Millisecond) // the rest of the answer, for a slow client
		finished.Store(true)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	answered := make(chan int, 1)
	go func() {
		response, err := http.Post("http://"+listener.Addr().String()+"/invoices/42/payment", "", nil)
		if err != nil {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	redistest.Eventually(t, "it works", func() bool { return locks.Stats().Held == 1 })
	require.NoError(t, shutdown(server, locks, 10*time.Millisecond))
	require.True(t, finished.Load())
	require.Equal(t, http.StatusServiceUnavailable, <-answered)
	require.Zero(t, rdb.Exists(t.Context(), "invoice:42").Val())
}

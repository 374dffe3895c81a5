package rlockotel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestTheScopeHasASchema has metrics and spans name the version of the conventions that their attributes follow.
func TestTheScopeHasASchema(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	require.NoError(t, tel.client(redistest.Embedded(t)).NewLock(testkit.NewName()).Do(t.Context(), func(context.Context) error { return nil }))
	var all metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	for _, scope := range []struct{ name, schema string }{
		{all.ScopeMetrics[0].Scope.Name, all.ScopeMetrics[0].Scope.SchemaURL},
		{tel.spans.GetSpans()[0].InstrumentationScope.Name, tel.spans.GetSpans()[0].InstrumentationScope.SchemaURL},
	} {
		require.Equal(t, "github.com/go-rlock/rlock/rlockotel", scope.name)
		require.Equal(t, semconv.SchemaURL, scope.schema)
	}
}

// errorType returns the attribute of a span, or an empty text.
func errorType(attrs []attribute.KeyValue) string {
	for _, a := range attrs {
		if a.Key == semconv.ErrorTypeKey {
			return a.Value.AsString()
		}
	}
	return ""
}

// TestErrorType has acquisitions that fail name the error in spans and in metrics, by the same value.
func TestErrorType(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for want, acquire := range map[string]func(t *testing.T, c *rlock.Client, rdb *redis.Client) error{
		"": func(t *testing.T, c *rlock.Client, _ *redis.Client) error {
			t.Helper()
			return c.NewLock(testkit.NewName()).Do(t.Context(), func(context.Context) error { return errors.New("of the section") })
		},
		"rlock.ErrInvalidName": func(t *testing.T, c *rlock.Client, _ *redis.Client) error {
			t.Helper()
			return c.NewLock("").Lock(t.Context())
		},
		"rlock.ErrInvalidOption": func(t *testing.T, c *rlock.Client, _ *redis.Client) error {
			t.Helper()
			_, err := c.NewLock("a").Acquire(t.Context(), rlock.Lease(-1))
			return err
		},
		"rlock.ErrUpgrade": func(t *testing.T, c *rlock.Client, _ *redis.Client) error {
			t.Helper()
			lock := c.NewRWLock(testkit.NewName())
			return lock.Reader().Do(t.Context(), func(ctx context.Context) error { return lock.Writer().Lock(ctx) })
		},
		"rlock.ErrClosed": func(t *testing.T, c *rlock.Client, _ *redis.Client) error {
			t.Helper()
			require.NoError(t, c.Close())
			return c.NewLock("a").Lock(t.Context())
		},
		"rlock.ErrUnavailable": func(t *testing.T, c *rlock.Client, rdb *redis.Client) error {
			t.Helper()
			rdb.AddHook(refuses{})
			_, err := c.NewLock(testkit.NewName()).TryLock(t.Context())
			return err
		},
		"context.Canceled": func(t *testing.T, c *rlock.Client, _ *redis.Client) error {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return c.NewLock(testkit.NewName()).Lock(ctx)
		},
		"WRONGTYPE": func(t *testing.T, c *rlock.Client, rdb *redis.Client) error {
			t.Helper()
			name := testkit.NewName()
			require.NoError(t, rdb.Set(t.Context(), name, "no lock", 0).Err())
			return c.NewLock(name).Lock(t.Context())
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			tel, rdb := newTelemetry(t), server.Client(t)
			require.Error(t, acquire(t, tel.client(rdb), rdb))
			spans := tel.named("rlock.acquire")
			require.NotEmpty(t, spans)
			failed := spans[len(spans)-1]
			require.Equal(t, want, errorType(failed.Attributes))
			require.Empty(t, failed.Events, "the conventions advise against an event for an error")
			if want == "" {
				require.EqualValues(t, 1, tel.value("rlock.acquire.duration"))
				require.Zero(t, tel.failures("rlock.acquire.duration"))
				return
			}
			require.Equal(t, "Error", failed.Status.Code.String())
			require.EqualValues(t, 1, tel.value("rlock.acquire.duration", "error.type="+want))
			require.EqualValues(t, 1, tel.failures("rlock.acquire.duration"))
		})
	}
}

// refuses is a network without Redis.
type refuses struct{ redis.Hook }

func (refuses) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
}
func (refuses) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (refuses) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestARefusalIsNoFailure: a lock that another owner has is what a lock is for.
func TestARefusalIsNoFailure(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	rdb := redistest.Embedded(t)
	lock := tel.client(rdb).NewLock(testkit.NewName())
	rival := testkit.Must(testkit.NewClient(t, rdb).NewLock(lock.Name()).Acquire(t.Context()))
	_, err := lock.TryAcquire(t.Context())
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.Empty(t, errorType(tel.named("rlock.acquire")[0].Attributes))
	require.EqualValues(t, 1, tel.value("rlock.acquire.duration", "rlock.outcome=refused"))
	require.Zero(t, tel.failures("rlock.acquire.duration"))
	require.NoError(t, rival.Unlock(t.Context()))
}

// TestALostHoldIsAFailure: its duration has the type of the error, and that of a hold that was unlocked has none.
func TestALostHoldIsAFailure(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	rdb := redistest.Start(t).Client(t)
	lock := tel.client(rdb).NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context(), rlock.RenewedLease(2*time.Second)))
	require.NoError(t, rdb.Del(t.Context(), lock.Name()).Err())
	testkit.Within(t, "the hold is lost", hold.Done())
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }))
	testkit.Eventually(t, "both have ended", func() bool { return tel.value("rlock.hold.duration") == 2 })
	require.EqualValues(t, 1, tel.value("rlock.hold.duration", "rlock.end=gone", "error.type=rlock.ErrLost"))
	require.EqualValues(t, 1, tel.failures("rlock.hold.duration"))
}

// TestFailuresDoNotNameTheLock, but say what is wrong. The error of the caller has the name, and a span must not.
func TestFailuresDoNotNameTheLock(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	rdb := redistest.Start(t).Client(t)
	client := tel.client(rdb)
	const name = "salary of alice"
	require.NoError(t, rdb.Set(t.Context(), name, "no lock", 0).Err())
	require.Error(t, client.NewLock(name).Lock(t.Context()))
	require.Error(t, testkit.Second(rlock.NewMultiLock(client.NewLock(name), client.NewLock(testkit.NewName())).Acquire(t.Context())))
	require.Error(t, client.NewLock(name).Lock(t.Context(), rlock.Lease(-1)))
	spans := tel.named("rlock.acquire")
	require.GreaterOrEqual(t, len(spans), 4)
	for _, s := range spans {
		require.NotContains(t, fmt.Sprintf("%+v", s), "alice")
	}
	require.Contains(t, spans[0].Status.Description, "WRONGTYPE")
}

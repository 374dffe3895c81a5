package rlockotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/rlockotel"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// telemetry is an SDK of OpenTelemetry that keeps everything in memory.
type telemetry struct {
	testing.TB
	reader *sdkmetric.ManualReader
	spans  *tracetest.InMemoryExporter
	tracer *sdktrace.TracerProvider
	meter  *sdkmetric.MeterProvider
}

func newTelemetry(tb testing.TB) *telemetry {
	tb.Helper()
	t := &telemetry{TB: tb, reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	t.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(t.spans))
	t.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(t.reader))
	return t
}

// client returns a client that is observed.
func (t *telemetry) client(rdb redis.UniversalClient, opts ...rlockotel.Option) *rlock.Client {
	t.Helper()
	all := append([]rlockotel.Option{rlockotel.WithMeterProvider(t.meter), rlockotel.WithTracerProvider(t.tracer)}, opts...)
	return testkit.NewClient(t, rdb, rlockotel.Observe(all...), rlock.WithLogger(testkit.Discard))
}

// value returns the sum; for a histogram it is the count; of a metric's points that have these attributes.
func (t *telemetry) value(name string, attrs ...string) (total int64) {
	t.Helper()
	return t.sum(name, func(set attribute.Set) bool { return has(set, attrs) })
}

// failures returns the sum, as value does, of the points that have an error.type.
func (t *telemetry) failures(name string) int64 {
	t.Helper()
	return t.sum(name, func(set attribute.Set) bool { return set.HasValue(semconv.ErrorTypeKey) })
}

func (t *telemetry) sum(name string, counts func(attribute.Set) bool) (total int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, t.reader.Collect(context.Background(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if counts(p.Attributes) {
						total += p.Value
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if counts(p.Attributes) {
						total += int64(p.Count)
					}
				}
			default:
				t.Fatalf("%s has data of the type %T", name, data)
			}
		}
	}
	return total
}

// has reports whether a set has attributes of the form key=value.
func has(set attribute.Set, attrs []string) bool {
	for _, attr := range attrs {
		key, want, _ := strings.Cut(attr, "=")
		if got, ok := set.Value(attribute.Key(key)); !ok || got.String() != want {
			return false
		}
	}
	return true
}

// span returns the ended spans of a name, in the order of their ends.
func (t *telemetry) named(name string) (spans []tracetest.SpanStub) {
	for _, s := range t.spans.GetSpans() {
		if s.Name == name {
			spans = append(spans, s)
		}
	}
	return spans
}

func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func events(s tracetest.SpanStub) (names []string) {
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	server := redistest.Start(t)
	rdb := server.Client(t)
	client := tel.client(rdb)
	lock := client.NewLock(testkit.NewName())
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, lock.Lock(ctx))
	require.NoError(t, lock.Lock(ctx), "a re-entry")
	require.EqualValues(t, 1, tel.value("rlock.lock.held"))
	require.EqualValues(t, 2, tel.value("rlock.acquire.duration", "rlock.kind=lock", "rlock.outcome=acquired"))
	require.False(t, testkit.Must(lock.TryLock(t.Context())))
	require.EqualValues(t, 1, tel.value("rlock.acquire.duration", "rlock.kind=lock", "rlock.outcome=refused"))

	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, "it waits", func() bool { return tel.value("rlock.call.waiting") == 1 })
	second := testkit.Async(func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, "both wait", func() bool { return testkit.Waiting(lock) == 2 && testkit.Rests(lock) })
	require.NoError(t, lock.Unlock(ctx))
	require.NoError(t, lock.Unlock(ctx))
	require.NoError(t, testkit.Within(t, "the first one has it", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the second one has it", second))
	require.NoError(t, lock.Unlock(t.Context()))
	require.Zero(t, tel.value("rlock.call.waiting"))
	require.EqualValues(t, 1, tel.value("rlock.handovers", "rlock.handover=local"))
	testkit.Eventually(t, "three holds have ended", func() bool {
		return tel.value("rlock.hold.duration", "rlock.kind=lock", "rlock.end=unlocked") == 3
	})

	hold := testkit.Must(lock.Acquire(t.Context(), rlock.RenewedLease(2*time.Second)))
	require.NoError(t, rdb.Del(t.Context(), lock.Name()).Err())
	testkit.Within(t, "the hold is lost", hold.Done())
	testkit.Eventually(t, "the loss is counted", func() bool {
		return tel.value("rlock.hold.lost", "rlock.kind=lock", "rlock.reason=gone") == 1
	})
	require.Error(t, hold.Unlock(t.Context()))
	require.Zero(t, tel.value("rlock.lock.held"))

	group := rlock.NewMultiLock(client.NewLock(testkit.NewName()), client.NewFairLock(testkit.NewName()))
	both := testkit.Must(group.Acquire(t.Context()))
	require.EqualValues(t, 1, tel.value("rlock.acquire.duration", "rlock.kind=multi"))
	require.Zero(t, tel.value("rlock.acquire.duration", "rlock.kind=fair"), "members are left out")
	require.EqualValues(t, 2, tel.value("rlock.lock.held"), "but not here")
	require.NoError(t, both.Unlock(t.Context()))
}

// TestRenewalFailuresStayCounted has the count of a closed client stay in the sum.
func TestRenewalFailuresStayCounted(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	observe := rlockotel.Observe(rlockotel.WithMeterProvider(tel.meter), rlockotel.WithTracerProvider(tel.tracer))
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 200 * time.Millisecond}),
		observe, rlock.WithCommandTimeout(200*time.Millisecond), rlock.WithLogger(testkit.Discard))
	other := testkit.NewClient(t, server.Client(t), observe)
	hold := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context(), rlock.RenewedLease(3*time.Second)))
	held := testkit.Must(other.NewLock(testkit.NewName()).Acquire(t.Context()))
	require.EqualValues(t, 2, tel.value("rlock.lock.held"), "of both clients")
	proxy.Freeze()
	testkit.Eventually(t, "renewals fail", func() bool { return tel.value("rlock.renewal.failures") >= 1 })
	proxy.Thaw()
	require.NoError(t, client.Close())
	require.GreaterOrEqual(t, tel.value("rlock.renewal.failures"), int64(1))
	require.EqualValues(t, 1, tel.value("rlock.lock.held"))
	_ = hold.Unlock(t.Context())
	require.NoError(t, held.Unlock(t.Context()))
}

// TestOneTrace has an acquisition and its commands in the trace of the caller, beside redisotel.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	rdb := redistest.Start(t).Client(t)
	require.NoError(t, redisotel.InstrumentTracing(rdb, redisotel.WithTracerProvider(tel.tracer)))
	client := tel.client(rdb, rlockotel.WithNameLabel(func(name string) string { return strings.Split(name, ":")[0] }))
	lock := client.NewLock(testkit.NewName(), rlock.Fenced())
	ctx, request := tel.tracer.Tracer("app").Start(t.Context(), "GET /")
	var inner tracetest.SpanStub
	require.NoError(t, lock.Do(ctx, func(ctx context.Context) error {
		_, span := tel.tracer.Tracer("app").Start(ctx, "work")
		span.End()
		return nil
	}))
	request.End()
	inner = tel.named("work")[0]
	acquire, root := tel.named("rlock.acquire")[0], tel.named("GET /")[0]
	require.Equal(t, root.SpanContext.SpanID(), acquire.Parent.SpanID())
	require.Equal(t, root.SpanContext.SpanID(), inner.Parent.SpanID(), "the work is the caller's, and no part of the acquisition")
	require.Equal(t, "fenced", attr(acquire, "rlock.kind"))
	require.Equal(t, "do", attr(acquire, "rlock.op"))
	require.Equal(t, "acquired", attr(acquire, "rlock.outcome"))
	require.Equal(t, "1", attr(acquire, "rlock.attempts"))
	require.Equal(t, "test", attr(acquire, "rlock.name"))
	require.NotEmpty(t, attr(acquire, "rlock.token"))
	require.Equal(t, "fenced", attr(root, "rlock.kind"))
	require.Equal(t, "test", attr(root, "rlock.name"))
	require.NotEmpty(t, attr(root, "rlock.acquire.duration"))
	children := 0
	for _, s := range tel.spans.GetSpans() {
		if strings.HasPrefix(s.Name, "evalsha") || strings.HasPrefix(s.Name, "eval") {
			require.Equal(t, root.SpanContext.TraceID(), s.SpanContext.TraceID(), "all are in one trace")
			if s.Parent.SpanID() == acquire.SpanContext.SpanID() {
				children++
			}
		}
	}
	require.Positive(t, children, "the commands of the acquisition belong to its span")
}

func TestSpansOfWaiters(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	server := redistest.Start(t)
	client := tel.client(server.Client(t))
	lock := client.NewLock(testkit.NewName())
	rival := testkit.Must(testkit.NewClient(t, server.Client(t)).NewLock(lock.Name()).Acquire(t.Context()))

	require.False(t, testkit.Must(lock.TryLock(t.Context())))
	refused := tel.named("rlock.acquire")[0]
	require.Equal(t, []string{"rlock.refused"}, events(refused))
	require.Equal(t, "Unset", refused.Status.Code.String(), "a refusal is no error")
	require.Empty(t, attr(refused, "rlock.name"))

	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, "it waits", func() bool { return testkit.Rests(lock) && testkit.Listens(lock) })
	require.NoError(t, rival.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it has the lock", waiting))
	queued := tel.named("rlock.acquire")[1]
	require.Equal(t, "rlock.queued", events(queued)[0])
	require.WithinRange(t, queued.Events[0].Time, queued.StartTime.Add(-time.Millisecond), queued.EndTime)
	require.NoError(t, lock.Unlock(t.Context()))

	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, lock.Lock(over), context.Canceled)
	failed := tel.named("rlock.acquire")[2]
	require.Equal(t, "Error", failed.Status.Code.String())
	require.Equal(t, "context canceled", failed.Status.Description)
}

// TestALossIsInTheSpanOfTheWork tells the span in which the lock was held.
func TestALossIsInTheSpanOfTheWork(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	rdb := redistest.Start(t).Client(t)
	client := tel.client(rdb)
	lock := client.NewLock(testkit.NewName())
	ctx, work := tel.tracer.Tracer("app").Start(t.Context(), "work")
	err := lock.Do(ctx, func(ctx context.Context) error {
		if err := rdb.Del(t.Context(), lock.Name()).Err(); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}, rlock.RenewedLease(2*time.Second))
	require.True(t, errors.Is(err, rlock.ErrLost))
	testkit.Eventually(t, "the loss is counted", func() bool { return tel.value("rlock.hold.lost") == 1 })
	work.End()
	require.Equal(t, []string{"rlock.hold.lost"}, events(tel.named("work")[0]))
}

// TestMembersOfAGroup have spans within that of the group.
func TestMembersOfAGroup(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	client := tel.client(redistest.Embedded(t))
	group := rlock.NewMultiLock(client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName()))
	require.NoError(t, testkit.Must(group.Acquire(t.Context())).Unlock(t.Context()))
	spans := tel.named("rlock.acquire")
	require.Len(t, spans, 3)
	require.Equal(t, "multi", attr(spans[2], "rlock.kind"), "it ends last")
	for _, member := range spans[:2] {
		require.Equal(t, spans[2].SpanContext.SpanID(), member.Parent.SpanID())
	}
}

// TestWithoutProviders uses the global providers, which do nothing.
func TestWithoutProviders(t *testing.T) {
	t.Parallel()
	observe := rlockotel.Observe(nil, rlockotel.WithMeterProvider(nil), rlockotel.WithTracerProvider(nil), rlockotel.WithNameLabel(nil))
	client := testkit.NewClient(t, redistest.Embedded(t), observe)
	require.NoError(t, client.NewLock(testkit.NewName()).Do(t.Context(), func(context.Context) error { return nil }))
}

// TestTwoObservers of one client, for two backends, have an acquisition each.
func TestTwoObservers(t *testing.T) {
	t.Parallel()
	one, other := newTelemetry(t), newTelemetry(t)
	var opts []rlock.Option
	for _, tel := range []*telemetry{one, other} {
		opts = append(opts, rlockotel.Observe(rlockotel.WithMeterProvider(tel.meter), rlockotel.WithTracerProvider(tel.tracer)))
	}
	client := testkit.NewClient(t, redistest.Embedded(t), opts...)
	ctx, work := one.tracer.Tracer("app").Start(t.Context(), "work")
	require.NoError(t, client.NewLock(testkit.NewName()).Do(ctx, func(context.Context) error { return nil }))
	work.End()
	for _, tel := range []*telemetry{one, other} {
		require.Len(t, tel.named("rlock.acquire"), 1)
		require.EqualValues(t, 1, tel.value("rlock.acquire.duration", "rlock.outcome=acquired"))
	}
	require.Equal(t, "lock", attr(one.named("work")[0], "rlock.kind"))
}

// TestCodeOfTheUserThatPanics costs the label, or the span, and nothing else. See rule P.2.
func TestCodeOfTheUserThatPanics(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	tel.tracer.RegisterSpanProcessor(panics{})
	client := tel.client(redistest.Embedded(t), rlockotel.WithNameLabel(func(string) string { panic("label") }))
	group := rlock.NewMultiLock(client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName()))
	for range 2 {
		require.NoError(t, group.Do(t.Context(), func(context.Context) error { return nil }))
	}
	require.EqualValues(t, 2, tel.value("rlock.acquire.duration", "rlock.kind=multi", "rlock.outcome=acquired"))
	testkit.Eventually(t, "the ends are counted", func() bool { return tel.value("rlock.hold.duration", "rlock.kind=multi") == 2 })
}

// panics is a span processor of the user.
type panics struct{ sdktrace.SpanProcessor }

func (panics) OnStart(context.Context, sdktrace.ReadWriteSpan) { panic("start") }
func (panics) OnEnd(sdktrace.ReadOnlySpan)                     { panic("end") }
func (panics) Shutdown(context.Context) error                  { return nil }
func (panics) ForceFlush(context.Context) error                { return nil }

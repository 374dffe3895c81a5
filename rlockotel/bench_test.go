package rlockotel_test

import (
	"context"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/rlockotel"
)

// ignores is an observer that does nothing.
type ignores struct{}

func (ignores) AcquireStart(ctx context.Context, _ rlock.AcquireStartData) context.Context {
	return ctx
}
func (ignores) AcquireEnd(context.Context, rlock.AcquireEndData) {}
func (ignores) HoldEnd(context.Context, rlock.HoldEndData)       {}

// BenchmarkPair has the cost of a Lock and an Unlock: without an observer, with one that does nothing, and with OpenTelemetry's SDK, whose
// spans are sampled or not.
func BenchmarkPair(b *testing.B) {
	meters := rlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
	sampled := sdktrace.NewTracerProvider()
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, c := range []struct {
		what string
		opts []rlock.Option
	}{
		{"no observer", nil},
		{"idle observer", []rlock.Option{rlock.WithObserver(ignores{})}},
		{"metrics", []rlock.Option{rlockotel.Observe(meters, rlockotel.WithTracerProvider(unsampled))}},
		{"metrics and spans", []rlock.Option{rlockotel.Observe(meters, rlockotel.WithTracerProvider(sampled))}},
	} {
		b.Run(c.what, func(b *testing.B) {
			client := testkit.NewClient(b, redistest.Start(b).Client(b), c.opts...)
			lock, ctx := client.NewLock(testkit.NewName()), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if lock.Lock(ctx) != nil || lock.Unlock(ctx) != nil {
					b.Fatal("it is free")
				}
			}
		})
	}
}

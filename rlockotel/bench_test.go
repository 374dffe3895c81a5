package rlockotel_test

import (
	"context"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/observe"
	"github.com/go-rlock/rlock/rlockotel"
)

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
		{"idle observer", []rlock.Option{rlock.WithObserver(observe.Base{})}},
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

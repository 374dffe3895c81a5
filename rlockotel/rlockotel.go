// Package rlockotel observes rlock with OpenTelemetry: metrics of locks, and a span for each acquisition.
//
//	locks, err := rlock.New(rdb, rlockotel.Observe())
//
// # Metrics
//
//	rlock.acquire.duration   histogram, s           by rlock.kind and rlock.outcome
//	rlock.hold.duration      histogram, s           by rlock.kind and rlock.end
//	rlock.handovers          counter, {handover}    by rlock.kind and rlock.handover: local, remote
//	rlock.lost               counter, {hold}        by rlock.kind and rlock.reason
//	rlock.unanswered         counter, {call}        calls that wait without a usable answer from Redis for the command timeout; again each minute
//	rlock.held               up-down counter, {lock}
//	rlock.waiting            up-down counter, {call}
//	rlock.renewal.failures   counter, {renewal}
//	rlock.reports.dropped    counter, {report}      ends of holds, and events, that the metrics above lack: an observer was too slow
//
// The first four count a group of locks once, and leave its members out. A re-entry is in the first one only. The last four are those
// of [rlock.Stats], which counts the members of groups.
//
// # Spans
//
// Each acquisition has a span rlock.acquire, a child of the caller's, with the attributes rlock.kind, rlock.op, rlock.outcome,
// rlock.attempts and, if they apply, rlock.reentry, rlock.token, rlock.handover and rlock.permits. It has the events rlock.queued when
// the call began to wait, rlock.handover when the lock was handed over, and rlock.refused when another owner kept it. The commands of the
// acquisition belong to it, so a client library that makes spans of its own makes children of it. The members of a group have spans
// within that of the group. The first and the last of these events have the attribute rlock.contended_here: whether another owner of
// this process had the lock.
//
// The caller's span, in which the lock is then held, gets the attributes rlock.kind, rlock.outcome and rlock.acquire.duration (s) of the
// last lock that was acquired in it, re-entries aside. If a lock is lost while that span lasts, it gets the event rlock.lost with
// rlock.reason.
//
// The names of locks are in no metric and in no span unless [WithNameLabel] says so, because each name makes a series of its own.
package rlockotel

import (
	"context"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/go-rlock/rlock/rlockotel"

// Option sets something for [Observe].
type Option func(*observer)

// WithMeterProvider sets where the metrics go. The default is the global provider. A nil provider changes nothing.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(o *observer) {
		if p != nil {
			o.meters = p
		}
	}
}

// WithTracerProvider sets where the spans go. The default is the global provider. A nil provider changes nothing.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(o *observer) {
		if p != nil {
			o.tracers = p
		}
	}
}

// WithNameLabel sets the function that makes the attribute rlock.name out of a lock's name, in metrics and in spans. It is for names that
// are few, or for the part of them that is: "invoice:42" may become "invoice". An empty result means no attribute. For a group, the
// function gets the description of the group. It may be called by several goroutines at once. The default is none.
func WithNameLabel(label func(name string) string) Option {
	return func(o *observer) { o.label = label }
}

// Observe returns the option of [rlock.New] that observes the client. Several clients may share it: their gauges are added up. An error
// of OpenTelemetry goes to its global error handler.
func Observe(opts ...Option) rlock.Option {
	o := &observer{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	o.tracer = o.tracers.Tracer(scope)
	if err := o.metrics.init(o.meters.Meter(scope)); err != nil {
		otel.Handle(err)
	}
	return rlock.WithObserver(o)
}

// observer implements [rlock.Observer].
type observer struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	label   func(name string) string
	tracer  trace.Tracer
	metrics metrics
}

var (
	_ rlock.ClientObserver = (*observer)(nil)
	_ rlock.EventObserver  = (*observer)(nil)
)

type acquisitionKey struct{}

// acquisition is what a context carries of one acquisition.
type acquisition struct {
	span   trace.Span
	caller trace.Span           // which lasts while the lock is held
	attrs  []attribute.KeyValue // of everything about it; clipped, so that an append copies them
}

func acquisitionOf(ctx context.Context) *acquisition {
	a, _ := ctx.Value(acquisitionKey{}).(*acquisition)
	return a
}

// AcquireStart implements [rlock.Observer].
func (o *observer) AcquireStart(ctx context.Context, d rlock.AcquireStartData) context.Context {
	a := &acquisition{caller: trace.SpanFromContext(ctx), attrs: []attribute.KeyValue{kindKey.String(d.Kind)}}
	if o.label != nil {
		if label := o.label(d.Name); label != "" {
			a.attrs = slices.Clip(append(a.attrs, nameKey.String(label)))
		}
	}
	attrs := append(a.attrs, opKey.String(d.Op))
	if d.Permits > 0 {
		attrs = append(attrs, permitsKey.Int(d.Permits))
	}
	ctx, a.span = o.tracer.Start(ctx, "rlock.acquire", trace.WithAttributes(attrs...))
	return context.WithValue(ctx, acquisitionKey{}, a)
}

// AcquireEnd implements [rlock.Observer].
func (o *observer) AcquireEnd(ctx context.Context, d rlock.AcquireEndData) {
	a := acquisitionOf(ctx)
	o.endSpan(a, d)
	if d.Member {
		return
	}
	o.metrics.acquired(ctx, a, d)
	if d.Outcome == rlock.OutcomeAcquired && !d.Reentry && a.caller.IsRecording() {
		a.caller.SetAttributes(append(a.attrs, outcomeKey.String(string(d.Outcome)), durationKey.Float64(d.Took.Seconds()))...)
	}
}

// endSpan ends the span of an acquisition.
func (*observer) endSpan(a *acquisition, d rlock.AcquireEndData) {
	defer a.span.End()
	if !a.span.IsRecording() {
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, 5), outcomeKey.String(string(d.Outcome)), attemptsKey.Int(d.Attempts))
	if d.Reentry {
		attrs = append(attrs, reentryKey.Bool(true))
	}
	if d.Token != 0 {
		attrs = append(attrs, tokenKey.Int64(int64(d.Token))) //nolint:gosec // it comes from Redis as an int64
	}
	if d.Waited > 0 {
		a.span.AddEvent("rlock.queued", trace.WithTimestamp(time.Now().Add(-d.Waited)), trace.WithAttributes(hereKey.Bool(d.Contended)))
	}
	if d.HandOver != rlock.HandOverNone {
		attrs = append(attrs, handOverKey.String(string(d.HandOver)))
		a.span.AddEvent("rlock.handover", trace.WithAttributes(handOverKey.String(string(d.HandOver))))
	}
	a.span.SetAttributes(attrs...)
	switch d.Outcome {
	case rlock.OutcomeAcquired:
	case rlock.OutcomeRefused: // what the lock is for, and no error
		a.span.AddEvent("rlock.refused", trace.WithAttributes(hereKey.Bool(d.Contended)))
	default:
		a.span.RecordError(d.Err)
		a.span.SetStatus(codes.Error, string(d.Outcome))
	}
}

// HoldEnd implements [rlock.Observer].
func (o *observer) HoldEnd(ctx context.Context, d rlock.HoldEndData) {
	a := acquisitionOf(ctx)
	if d.Member {
		return
	}
	o.metrics.ended(ctx, a, d)
	if d.End.Lost() && a.caller.IsRecording() {
		a.caller.AddEvent("rlock.lost", trace.WithAttributes(append(a.attrs, reasonKey.String(string(d.End)))...))
	}
}

// Event implements [rlock.EventObserver].
func (o *observer) Event(d rlock.EventData) {
	if d.Event == rlock.EventUnanswered {
		o.metrics.unanswered.Add(context.Background(), 1)
	}
}

// ClientStart implements [rlock.ClientObserver].
func (o *observer) ClientStart(c *rlock.Client) { o.metrics.clients.add(c) }

// ClientEnd implements [rlock.ClientObserver].
func (o *observer) ClientEnd(c *rlock.Client) { o.metrics.clients.remove(c) }

// The attributes.
const (
	kindKey     = attribute.Key("rlock.kind")
	opKey       = attribute.Key("rlock.op")
	nameKey     = attribute.Key("rlock.name")
	permitsKey  = attribute.Key("rlock.permits")
	outcomeKey  = attribute.Key("rlock.outcome")
	attemptsKey = attribute.Key("rlock.attempts")
	reentryKey  = attribute.Key("rlock.reentry")
	tokenKey    = attribute.Key("rlock.token")
	handOverKey = attribute.Key("rlock.handover")
	hereKey     = attribute.Key("rlock.contended_here")
	durationKey = attribute.Key("rlock.acquire.duration")
	endKey      = attribute.Key("rlock.end")
	reasonKey   = attribute.Key("rlock.reason")
)

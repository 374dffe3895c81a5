// Package rlockotel observes rlock with OpenTelemetry: metrics of locks, and a span for each acquisition.
//
//	locks, err := rlock.New(rdb, rlockotel.Observe())
//
// # Metrics
//
//	rlock.acquire.duration   histogram, s           by rlock.kind, rlock.outcome and error.type
//	rlock.hold.duration      histogram, s           by rlock.kind, rlock.end and error.type
//	rlock.handovers          counter, {handover}    by rlock.kind and rlock.handover: local, remote
//	rlock.hold.lost          counter, {hold}        by rlock.kind and rlock.reason
//	rlock.lock.held          up-down counter, {lock}
//	rlock.call.waiting       up-down counter, {call}
//	rlock.renewal.failures   counter, {renewal}
//	rlock.report.dropped     counter, {report}      ends of holds, and events, that the metrics above lack: an observer was too slow
//
// The first four count a group of locks once, and leave its members out. A re-entry is in the first one only. The last four are those
// of [observe.Stats], which counts the members of groups.
//
// # Spans
//
// Each acquisition has a span rlock.acquire, a child of the caller's, with the attributes rlock.kind, rlock.op, rlock.outcome,
// rlock.attempts and, if they apply, error.type, rlock.reentry, rlock.token, rlock.handover and rlock.permits. It has the events
// rlock.queued when the call began to wait, rlock.handover when the lock was handed over, and rlock.refused when another owner kept it. The
// commands of the acquisition belong to it, so a client library that makes spans of its own makes children of it. The members of a group
// have spans within that of the group. The first and the last of these events have the attribute rlock.contended_here: whether another
// owner of this process had the lock.
//
// The caller's span, in which the lock is then held, gets the attributes rlock.kind, rlock.outcome and rlock.acquire.duration (s) of the
// last lock that was acquired in it, re-entries aside. If a lock is lost while that span lasts, it gets the event rlock.hold.lost with
// rlock.reason.
//
// # Failures
//
// An acquisition that failed has error.type in its span and in its metric, and the innermost error as the description of its span's
// status. A refusal is no failure: another owner has the lock. A hold that ended otherwise than by an unlock has error.type in its metric.
// The values of error.type are rlock.ErrUnavailable and the like, for the errors of package rlock, context.Canceled and
// context.DeadlineExceeded, the prefix of another error of Redis, such as NOPERM, and _OTHER.
//
// # Conventions
//
// Names, units and failures follow version 1.43 of the semantic conventions of OpenTelemetry, which is the schema URL of the instrumentation
// scope. The scope's version is that of this module. There are no attributes db.*, which belong to the spans of the commands.
//
// The names of locks are in no metric and in no span unless [WithNameLabel] says so, because each name makes a series of its own.
package rlockotel

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/observe"
)

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
// function gets the description of the group. It may be called by several goroutines at once. If it panics, there is no attribute. The
// default is none.
func WithNameLabel(label func(name string) string) Option {
	return func(o *observer) { o.label = label }
}

// Observe returns the option of [rlock.New] that observes the client. Several clients may share it: their gauges are added up. A client may
// have several, for several providers. An error of OpenTelemetry, and the first panic of the label or of a span processor, goes to the
// global error handler of OpenTelemetry.
func Observe(opts ...Option) rlock.Option {
	o := &observer{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	v := version(debug.ReadBuildInfo())
	o.tracer = o.tracers.Tracer(scope, trace.WithInstrumentationVersion(v), trace.WithSchemaURL(semconv.SchemaURL))
	if err := o.metrics.init(o.meters.Meter(scope, metric.WithInstrumentationVersion(v), metric.WithSchemaURL(semconv.SchemaURL))); err != nil {
		otel.Handle(err)
	}
	return rlock.WithObserver(o)
}

// observer implements [observe.Observer].
type observer struct {
	observe.Base

	meters  metric.MeterProvider
	tracers trace.TracerProvider
	label   func(name string) string
	tracer  trace.Tracer
	metrics metrics
	panics  sync.Once
}

var _ observe.Observer = (*observer)(nil)

// acquisitionKey is the key of an observer's acquisition: a client may have several observers, and a context has the values of all.
type acquisitionKey struct{ of *observer }

// acquisition is what a context carries of one acquisition.
type acquisition struct {
	span   trace.Span
	caller trace.Span           // which lasts while the lock is held
	attrs  []attribute.KeyValue // of everything about it; clipped, so that an append copies them
}

func (o *observer) acquisitionOf(ctx context.Context) *acquisition {
	a, _ := ctx.Value(acquisitionKey{o}).(*acquisition)
	return a
}

// AcquireStart implements [observe.Observer].
func (o *observer) AcquireStart(ctx context.Context, d observe.AcquireStart) context.Context {
	a := &acquisition{caller: trace.SpanFromContext(ctx), span: noop.Span{}, attrs: []attribute.KeyValue{kindKey.String(d.Kind)}}
	if label := o.labelOf(d.Name); label != "" {
		a.attrs = slices.Clip(append(a.attrs, nameKey.String(label)))
	}
	attrs := append(a.attrs, opKey.String(d.Op))
	if d.Permits > 0 {
		attrs = append(attrs, permitsKey.Int(d.Permits))
	}
	return context.WithValue(o.start(ctx, a, attrs), acquisitionKey{o}, a)
}

// labelOf returns the label of a name, if there is one.
func (o *observer) labelOf(name string) (label string) {
	if o.label == nil {
		return ""
	}
	defer o.recovered("the function of WithNameLabel")
	return o.label(name)
}

// start starts the span of an acquisition. It returns a context that has the span.
func (o *observer) start(ctx context.Context, a *acquisition, attrs []attribute.KeyValue) context.Context {
	with := ctx
	func() {
		defer o.recovered("the start of a span")
		with, a.span = o.tracer.Start(ctx, "rlock.acquire", trace.WithAttributes(attrs...)) //nolint:fatcontext // once
	}()
	return with
}

// recovered recovers from a panic in code of the user, so that what belongs to the acquisition goes on. The first one is reported.
func (o *observer) recovered(where string) {
	if value := recover(); value != nil {
		o.panics.Do(func() { otel.Handle(fmt.Errorf("rlockotel: panic in %s: %v\n%s", where, value, debug.Stack())) })
	}
}

// AcquireEnd implements [observe.Observer].
func (o *observer) AcquireEnd(ctx context.Context, d observe.AcquireEnd) {
	a := o.acquisitionOf(ctx)
	o.endSpan(a, d)
	if d.Member {
		return
	}
	o.metrics.acquired(ctx, a, d)
	if d.Outcome == observe.OutcomeAcquired && !d.Reentry && a.caller.IsRecording() {
		a.caller.SetAttributes(append(a.attrs, outcomeKey.String(string(d.Outcome)), durationKey.Float64(d.Took.Seconds()))...)
	}
}

// endSpan ends the span of an acquisition.
func (o *observer) endSpan(a *acquisition, d observe.AcquireEnd) {
	defer o.recovered("the end of a span")
	defer a.span.End()
	if !a.span.IsRecording() {
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, 6), outcomeKey.String(string(d.Outcome)), attemptsKey.Int(d.Attempts))
	if d.Reentry {
		attrs = append(attrs, reentryKey.Bool(true))
	}
	if d.Token != 0 {
		attrs = append(attrs, tokenKey.Int64(int64(d.Token))) //nolint:gosec // it comes from Redis as an int64
	}
	if d.Waited > 0 {
		a.span.AddEvent("rlock.queued", trace.WithTimestamp(time.Now().Add(-d.Waited)), trace.WithAttributes(hereKey.Bool(d.Contended)))
	}
	if d.Via != observe.ViaNone {
		attrs = append(attrs, handOverKey.String(string(d.Via)))
		a.span.AddEvent("rlock.handover", trace.WithAttributes(handOverKey.String(string(d.Via))))
	}
	switch {
	case failed(d):
		attrs = append(attrs, errorType(d.Err))
		why := reason(d.Err)
		if strings.Contains(why, d.Name) {
			why = string(d.Outcome)
		}
		a.span.SetStatus(codes.Error, why)
	case d.Outcome == observe.OutcomeRefused:
		a.span.AddEvent("rlock.refused", trace.WithAttributes(hereKey.Bool(d.Contended)))
	}
	a.span.SetAttributes(attrs...)
}

// failed reports whether an acquisition has failed. A refusal is what the lock is for, and no failure.
func failed(d observe.AcquireEnd) bool {
	return d.Outcome != observe.OutcomeAcquired && d.Outcome != observe.OutcomeRefused
}

// HoldEnd implements [observe.Observer].
func (o *observer) HoldEnd(ctx context.Context, d observe.HoldEnd) {
	a := o.acquisitionOf(ctx)
	if d.Member {
		return
	}
	o.metrics.ended(ctx, a, d)
	if d.End.Lost() && a.caller.IsRecording() {
		a.caller.AddEvent("rlock.hold.lost", trace.WithAttributes(append(a.attrs, reasonKey.String(string(d.End)))...))
	}
}

// ClientStart implements [observe.Observer].
func (o *observer) ClientStart(c observe.Client) { o.metrics.clients.add(c) }

// ClientEnd implements [observe.Observer].
func (o *observer) ClientEnd(c observe.Client) { o.metrics.clients.remove(c) }

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

package rlockotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/go-rlock/rlock/observe"
)

// The bounds of the histograms, in s: from a lock that is free and near to one that is waited for, or held, for minutes.
var bounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// metrics has the instruments.
type metrics struct {
	acquire, hold   metric.Float64Histogram
	handOvers, lost metric.Int64Counter
	clients         clients
}

// init makes the instruments. Those that cannot be made do nothing.
func (m *metrics) init(meter metric.Meter) error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	var err error
	m.acquire, err = meter.Float64Histogram("rlock.acquire.duration", metric.WithUnit("s"),
		metric.WithDescription("How long acquisitions took, with their waits."), metric.WithExplicitBucketBoundaries(bounds...))
	add(err)
	m.hold, err = meter.Float64Histogram("rlock.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("How long locks were held."), metric.WithExplicitBucketBoundaries(bounds...))
	add(err)
	m.handOvers, err = meter.Int64Counter("rlock.handovers", metric.WithUnit("{handover}"),
		metric.WithDescription("Locks that were handed over to an owner that waited."))
	add(err)
	m.lost, err = meter.Int64Counter("rlock.hold.lost", metric.WithUnit("{hold}"),
		metric.WithDescription("Holds that were lost before their unlock."))
	add(err)
	add(m.clients.init(meter))
	return errors.Join(errs...)
}

// acquired records an acquisition.
func (m *metrics) acquired(ctx context.Context, a *acquisition, d observe.AcquireEnd) {
	attrs := append(a.attrs, outcomeKey.String(string(d.Outcome)))
	if failed(d) {
		attrs = append(attrs, errorType(d.Err))
	}
	m.acquire.Record(ctx, d.Took.Seconds(), with(attrs))
	if d.Via != observe.ViaNone {
		m.handOvers.Add(ctx, 1, with(append(a.attrs, handOverKey.String(string(d.Via)))))
	}
}

// ended records the end of a hold.
func (m *metrics) ended(ctx context.Context, a *acquisition, d observe.HoldEnd) {
	attrs := append(a.attrs, endKey.String(string(d.End)))
	if d.Err != nil {
		attrs = append(attrs, errorType(d.Err))
	}
	m.hold.Record(ctx, d.Held.Seconds(), with(attrs))
	if d.End.Lost() {
		m.lost.Add(ctx, 1, with(append(a.attrs, reasonKey.String(string(d.End)))))
	}
}

func with(attrs []attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attrs...)) // NewSet sorts attrs, which must be a copy: that of an acquisition is clipped
}

// clients adds up the statistics of all clients. What an ended client has counted stays counted.
type clients struct {
	mu              sync.Mutex
	open            map[observe.Client]struct{}
	failures, drops uint64 // of the ended ones
}

// init makes the instruments that read the statistics.
func (c *clients) init(meter metric.Meter) error {
	held, err1 := meter.Int64ObservableUpDownCounter("rlock.lock.held", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that are held."))
	waiting, err2 := meter.Int64ObservableUpDownCounter("rlock.call.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that wait for a lock."))
	failures, err3 := meter.Int64ObservableCounter("rlock.renewal.failures", metric.WithUnit("{renewal}"),
		metric.WithDescription("Renewals without a reply, or with an error as the reply."))
	dropped, err4 := meter.Int64ObservableCounter("rlock.report.dropped", metric.WithUnit("{report}"),
		metric.WithDescription("Ends of holds, and events, that were dropped because an observer was too slow."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := c.sum()
		o.ObserveInt64(held, int64(s.Held))
		o.ObserveInt64(waiting, int64(s.Waiting))
		o.ObserveInt64(failures, int64(s.RenewalFailures)) //nolint:gosec // no process counts that far
		o.ObserveInt64(dropped, int64(s.DroppedReports))   //nolint:gosec // no process counts that far
		return nil
	}, held, waiting, failures, dropped)
	return err
}

func (c *clients) add(client observe.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[observe.Client]struct{})
	}
	c.open[client] = struct{}{}
}

func (c *clients) remove(client observe.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := client.Stats()
	c.failures += s.RenewalFailures
	c.drops += s.DroppedReports
	delete(c.open, client)
}

// sum adds up the statistics.
func (c *clients) sum() (sum observe.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum.RenewalFailures, sum.DroppedReports = c.failures, c.drops
	for client := range c.open {
		s := client.Stats()
		sum.Held += s.Held
		sum.Waiting += s.Waiting
		sum.RenewalFailures += s.RenewalFailures
		sum.DroppedReports += s.DroppedReports
	}
	return sum
}

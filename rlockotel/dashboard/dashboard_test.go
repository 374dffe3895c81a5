// Package dashboard tests the dashboard and the alerts of docs/grafana on the metrics that a run of rlock exports. It is a module of its
// own, because it needs Prometheus itself.
package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/rlockotel"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// process is a process with an exporter.
type process struct {
	name      string
	observing rlock.Option
	url       string
}

func newProcess(t *testing.T, name string, opts ...rlockotel.Option) *process {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry))
	require.NoError(t, err)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return &process{name: name, observing: rlockotel.Observe(append(opts, rlockotel.WithMeterProvider(meters))...), url: server.URL}
}

// client returns a client of the process.
func (p *process) client(t *testing.T, rdb redis.UniversalClient, opts ...rlock.Option) *rlock.Client {
	t.Helper()
	return testkit.NewClient(t, rdb, append(opts, p.observing, rlock.WithLogger(testkit.Discard))...)
}

// service is a process, and a Prometheus that scrapes it whenever the test says so, at times of its own.
type service struct {
	*testing.T
	process *process
	store   *store
	engine  *promql.Engine
	now     time.Time
}

func newService(t *testing.T, opts ...rlockotel.Option) *service {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true})
	return &service{T: t, process: newProcess(t, "shop-1", opts...), store: newStore(), engine: engine, now: time.Now().Add(-time.Hour)}
}

// client returns a client of the service.
func (s *service) client(rdb redis.UniversalClient, opts ...rlock.Option) *rlock.Client {
	s.Helper()
	return s.process.client(s.T, rdb, opts...)
}

// scrape reads the exporter, and stores what it says under a time that is a minute after the last one.
func (s *service) scrape() {
	s.Helper()
	s.now = s.now.Add(time.Minute)
	s.scrapeFrom(s.process)
}

// scrapeFrom stores what an exporter says now.
func (s *service) scrapeFrom(p *process) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, p.url, nil)
	require.NoError(s, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s, err)
	defer func() { require.NoError(s, resp.Body.Close()) }()
	dec := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header))
	samples := expfmt.SampleDecoder{Dec: dec, Opts: &expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(s.now.UnixNano())}}
	for {
		var v model.Vector
		if samples.Decode(&v) != nil {
			break
		}
		for _, sample := range v {
			b := labels.NewBuilder(labels.FromStrings("job", "shop", "instance", p.name))
			for name, value := range sample.Metric {
				b.Set(string(name), string(value))
			}
			s.store.add(b.Labels(), s.now.UnixMilli(), float64(sample.Value))
		}
	}
}

// value evaluates an expression now.
func (s *service) value(expr string) promql.Vector {
	s.Helper()
	q, err := s.engine.NewInstantQuery(s.Context(), s.store, nil, expr, s.now)
	require.NoError(s, err, expr)
	defer q.Close()
	result := q.Exec(s.Context())
	require.NoError(s, result.Err, expr)
	v, err := result.Vector()
	require.NoError(s, err, expr)
	return v
}

// calm is work as it should be: a lock that two clients want, and that is handed over in both ways.
func (s *service) calm(server *redistest.Server) {
	s.Helper()
	one, other := s.client(server.Client(s)), s.client(server.Client(s))
	lock := one.NewLock(testkit.NewName())
	hold := testkit.Must(other.NewLock(lock.Name()).Acquire(s.Context()))
	require.False(s, testkit.Must(lock.TryLock(s.Context())))
	queue := testkit.NewWaiterQueue(s, lock)
	queue.Join(s.Context())
	queue.AwaitSleep(server.Client(s))
	queue.Join(s.Context())
	for range 2 {
		require.NoError(s, hold.Unlock(s.Context()))
		hold = queue.Next()
	}
	require.NoError(s, hold.Unlock(s.Context()))
	require.NoError(s, one.Close())
	require.NoError(s, other.Close())
}

// trouble is an outage while a lock is held, and a hold that is lost.
func (s *service) trouble(server *redistest.Server) {
	s.Helper()
	proxy := redistest.NewProxy(s, server.Addr)
	client := s.client(redistest.Open(s, &redis.Options{Addr: proxy.Addr, ReadTimeout: 200 * time.Millisecond}),
		rlock.WithCommandTimeout(200*time.Millisecond))
	lock := client.NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(s.Context(), rlock.RenewedLease(500*time.Millisecond)))
	proxy.Freeze()
	testkit.Within(s, "the hold is lost", hold.Done())
	_, err := client.NewLock(testkit.NewName()).TryLock(s.Context())
	require.ErrorIs(s, err, rlock.ErrUnavailable)
	proxy.Thaw()
	require.ErrorIs(s, hold.Unlock(context.Background()), rlock.ErrLost)
	require.NoError(s, client.Close())
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testkit.Repository(), "docs", "grafana", name))
	require.NoError(t, err)
	return text
}

// board is what the tests need of the dashboard.
type board struct {
	Panels     []panel
	Templating struct{ List []variable }
}

type panel struct {
	Type, Title, Description string
	Targets                  []target
}

type target struct{ Expr, Format string }

type variable struct {
	Name, AllValue string
	Query          any // a text, or an object that has one
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	require.NoError(t, json.Unmarshal(read(t, "rlock.json"), &b))
	return b
}

// on returns the expression that Grafana makes of a target: with rates over 2 minutes, for all processes and for some names of locks.
func (g target) on(t *testing.T, names string) string {
	t.Helper()
	expr := strings.NewReplacer("$__rate_interval", "2m", "$job", ".*", "$instance", ".*", "$name", names).Replace(g.Expr)
	require.NotContains(t, expr, "$")
	return expr
}

// TestEveryPanelShowsSomething evaluates the expressions of the dashboard on the metrics of a service that has seen everything.
func TestEveryPanelShowsSomething(t *testing.T) {
	t.Parallel()
	s, server := newService(t), redistest.Start(t)
	client := s.client(server.Client(t))
	held := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context()))
	s.calm(server)
	s.trouble(server)
	s.scrape()
	s.calm(server)
	s.trouble(server)
	s.scrape()
	panels := readBoard(t).Panels
	require.Len(t, panels, 11)
	for _, p := range panels {
		require.NotEmpty(t, p.Description, p.Title)
		for _, target := range p.Targets {
			expr := target.on(t, ".*")
			require.NotEmpty(t, s.value(expr), "%s: %s", p.Title, expr)
		}
	}
	// The figures are those of what happened.
	require.EqualValues(t, 1, s.value("sum(rlock_lock_held)")[0].F)
	require.EqualValues(t, 2, s.value(`sum(rlock_hold_lost_total{rlock_reason="lease_ended"})`)[0].F)
	require.EqualValues(t, 2, s.value(`sum(rlock_handovers_total{rlock_handover="local"})`)[0].F)
	require.EqualValues(t, 2, s.value(`sum(rlock_handovers_total{rlock_handover="remote"})`)[0].F)
	require.EqualValues(t, 2, s.value(`sum(rlock_acquire_duration_seconds_count{rlock_outcome="refused"})`)[0].F)
	require.NoError(t, held.Unlock(t.Context()))
}

// TestTheNamesOfLocks filter what is known by name, and nothing is missing without a filter, or without names.
func TestTheNamesOfLocks(t *testing.T) {
	t.Parallel()
	b := readBoard(t)
	at := slices.IndexFunc(b.Templating.List, func(v variable) bool { return v.Name == "name" })
	require.GreaterOrEqual(t, at, 0, "there is a variable")
	require.Equal(t, ".*", b.Templating.List[at].AllValue, "which matches series without a name, too")
	require.Contains(t, fmt.Sprint(b.Templating.List[at].Query), ", rlock_name)")

	s := newService(t, rlockotel.WithNameLabel(func(name string) string { label, _, _ := strings.Cut(name, ":"); return label }))
	client := s.client(redistest.Embedded(t))
	acquire := func(name string) {
		require.NoError(t, client.NewLock(name).Do(t.Context(), func(context.Context) error { return nil }))
	}
	for range 10 { // a rate is not guessed as from zero then
		acquire("order:0")
		acquire("invoice:0")
		acquire(":0")
	}
	s.scrape()
	for n := range 3 {
		acquire(fmt.Sprint("order:", n))
	}
	acquire("invoice:1")
	acquire(":1") // has no label
	s.scrape()
	total := func(names string) (sum float64) {
		for _, p := range b.Panels {
			if p.Title == "Acquisitions per second, by outcome" {
				for _, sample := range s.value(p.Targets[0].on(t, names)) {
					sum += sample.F
				}
			}
		}
		return sum
	}
	all := total(".*") // of which a rate over two scrapes knows only the proportions
	require.Positive(t, all)
	require.InDelta(t, 3./5, total("order")/all, .01)
	require.InDelta(t, 4./5, total("order|invoice")/all, .01)
	for _, p := range b.Panels {
		for _, g := range p.Targets {
			named := regexp.MustCompile(`rlock_(acquire|hold|handovers)_?\w*`).MatchString(g.Expr)
			require.Equal(t, named, strings.Contains(g.Expr, `rlock_name=~"$name"`), "%s: %s", p.Title, g.Expr)
		}
	}
}

// TestTheHeatMap has the buckets of Grafana's heat map: a series for each upper bound, by which they are told apart.
func TestTheHeatMap(t *testing.T) {
	t.Parallel()
	s := newService(t)
	client := s.client(redistest.Embedded(t))
	for range 2 {
		require.NoError(t, client.NewLock(testkit.NewName()).Do(t.Context(), func(context.Context) error { return nil }))
		s.scrape()
	}
	maps := slices.DeleteFunc(readBoard(t).Panels, func(p panel) bool { return p.Type != "heatmap" })
	require.Len(t, maps, 1)
	require.Equal(t, "heatmap", maps[0].Targets[0].Format, "Grafana then makes each bucket of the difference from the one below it")
	buckets := s.value(maps[0].Targets[0].on(t, ".*"))
	require.Len(t, buckets, 20, "19 bounds, and all above")
	for _, bucket := range buckets {
		require.NotEmpty(t, bucket.Metric.Get("le"))
	}
}

// alerts returns the expressions of the alerts.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	groups, errs := rulefmt.Parse(read(t, "alerts.yaml"), false, model.UTF8Validation)
	require.Empty(t, errs)
	all := make(map[string]string)
	for _, rule := range groups.Groups[0].Rules {
		_, err := parser.ParseExpr(rule.Expr)
		require.NoError(t, errors.Join(err), rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		requireSection(t, rule.Annotations["runbook_url"], rule.Alert)
		all[rule.Alert] = rule.Expr
	}
	return all
}

// requireSection fails the test unless a URL leads to the section of an alert in the documents: a heading that is the alert's name.
func requireSection(t *testing.T, url, alert string) {
	t.Helper()
	page, anchor, _ := strings.Cut(strings.TrimPrefix(url, "https://github.com/go-rlock/rlock/blob/main/"), "#")
	require.Equal(t, strings.ToLower(alert), anchor, "the runbook_url %q", url)
	text, err := os.ReadFile(filepath.Join(testkit.Repository(), filepath.FromSlash(page)))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^### `+alert+`\n\n\S`, string(text))
}

// TestAlerts has no alert fire on a service that is well, and those about Redis on one that was in trouble.
func TestAlerts(t *testing.T) {
	t.Parallel()
	s, server := newService(t), redistest.Start(t)
	all := alerts(t)
	require.Len(t, all, 5)
	for range 3 {
		s.calm(server)
		s.scrape()
	}
	for name, expr := range all {
		require.Empty(t, s.value(expr), name)
	}
	s.trouble(server)
	s.scrape()
	require.NotEmpty(t, s.value(all["RlockHoldLost"]), "by the first loss")
	s.trouble(server)
	s.scrape()
	for _, name := range []string{"RlockHoldLost", "RlockUnavailable", "RlockRenewalsFail"} {
		require.NotEmpty(t, s.value(all[name]), name)
	}
	require.Equal(t, "lease_ended", s.value(all["RlockHoldLost"])[0].Metric.Get("rlock_reason"))
	for range 12 {
		s.calm(server)
		s.scrape()
	}
	for name, expr := range all {
		require.Empty(t, s.value(expr), "%s has ended", name)
	}
}

package dashboard

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/prometheus/prometheus/promql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The run of the picture, in scrapes. The processes work for a while before the picture begins, so that it begins with rates.
const (
	warmUp    = 5
	untilOut  = 22
	untilBack = 36
	untilEnd  = 60
	rateOver  = 4 // as Grafana chooses it
)

// shop is two processes that share locks, in a Redis that can stop answering, and a Prometheus that scrapes them at a pace. What they do
// takes a number of paces, so that a quick run is like a slow one.
type shop struct {
	*service
	processes []*process
	proxy     *redistest.Proxy
	pace      time.Duration
}

func newShop(t *testing.T, pace time.Duration) *shop {
	t.Helper()
	s := newService(t)
	return &shop{
		service: s, processes: []*process{s.process, newProcess(t, "shop-2")}, pace: pace,
		proxy: redistest.NewProxy(t, redistest.Start(t).Addr),
	}
}

// job is what a goroutine does with a lock, again and again. Its times are in paces, and those of holds and pauses are averages.
type job struct {
	lock        *rlock.Lock
	hold, pause float64
	wait        float64 // at most
}

// jobs returns what a process does: it leads if no other one does, keeps a shard of its own, makes a report unless another one does, reads
// and writes the catalog, serves orders in turn, and changes the stock.
func (s *shop) jobs(p *process) (all []job) {
	s.Helper()
	const timeout = 250 * time.Millisecond
	c := p.client(s.T, redistest.Open(s, &redis.Options{Addr: s.proxy.Addr, ReadTimeout: timeout, DialTimeout: timeout}),
		rlock.WithCommandTimeout(timeout), rlock.WithWatchdogTimeout(6*s.pace))
	catalog := c.NewRWLock("catalog")
	all = append(all,
		job{lock: c.NewLock("leader"), hold: 1000, pause: 2},
		job{lock: c.NewLock("shard of " + p.name), hold: 1000, pause: 2},
		job{lock: catalog.WriteLock(), hold: .04, pause: .8, wait: 2})
	for range 2 {
		all = append(all,
			job{lock: c.NewLock("report"), hold: .3, pause: .7},
			job{lock: catalog.ReadLock(), hold: .06, pause: .2},
			job{lock: c.NewFairLock("orders"), hold: .04, pause: .2, wait: 2})
	}
	for range 3 {
		all = append(all, job{lock: c.NewLock("stock"), hold: .05, pause: .3, wait: 2})
	}
	return all
}

// work does a job until ctx ends. Its errors are what the picture shows.
func (s *shop) work(ctx context.Context, j job) {
	wait := rlock.Wait(time.Duration(j.wait * float64(s.pace)))
	for ctx.Err() == nil {
		if hold, err := j.lock.TryAcquire(rlock.WithOwner(ctx), wait); err == nil {
			s.sleep(hold.Context(), j.hold)
			_ = hold.Unlock(context.WithoutCancel(ctx))
		}
		s.sleep(ctx, j.pause)
	}
}

// sleep sleeps for about as many paces, or until ctx ends.
func (s *shop) sleep(ctx context.Context, paces float64) {
	timer := time.NewTimer(time.Duration(paces * (.5 + rand.Float64()) * float64(s.pace)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// run lets the processes work, with an outage, and returns when what happened.
func (s *shop) run() span {
	s.Helper()
	r := span{pace: s.pace}
	ctx, stop := context.WithCancel(s.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for _, p := range s.processes {
		for _, j := range s.jobs(p) {
			workers.Go(func() { s.work(ctx, j) })
		}
	}
	ticker := time.NewTicker(s.pace)
	defer ticker.Stop()
	for i := -warmUp; i <= untilEnd; i++ {
		s.now = <-ticker.C
		for _, p := range s.processes {
			s.scrapeFrom(p)
		}
		switch i {
		case 0:
			r.start = s.now
		case untilOut:
			s.proxy.Freeze()
			r.out = s.now
		case untilBack:
			s.proxy.Thaw()
			r.back = s.now
		}
	}
	r.end = s.now
	return r
}

// span has the times of a run.
type span struct {
	start, out, back, end time.Time
	pace                  time.Duration
}

// series is a line of a panel.
type series struct {
	name   string
	points []promql.FPoint
	low    []float64 // what each of them is stacked on
}

// evaluate returns the lines of a panel.
func (s *shop) evaluate(p panel, r span) (all []series) {
	s.Helper()
	for _, target := range p.Targets {
		expr := target.on(s.T, rateOver*s.pace)
		q, err := s.engine.NewRangeQuery(s.Context(), s.store, nil, expr, r.start, r.end, s.pace)
		require.NoError(s, err, expr)
		result := q.Exec(s.Context())
		require.NoError(s, result.Err, expr)
		matrix, err := result.Matrix()
		require.NoError(s, err, expr)
		var lines []series
		for _, m := range matrix {
			name := target.LegendFormat
			for label, value := range m.Metric.Map() {
				name = strings.ReplaceAll(name, "{{"+label+"}}", value)
			}
			points := slices.DeleteFunc(slices.Clone(m.Floats), func(point promql.FPoint) bool { return math.IsNaN(point.F) })
			if len(points) > 0 {
				lines = append(lines, series{name: name, points: points})
			}
		}
		q.Close()
		slices.SortFunc(lines, func(a, b series) int { return strings.Compare(a.name, b.name) })
		all = append(all, lines...)
	}
	return all
}

// TestPicture draws the dashboard on a run with an outage. If RLOCK_PICTURE names a file, the run takes half a minute and the picture is
// saved.
func TestPicture(t *testing.T) {
	path, pace := os.Getenv("RLOCK_PICTURE"), 100*time.Millisecond
	if path != "" {
		pace = 500 * time.Millisecond
	}
	s := newShop(t, pace)
	r := s.run()
	b := readBoard(t)
	lines := make(map[string][]series)
	for _, p := range b.Panels {
		lines[p.Title] = s.evaluate(p, r)
	}
	svg := draw(t, b, lines, r)
	requirePicture(t, svg, b)
	if path != "" {
		require.NoError(t, os.WriteFile(path, svg, 0o644))
	}
}

// TestPictureIsOfTheDashboard has the picture of the guide show the panels of the dashboard as it is.
func TestPictureIsOfTheDashboard(t *testing.T) {
	t.Parallel()
	svg, err := os.ReadFile(filepath.Join(testkit.Repository(), "docs", "pictures", "dashboard.svg"))
	require.NoError(t, err)
	requirePicture(t, svg, readBoard(t))
}

// requirePicture fails the test unless a picture shows each panel of the dashboard, with at least one line.
func requirePicture(t *testing.T, svg []byte, b board) {
	t.Helper()
	var picture struct {
		Panels []struct {
			Of    []byte `xml:"metadata"`
			Lines []struct {
				Path string `xml:"d,attr"`
			} `xml:"g>path"`
		} `xml:"g"`
	}
	require.NoError(t, xml.Unmarshal(svg, &picture))
	require.Len(t, picture.Panels, len(b.Panels))
	for i, p := range b.Panels {
		shown := picture.Panels[i]
		var of panel
		require.NoError(t, json.Unmarshal(shown.Of, &of), p.Title)
		require.Equal(t, p, of, "the panel has changed; make the picture again")
		require.NotEmpty(t, shown.Lines, p.Title)
		for _, line := range shown.Lines {
			require.NotEmpty(t, line.Path, p.Title)
		}
	}
}

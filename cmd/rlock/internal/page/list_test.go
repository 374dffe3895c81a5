package page

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/internal/redistest"
)

// TestLocksWithWaitersAreKept keeps all of them beside the first of the others, and counts those that it does not keep.
func TestLocksWithWaitersAreKept(t *testing.T) {
	now := time.Now()
	k := selection{names: make(map[string]bool)}
	waited := func(name string) *catalog.Row {
		row := held(name, "one:1")
		row.Waiters = 1
		return &row
	}
	for i := range maxRows + 100 {
		row := held(fmt.Sprint("lock-", i), "one:1")
		k.add(&row, now)
		k.add(&row, now) // while Redis resizes its table
	}
	for i := range maxRows {
		k.add(waited(fmt.Sprint("waited-", i)), now)
	}
	assert.Len(t, k.waited, maxRows)
	assert.Len(t, k.others, maxRows)
	assert.Len(t, k.all(), 2*maxRows)
	assert.Equal(t, 2*maxRows+200, k.total, "one that is not kept may be counted twice")

	assert.False(t, k.missed)

	k = selection{names: make(map[string]bool)}
	for i := range 10 {
		row := held(fmt.Sprint(i, strings.Repeat("x", maxBytes/12)), "one:1")
		k.add(&row, now)
	}
	for i := range 20 {
		k.add(waited(fmt.Sprint(i, strings.Repeat("y", maxBytes/12))), now)
	}
	row := held("short", "one:1")
	k.add(&row, now)
	assert.Empty(t, k.others, "they give way to those with waiters")
	assert.Equal(t, 31, k.total)
	assert.LessOrEqual(t, k.bytes, maxBytes)
	assert.Greater(t, len(k.waited), 9)
	assert.True(t, k.missed)
}

// TestTheServerSearches sends what fits, the exact name before Redis has been searched.
func TestTheServerSearches(t *testing.T) {
	f := newFake(held("orders:1", "one:1"), held("orders:12", "one:1"), held("parcels", "two:1"))
	s, ts := serve(t, f, Options{Prefix: "orders:"})
	f.mu.Lock()
	f.hang = make(chan struct{})
	f.mu.Unlock()
	b := connect(t, ts.URL+"/events?q=orders:1")
	d := next[rowsEvent](b, "rows")
	assert.True(t, d.Part, "the search goes on")
	require.Len(t, d.Rows, 1)
	assert.Equal(t, "orders:1", d.Rows[0].Name)
	f.mu.Lock()
	close(f.hang)
	f.hang = nil
	f.mu.Unlock()
	d = until(b, "rows", func(d rowsEvent) bool { return !d.Part })
	assert.Equal(t, 2, d.Total)
	require.Len(t, d.Rows, 1)
	assert.Equal(t, "orders:12", d.Rows[0].Name)
	outside := connect(t, ts.URL+"/events?q=parcels")
	d = next[rowsEvent](outside, "rows")
	assert.False(t, d.Part)
	assert.Empty(t, d.Rows, "nothing outside the prefix")
	b.close()
	outside.close()
	redistest.Eventually(t, "no search goes on", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.searches) == 0 })
}

func TestSearchesAreBounded(t *testing.T) {
	s, ts := serve(t, newFake(), Options{})
	var open []*reader
	for i := range maxSearches {
		for range 2 { // browsers with the same text share a search
			open = append(open, connect(t, ts.URL+"/events?q="+url.QueryEscape(fmt.Sprint("text ", i))))
		}
	}
	resp, err := http.Get(ts.URL + "/events?q=other")
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	open[0].close()
	open[1].close()
	redistest.Eventually(t, "a place", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.searches) < maxSearches })
	next[rowsEvent](connect(t, ts.URL+"/events?q=other"), "rows")
}

// slowly is a source whose looks take a second.
type slowly struct {
	*fake
	mu    sync.Mutex
	now   int // looks under way
	most  int
	looks int
}

func (s *slowly) Find(ctx context.Context, by catalog.Filter) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		s.note(1)
		defer s.note(-1)
		n := 0
		for row, err := range s.fake.Find(ctx, by) {
			if n++; n > 1 {
				time.Sleep(time.Second / 2)
			}
			if !yield(row, err) {
				return
			}
		}
		time.Sleep(time.Second)
	}
}

func (s *slowly) note(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
	s.looks += max(n, 0)
}

// TestSearchesTakeTurns keeps Redis no busier with many searches than with one.
func TestSearchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &slowly{fake: newFake()}
		s := New(f, Options{})
		for i := range maxSearches {
			_, leave := s.list(catalog.Filter{Text: fmt.Sprint("text ", i)})
			defer leave()
		}
		time.Sleep(58 * time.Second)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		assert.Equal(t, 1, f.most, "one at a time")
		assert.Equal(t, 12, f.looks, "and each is followed by a pause of four seconds")
	})
}

// TestTheFirstLookIsShownAsItComes does not let anybody wait for its end, and does not take it for Redis being away.
func TestTheFirstLookIsShownAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &slowly{fake: newFake()}
		for i := range 20 {
			f.set(held(fmt.Sprint("lock-", i), "one:1"))
		}
		s := New(f, Options{})
		sent := map[string]*rowView{}
		l, leave := s.list(catalog.Filter{})
		time.Sleep(patience + 1500*time.Millisecond)
		synctest.Wait()
		d, version := l.state.since(0, sent)
		require.NotNil(t, d)
		assert.True(t, d.Part)
		assert.Zero(t, d.Stale)
		assert.Greater(t, len(d.Rows), 5)
		assert.True(t, d.Rows[0].Before)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		d, _ = l.state.since(version, sent)
		assert.False(t, d.Part)
		assert.Equal(t, 20, d.Total)
		for _, row := range d.Rows {
			assert.True(t, row.Before, "it may have been there for long")
		}
		leave()
		s.Close()
	})
}

// TestALockThatIsNotKeptHasAHistory while a browser looks at it.
func TestALockThatIsNotKeptHasAHistory(t *testing.T) {
	p := newPast()
	p.lookAt(0, true, held("a", "one:1"))
	leave := p.watch(idOf("b"))
	look := func(rows ...catalog.Row) {
		p.at = p.at.Add(time.Second)
		var details *catalog.Details
		if len(rows) > 0 {
			details = &catalog.Details{Row: rows[0], HolderList: []rlock.HolderInfo{{Holder: rows[0].Holder, Client: rows[0].Client}}}
		}
		p.applyDetails(idOf("b"), details, p.at)
	}
	look(held("b", "one:1"))
	look(held("b", "two:1"))
	look()
	look(held("b", "two:2"))
	p.lookAt(0, true, held("a", "one:1"))
	h := p.holds("b")
	require.Len(t, h, 3)
	assert.True(t, h[0].Before)
	assert.False(t, h[1].Before)
	assert.EqualValues(t, 1000, h[1].End-h[1].Start)
	assert.False(t, h[2].Before)
	assert.Zero(t, h[2].End)
	leave()
	h = p.holds("b")
	assert.True(t, h[2].After, "nobody looks at it any more")
	assert.False(t, p.histories.tracks[idOf("b")].here)
}

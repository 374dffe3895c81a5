package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

func TestASnapshotThenDifferences(t *testing.T) {
	f := newFake(held("a", "one:1"), held("b", "two:1"))
	_, ts := serve(t, f, Options{Title: "locks", Where: "redis.example:6379", Prefix: ""})
	b := connect(t, ts.URL+"/events")
	greeting := next[hello](b, "hello")
	assert.Equal(t, "locks", greeting.Title)
	assert.Equal(t, "redis.example:6379", greeting.Where)
	assert.False(t, greeting.Free)
	all := whole(b)
	require.True(t, all.All)
	require.Len(t, all.Rows, 2)
	assert.True(t, all.Rows[0].Before, "it may have been there for long")
	assert.InDelta(t, all.Now+30_000, all.Rows[0].Ends, 5000)
	assert.EqualValues(t, 30_000, all.Rows[0].Full)

	f.set(held("c", "three:1"))
	d := next[rowsEvent](b, "rows")
	require.False(t, d.All)
	require.Len(t, d.Rows, 1)
	assert.Equal(t, "c", d.Rows[0].Name)
	assert.Equal(t, "three:1", d.Rows[0].Who)
	assert.False(t, d.Rows[0].Before)

	f.remove("a")
	d = next[rowsEvent](b, "rows")
	assert.Equal(t, []string{idOf("a")}, d.Gone)
	assert.Empty(t, d.Rows)

	other := connect(t, ts.URL+"/events")
	assert.Len(t, whole(other).Rows, 2)
}

func TestStaleWhileRedisIsAway(t *testing.T) {
	f := newFake(held("a", "one:1"))
	_, ts := serve(t, f, Options{})
	b, lock := connect(t, ts.URL+"/events"), connect(t, ts.URL+"/events?lock="+idOf("a"))
	first := whole(b)
	until(lock, "lock", func(e lockEvent) bool { return e.Lock.Lock != nil })
	f.fail(errAway)
	d := next[rowsEvent](b, "rows")
	assert.InDelta(t, first.Now, d.Stale, 3000)
	assert.Equal(t, "connection refused", d.Why)
	assert.Empty(t, d.Gone, "what is known stays")
	until(lock, "lock", func(e lockEvent) bool { return e.Lock.Stale != 0 && e.Lock.Lock != nil })
	f.fail(nil)
	d = next[rowsEvent](b, "rows")
	assert.Zero(t, d.Stale)
	until(lock, "lock", func(e lockEvent) bool { return e.Lock.Stale == 0 })
}

func TestNothingHasBeenReadYet(t *testing.T) {
	f := newFake(held("a", "one:1"))
	f.fail(errAway)
	_, ts := serve(t, f, Options{})
	b, lock := connect(t, ts.URL+"/events"), connect(t, ts.URL+"/events?lock="+idOf(strings.Repeat("long", 100)))
	d := next[rowsEvent](b, "rows")
	assert.True(t, d.Unread)
	assert.NotZero(t, d.Stale)
	assert.False(t, next[lockEvent](lock, "lock").Lock.Read)
	f.fail(nil)
	d = next[rowsEvent](b, "rows")
	assert.False(t, d.Unread)
	assert.Zero(t, d.Stale)
	assert.Len(t, d.Rows, 1)
	until(lock, "lock", func(e lockEvent) bool { return e.Lock.Read && e.Lock.Lock == nil })
}

// why returns why the table is stale.
func (s *Server) why() string {
	s.all.state.mu.Lock()
	defer s.all.state.mu.Unlock()
	return s.all.state.table.Why
}

func TestARedisThatHangsIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(held("a", "one:1"))
		f.hang = make(chan struct{})
		s := New(f, Options{})
		leave := s.all.poller.join()
		time.Sleep(patience - time.Millisecond)
		synctest.Wait()
		assert.Empty(t, s.why())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, noAnswer, s.why())
		close(f.hang)
		synctest.Wait()
		assert.Empty(t, s.why())
		leave()
		s.Close()
	})
}

func TestNobodyReadsWithoutBrowsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := New(f, Options{})
		time.Sleep(time.Minute)
		assert.Zero(t, f.count())
		one, two := s.all.poller.join(), s.all.poller.join()
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 20, f.count(), 1, "one read for both")
		one()
		time.Sleep(5 * time.Second)
		assert.InDelta(t, 30, f.count(), 1)
		two()
		time.Sleep(time.Minute)
		assert.InDelta(t, 30, f.count(), 1)
		s.Close()
	})
}

func TestLongLooksAreFollowedByLongPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begins []time.Duration
		start := time.Now()
		p := newPoller(newPace(), nil, func(context.Context) {
			begins = append(begins, time.Since(start))
			time.Sleep(time.Second)
		})
		leave := p.join()
		time.Sleep(1500 * time.Millisecond)
		leave()
		leave = p.join() // a reload does not make it sooner
		time.Sleep(9 * time.Second)
		leave()
		p.wait()
		assert.Equal(t, []time.Duration{0, 5 * time.Second, 10 * time.Second}, begins)
	})
}

func TestLeasesThatRunDownMakeNoDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sent := newState(), map[string]*rowView{}
		start := time.Now()
		see := func(lease time.Duration) {
			row := held("a", "one:1")
			row.Lease = lease
			now := time.Now()
			s.apply([]sighting{newSighting(&row, now)}, look{total: 1, begun: now, ended: now})
		}
		see(20 * time.Second)
		_, version := s.since(0, sent)
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			see(20*time.Second - time.Since(start) - 40*time.Millisecond)
		}
		d, _ := s.since(version, sent)
		require.Nil(t, d)
		see(30 * time.Second) // renewed
		d, _ = s.since(version, sent)
		require.NotNil(t, d)
		assert.EqualValues(t, 30_000, d.Rows[0].Full)
		assert.True(t, d.Rows[0].Renewed)
		assert.Equal(t, time.Now().Add(30*time.Second).UnixMilli(), d.Rows[0].Ends)
		assert.Equal(t, start.UnixMilli(), d.Rows[0].Since)
	})
}

// whole returns the rows of a first look in one event. A look that takes long is shown in parts, of which each has what is new or changed.
func whole(b *reader) rowsEvent {
	all := next[rowsEvent](b, "rows")
	for all.Part {
		d := next[rowsEvent](b, "rows")
		same := func(row rowView) bool {
			return slices.ContainsFunc(d.Rows, func(r rowView) bool { return r.ID == row.ID })
		}
		d.Rows = append(slices.DeleteFunc(all.Rows, same), d.Rows...)
		all = d
	}
	return all
}

func TestASlowBrowserHoldsUpNobody(t *testing.T) {
	f := newFake()
	for i := range 3000 {
		f.set(held(fmt.Sprintf("%s-%d", strings.Repeat("long", 40), i), "one:1"))
	}
	s, ts := serve(t, f, Options{})
	var slow []net.Conn
	for range 4 {
		conn, err := net.Dial("tcp", ts.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n") // and it never reads
		require.NoError(t, err)
		slow = append(slow, conn)
	}
	b := connect(t, ts.URL+"/events")
	require.Equal(t, 3000, len(whole(b).Rows))
	for i := range 3 {
		f.set(held(fmt.Sprint("new-", i), "one:1"))
		require.Equal(t, 1, len(next[rowsEvent](b, "rows").Rows))
	}
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		require.Fail(t, "Close waits for browsers that do not read")
	}
	require.Len(t, slow, 4)
	resp, err := http.Get(ts.URL + "/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
}

func TestNoMoreThanTheFirstRows(t *testing.T) {
	f := newFake()
	for i := range maxRows + 1 {
		f.set(held(fmt.Sprint("lock-", i), "one:1"))
	}
	_, ts := serve(t, f, Options{})
	b := connect(t, ts.URL+"/events")
	all := whole(b)
	assert.Equal(t, maxRows, len(all.Rows)) // Len would print them
	assert.True(t, all.Cut)
}

func TestHugeNamesAreBounded(t *testing.T) {
	f := newFake()
	for i := range 300 {
		f.set(held(fmt.Sprintf("%03d%s", i, strings.Repeat("\xff", 64<<10)), "one:1"))
	}
	_, ts := serve(t, f, Options{AllowFree: true, Token: "secret"})
	b := connect(t, ts.URL+"/events")
	all := whole(b)
	assert.True(t, all.Cut)
	assert.Equal(t, 253, len(all.Rows))
	row := all.Rows[0]
	assert.True(t, strings.HasPrefix(row.ID, "~"))
	assert.Equal(t, row.Name[:3]+strings.Repeat(`\xff`, 49)+"…", row.Name)
	lock := connect(t, ts.URL+"/events?lock="+row.ID)
	e := until(lock, "lock", func(e lockEvent) bool { return e.Lock.Lock != nil })
	assert.Equal(t, 3+64<<10, e.Lock.Bytes)
	assert.Len(t, e.Lock.Lock.Holders, 1)
}

func TestLongTextsAreBounded(t *testing.T) {
	row := catalog.Row{Name: "a", Kind: catalog.Lock, Holder: strings.Repeat("h", 1<<20), Holders: 1, Client: "c", Identity: &rlock.Identity{
		Service: strings.Repeat("\x00", 1<<20), Host: strings.Repeat("<", 1<<20),
	}}
	one := newSighting(&row, time.Now())
	assert.LessOrEqual(t, utf8.RuneCountInString(one.view.Who), maxText+1)
	view, err := json.Marshal(one.view)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(view), one.bytes())
	row.Identity.Service, row.Name = strings.Repeat("<", 1<<20), strings.Repeat(`\"`, 1<<10)
	one = newSighting(&row, time.Now())
	view, err = json.Marshal(one.view)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(view), one.bytes(), "what becomes longer as JSON is counted so")
	assert.Less(t, len(view), 3000)

	s := newState()
	s.apply([]sighting{one}, look{total: 1, begun: one.at, ended: one.at})
	s.apply(nil, look{begun: one.at, ended: one.at})
	assert.LessOrEqual(t, utf8.RuneCountInString(s.histories.tracks[one.view.ID].holds[0].Who), maxPast+1)
	for i := range 40 { // long names of locks that are gone
		row.Name = fmt.Sprint(i, strings.Repeat("n", 1<<20))
		one := newSighting(&row, time.Now())
		s.apply([]sighting{one}, look{total: 1, begun: one.at, ended: one.at})
	}
	assert.LessOrEqual(t, s.histories.names, maxBytes)
	assert.Less(t, len(s.histories.tracks), 20)
}

func TestOneBadLockMakesNoOtherStale(t *testing.T) {
	f := newFake(held("good", "one:1"), held("bad", "one:1"))
	f.bad = map[string]error{"bad": errors.New("WRONGTYPE Operation against a key")}
	_, ts := serve(t, f, Options{})
	good, bad := connect(t, ts.URL+"/events?lock="+idOf("good")), connect(t, ts.URL+"/events?lock="+idOf("bad"))
	e := until(bad, "lock", func(e lockEvent) bool { return e.Lock.Stale != 0 })
	assert.True(t, e.Lock.Alone)
	assert.Contains(t, e.Lock.Why, "WRONGTYPE")
	e = until(good, "lock", func(e lockEvent) bool { return e.Lock.Lock != nil })
	f.set(catalog.Row{Name: "good", Kind: catalog.Lock, Holder: "two:1", Client: "two", Holders: 1, Lease: time.Minute})
	for e.Lock.Lock.Holders[0].Who != "two:1" {
		assert.Zero(t, e.Lock.Stale)
		e = next[lockEvent](good, "lock")
	}
	assert.True(t, isAway(fmt.Errorf("read: %w", rlock.ErrUnavailable)))
	f.set(held("bad", "two:1"))
	f.mu.Lock()
	f.bad = nil
	f.mu.Unlock()
	until(bad, "lock", func(e lockEvent) bool { return e.Lock.Stale == 0 && !e.Lock.Alone && e.Lock.Lock != nil })
}

func TestTheViewOfOneLock(t *testing.T) {
	row := held("orders", "0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00:7")
	row.Client = "0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00"
	row.Waiters = 2
	f := newFake(row)
	_, ts := serve(t, f, Options{})
	b := connect(t, ts.URL+"/events?lock="+idOf("orders"))
	e := until(b, "lock", func(e lockEvent) bool { return e.Lock.Lock != nil && len(e.Lock.History) > 0 })
	assert.Equal(t, "orders", e.Lock.Name)
	require.Len(t, e.Lock.Lock.Holders, 1)
	h := e.Lock.Lock.Holders[0]
	assert.Equal(t, "0b5e7a52:7", h.Who)
	assert.Equal(t, refOf(row.Holder), h.Ref)
	assert.True(t, h.Before)
	assert.Len(t, e.Lock.Lock.Waiters, 2)

	row.Holder, row.Client, row.Waiters = "other:1", "other", 1
	row.Identity = &rlock.Identity{Service: "billing", Host: "node-1", PID: 42}
	f.set(row)
	e = until(b, "lock", func(e lockEvent) bool { return len(e.Lock.History) == 2 && e.Lock.Lock.Holders[0].Named })
	assert.Equal(t, "billing@node-1 (pid 42)", e.Lock.Lock.Holders[0].Who)
	assert.False(t, e.Lock.Lock.Holders[0].Before)
	assert.NotZero(t, e.Lock.History[0].End)
	assert.Zero(t, e.Lock.History[1].End)

	f.remove("orders")
	e = until(b, "lock", func(e lockEvent) bool { return e.Lock.Read && e.Lock.Lock == nil && e.Lock.History[1].End != 0 })
	assert.Len(t, e.Lock.History, 2)
}

func TestPermitsAreFreedOneByOne(t *testing.T) {
	f := newFake(catalog.Row{Name: "orders", Kind: catalog.Semaphore, Holder: "permit-1", Holders: 1, Lease: time.Minute, Free: 3})
	s := New(f, Options{AllowFree: true, Token: "secret"})
	defer s.Close()
	assert.Equal(t, http.StatusConflict, do(s, http.MethodPost, "/free", freeing(refOf("permit-2")), honest()).Code)
	assert.Equal(t, http.StatusOK, do(s, http.MethodPost, "/free", freeing(refOf("permit-1")), honest()).Code)
}

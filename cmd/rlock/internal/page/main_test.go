package page

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

func TestMain(m *testing.M) {
	code := m.Run()
	endChromium()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// fake is a source whose content a test sets.
type fake struct {
	mu    sync.Mutex
	rows  map[string]catalog.Row
	ends  map[string]time.Time // of the leases, which run down
	err   error
	freed []string
	looks int
	bad   map[string]error // of single locks, by their names
	hang  chan struct{}    // if not nil, looks wait for it
}

var _ Source = (*fake)(nil)

func newFake(rows ...catalog.Row) *fake {
	f := &fake{rows: make(map[string]catalog.Row), ends: make(map[string]time.Time)}
	f.set(rows...)
	return f
}

func (f *fake) set(rows ...catalog.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range rows {
		f.rows[row.Name] = row
		f.ends[row.Name] = time.Now().Add(row.Lease)
	}
}

func (f *fake) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rows, name)
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

func (f *fake) Find(ctx context.Context, by catalog.Filter) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		f.mu.Lock()
		f.looks++
		var rows []catalog.Row
		for _, row := range f.rows {
			if strings.HasPrefix(row.Name, by.Prefix) && strings.Contains(row.Name, by.Text) && row.Waiters >= by.Waiting && (by.Kind == "" || by.Kind == row.Kind) {
				row.Lease = f.left(row)
				rows = append(rows, row)
			}
		}
		err, hang := f.err, f.hang
		f.mu.Unlock()
		if hang != nil {
			select {
			case <-hang:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		for _, row := range rows {
			if err == nil && !yield(row, nil) {
				return
			}
		}
		if err != nil {
			yield(catalog.Row{}, err)
		}
	}
}

// left returns what is left of a lease.
func (f *fake) left(row catalog.Row) time.Duration {
	if row.Lease < 0 {
		return row.Lease // it has none
	}
	return max(0, time.Until(f.ends[row.Name]))
}

func (f *fake) Row(_ context.Context, name string) (*catalog.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row, ok := f.rows[name]
	if !ok || f.err != nil {
		return nil, f.err
	}
	row.Lease = f.left(row)
	return &row, nil
}

func (f *fake) Show(_ context.Context, name string) (*catalog.Details, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row, ok := f.rows[name]
	if err := cmp.Or(f.err, f.bad[name]); !ok || err != nil {
		return nil, err
	}
	row.Lease = f.left(row)
	d := &catalog.Details{Row: row, At: time.Now()}
	if row.Holders > 0 {
		h := rlock.HolderInfo{Holder: row.Holder, Client: row.Client, Lease: row.Lease, Identity: row.Identity, Kept: row.Kept}
		if row.Kind != catalog.Semaphore && !row.Kept {
			h.Acquisitions = 1
		}
		d.HolderList = []rlock.HolderInfo{h}
	}
	for i := range row.Waiters {
		d.WaiterList = append(d.WaiterList, rlock.WaiterInfo{Client: fmt.Sprint("waiter-", i)})
	}
	return d, nil
}

func (f *fake) Free(_ context.Context, name string, holders ...string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row, ok := f.rows[name]
	if f.err != nil || !ok || !slices.Equal(holders, []string{row.Holder}) {
		return false, f.err
	}
	delete(f.rows, name)
	f.freed = append(f.freed, name)
	return true, nil
}

var errAway = errors.New("connection refused")

func held(name, holder string) catalog.Row {
	client, _, _ := strings.Cut(holder, ":")
	return catalog.Row{Name: name, Kind: catalog.Lock, Holder: holder, Client: client, Holders: 1, Lease: 30 * time.Second}
}

// serve starts a page that ends with the test.
func serve(tb testing.TB, source Source, opts Options) (*Server, *httptest.Server) {
	tb.Helper()
	s := New(source, opts)
	ts := httptest.NewServer(s)
	tb.Cleanup(func() {
		s.Close()
		ts.Close()
	})
	return s, ts
}

// reader reads the events of a stream.
type reader struct {
	tb     testing.TB
	events chan event
	close  func()
}

type event struct {
	name string
	data []byte
}

func connect(tb testing.TB, url string) *reader {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(tb, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(tb, err)
	require.Equal(tb, http.StatusOK, resp.StatusCode)
	require.Equal(tb, "text/event-stream", resp.Header.Get("Content-Type"))
	b := &reader{tb: tb, events: make(chan event, 1000)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(b.events)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		var e event
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			line = strings.TrimSuffix(line, "\n")
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.data = []byte(data)
			} else if line == "" {
				b.events <- e
			}
		}
	}()
	b.close = sync.OnceFunc(func() { cancel(); <-ended })
	tb.Cleanup(b.close)
	return b
}

// next returns the next event of a name as T. Others are passed over.
func next[T any](b *reader, name string) T {
	b.tb.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case e, ok := <-b.events:
			require.True(b.tb, ok, "the stream has ended")
			if e.name == name {
				var v T
				require.NoError(b.tb, json.Unmarshal(e.data, &v))
				return v
			}
		case <-timeout:
			require.Fail(b.tb, "no event "+name)
		}
	}
}

// until reads events of a name until one is as wanted.
func until[T any](b *reader, name string, wanted func(T) bool) T {
	b.tb.Helper()
	for {
		if v := next[T](b, name); wanted(v) {
			return v
		}
	}
}

// rowsEvent and lockEvent are the events as browsers read them.
type rowsEvent struct {
	Now, Stale int64
	All, Cut   bool
	Part       bool
	Total      int
	Unread     bool
	Why        string
	Rows       []rowView
	Gone       []string
}

type lockEvent struct {
	Lock pageView
}

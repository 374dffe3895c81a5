package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

const (
	// beat is how often a stream says that it is alive, if there is nothing to say.
	beat = 5 * time.Second
	// slow is for how long a browser may take no data before its stream is ended. It connects anew, and gets a snapshot.
	slow = 30 * time.Second
)

// hello is the first event of each stream.
type hello struct {
	Now    int64  `json:"now"`
	Title  string `json:"title"`
	Where  string `json:"where"`
	Prefix string `json:"prefix"`
	Max    int    `json:"max"`
	Free   bool   `json:"free,omitempty"`
}

// serveEvents sends the rows, with the parameters of a filter those that fit it, or with a parameter lock the one lock that has this id, until
// the request or the server ends.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	id, filter := query.Get("lock"), catalog.Filter{
		Prefix: s.opts.Prefix, Text: query.Get("q"), Kind: catalog.Kind(query.Get("kind")), Holder: query.Get("holder"),
	}
	filter.Waiting, _ = strconv.Atoi(query.Get("waiting"))
	if len(r.URL.RawQuery) > 3*maxQuery || len(filter.Text) > maxQuery {
		http.Error(w, "the filter is too long", http.StatusBadRequest)
		return
	}
	if query.Has("lock") {
		filter = s.all.filter
		name, known, ok := nameOf(id)
		if !ok || known && !strings.HasPrefix(name, s.opts.Prefix) {
			http.Error(w, "no such lock is shown here", http.StatusNotFound)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for a proxy that would collect the events
	if r.Method == http.MethodHead {
		return
	}
	if !s.enter() {
		http.Error(w, "too many pages are open, or the server ends", http.StatusServiceUnavailable)
		return
	}
	defer s.exit()
	l, leave := s.list(filter)
	if l == nil {
		http.Error(w, "too many filters are in use", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	st := &stream{state: l.state, id: id, sent: make(map[string]*rowView), w: w, out: http.NewResponseController(w)}
	// A write that hangs ends with the server too.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.stop:
			cancel()
			st.abort()
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-ended }()

	wake := make(chan struct{}, 1)
	defer l.state.follow(wake)()
	if id != "" {
		defer l.state.watch(id)()
		defer s.detail.join()()
	}
	greeting := hello{
		Now: time.Now().UnixMilli(), Title: s.opts.Title, Where: s.opts.Where, Prefix: printable(s.opts.Prefix), Max: maxRows, Free: s.opts.AllowFree,
	}
	if st.send("hello", greeting) == nil {
		st.run(ctx, wake)
	}
}

// enter counts a stream, unless there are too many. Then exit must follow.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open == maxStreams {
		return false
	}
	s.open++
	s.streams.Add(1)
	return true
}

func (s *Server) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.streams.Done()
}

// stream is what one browser follows.
type stream struct {
	state *state
	id    string // of the lock, or empty for the rows
	w     http.ResponseWriter
	out   *http.ResponseController

	version uint64              // that the browser knows
	sent    map[string]*rowView // the rows that it has
	said    difference          // the rest of what it knows
	last    []byte              // what it knows of the lock

	mu      sync.Mutex
	aborted bool
}

func (st *stream) run(ctx context.Context, wake <-chan struct{}) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		var err error
		if st.id == "" {
			err = st.rows()
		} else {
			err = st.lock()
		}
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-ticker.C:
			if st.send("beat", map[string]int64{"now": time.Now().UnixMilli()}) != nil {
				return
			}
		}
	}
}

// rows sends what has changed in the table.
func (st *stream) rows() error {
	d, version := st.state.since(st.version, st.sent)
	if d == nil {
		return nil
	}
	st.version = version
	rest := *d
	rest.All, rest.Rows, rest.Gone, rest.read, rest.took = false, nil, nil, time.Time{}, 0
	if !d.All && len(d.Rows)+len(d.Gone) == 0 && reflect.DeepEqual(rest, st.said) {
		return nil // only the view of a lock has changed
	}
	st.said = rest
	return st.send("rows", struct {
		Now int64 `json:"now"`
		*difference
	}{time.Now().UnixMilli(), d})
}

// lock sends the lock, if it has changed.
func (st *stream) lock() error {
	view, err := json.Marshal(st.state.page(st.id))
	if err != nil || bytes.Equal(view, st.last) {
		return err
	}
	st.last = view
	return st.send("lock", struct {
		Now  int64           `json:"now"`
		Lock json.RawMessage `json:"lock"`
	}{time.Now().UnixMilli(), view})
}

// send writes one event. JSON has no line breaks, so an event is one line of data.
func (st *stream) send(event string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	retry := ""
	if event == "hello" {
		retry = "retry: 1000\n" // milliseconds until the browser connects anew
	}
	st.deadline(time.Now().Add(slow), false)
	if _, err := fmt.Fprintf(st.w, "%sevent: %s\ndata: %s\n\n", retry, event, body); err != nil {
		return err
	}
	return st.out.Flush()
}

// abort ends a write that hangs, and all later ones.
func (st *stream) abort() { st.deadline(time.Now(), true) }

// deadline sets when the writes end, unless they have been ended for good.
func (st *stream) deadline(at time.Time, forGood bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.aborted {
		st.aborted = forGood
		_ = st.out.SetWriteDeadline(at) // a server that knows no deadlines ends with its requests
	}
}

package page

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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

// serveEvents sends the rows, with a parameter q those that fit this text, or with a parameter lock the one lock that has this id, until
// the request or the server ends.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	id, text := query.Get("lock"), query.Get("q")
	if len(text) > maxQuery {
		http.Error(w, "the filter is too long", http.StatusBadRequest)
		return
	}
	if query.Has("lock") {
		text = ""
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
	l, leave := s.list(text)
	if l == nil {
		http.Error(w, "too many filters are in use", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	st := &stream{state: l.state, id: id, w: w, out: http.NewResponseController(w)}
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

	version uint64 // that the browser knows
	said    [6]any // whether it is stale, why, whether it is cut, and of those that are waited for, of how many, and whether the first look goes on, as the browser knows
	last    []byte // what it knows of the lock

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
	d, body, version, err := st.state.encoded(st.version)
	if d == nil {
		return err
	}
	st.version = version
	now := [...]any{d.Stale, d.Why, d.Cut, d.Missed, d.Total, d.Part}
	if !d.All && len(d.Rows)+len(d.Gone) == 0 && now == st.said {
		return nil // only the view of a lock has changed
	}
	st.said = now
	return st.write("rows", []byte(`{"now":`+strconv.FormatInt(time.Now().UnixMilli(), 10)+","), body[1:])
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

// send writes one event.
func (st *stream) send(event string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return st.write(event, body)
}

// write writes one event, whose data may come in parts. JSON has no line breaks, so an event is one line of data.
func (st *stream) write(event string, parts ...[]byte) error {
	head := "event: " + event + "\ndata: "
	if event == "hello" {
		head = "retry: 1000\n" + head // milliseconds until the browser connects anew
	}
	st.deadline(time.Now().Add(slow), false)
	for _, part := range slices.Concat([][]byte{[]byte(head)}, parts, [][]byte{[]byte("\n\n")}) {
		if _, err := st.w.Write(part); err != nil {
			return err
		}
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

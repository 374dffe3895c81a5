package page

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// patience is for how long a look may take before what is shown counts as stale, unless earlier looks took longer.
const patience = 3 * time.Second

// noAnswer is what is said then.
const noAnswer = "Redis does not answer"

// watch counts a status as stale if a look takes too long, until the returned function is called.
func (s *Server) watch(of *status) (stop func() bool) {
	timer := time.AfterFunc(max(patience, rest*s.state.latest(of)), func() { s.state.fail(of, noAnswer) })
	return timer.Stop
}

// readTable reads the rows once.
func (s *Server) readTable(ctx context.Context) {
	s.state.resume()
	defer s.watch(&s.state.table)()
	begun := time.Now()
	var (
		seen  []sighting
		bytes int
		cut   bool
		names = make(map[string]bool)
	)
	for row, err := range s.source.Rows(ctx, s.opts.Prefix) {
		if err != nil {
			s.failed(ctx, &s.state.table, "list the locks", err)
			return
		}
		if names[row.Name] {
			continue
		}
		one := newSighting(&row, time.Now())
		if bytes += one.bytes(); len(seen) == maxRows || bytes > maxBytes {
			cut = true
			break
		}
		names[row.Name] = true
		seen = append(seen, one)
	}
	if ctx.Err() == nil {
		s.state.apply(seen, cut, begun, time.Now())
	}
}

// readDetails reads, once, the locks that browsers look at.
func (s *Server) readDetails(ctx context.Context) {
	defer s.watch(&s.state.detail)()
	begun := time.Now()
	var failure error
	for id, name := range s.state.watching() {
		details, err := s.source.Show(ctx, name)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !isAway(err) {
				s.failedOne(ctx, id, err)
			} else if failure = err; time.Since(begun) > patience {
				break
			}
			continue
		}
		s.state.applyDetails(id, details, time.Now())
	}
	if failure != nil {
		s.failed(ctx, &s.state.detail, "show a lock", failure)
		return
	}
	s.state.sawDetails(begun, time.Now())
}

// failed notes that a look failed. That it was ended from within is no failure.
func (s *Server) failed(ctx context.Context, of *status, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	why := printable(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		why = noAnswer
	}
	if s.state.fail(of, why) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "rlock ui: Redis could not be read", slog.String("what", what), slog.String("error", why))
	}
}

// isAway reports whether an error is about Redis as a whole, and not about one lock.
func isAway(err error) bool {
	var network net.Error
	return errors.Is(err, rlock.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout)
}

// failedOne notes that one lock could not be read.
func (s *Server) failedOne(ctx context.Context, id string, err error) {
	why := printable(err.Error())
	if s.state.failOne(id, why) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "rlock ui: a lock could not be read", slog.String("error", why))
	}
}

// watched is a lock at which browsers look.
type watched struct {
	name    string
	known   bool // or the name is to be looked up
	streams int
	read    bool // there has been a look
	found   bool
	details lockView
	marked  time.Time // when a look made the holders' marks last
	status            // of this lock alone
}

// watch adds a stream that follows a lock.
func (s *state) watch(id string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[id]
	if w == nil {
		name, known, _ := nameOf(id)
		w = &watched{name: name, known: known}
		s.watched[id] = w
	}
	w.streams++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.streams--; w.streams == 0 {
			delete(s.watched, id)
		}
	}
}

// watching returns the names of the locks that browsers look at, by id.
func (s *state) watching() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make(map[string]string, len(s.watched))
	for id, w := range s.watched {
		if t := s.histories.tracks[id]; !w.known && t != nil {
			w.name, w.known = t.name, true
		}
		if w.known {
			names[id] = w.name
		}
	}
	return names
}

// name returns the name of an id, if it is known.
func (s *state) name(id string) (name string, ok bool) {
	name, known, ok := nameOf(id)
	if known || !ok {
		return name, ok
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.histories.tracks[id]
	if t == nil {
		return "", false
	}
	return t.name, true
}

// applyDetails takes over what Redis has of one lock; nil is nothing.
func (s *state) applyDetails(id string, details *catalog.Details, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[id]
	if w == nil {
		return
	}
	first := !recent(w.marked, at)
	w.marked = at
	w.good(at)
	w.read, w.found, w.details = true, details != nil, lockView{}
	t := s.histories.tracks[id]
	if details == nil {
		if t != nil {
			t.keep(func(string) bool { return false })
		}
	} else {
		if t == nil {
			t = s.histories.of(id, details.Name)
			t.last = at
			s.histories.prune()
		}
		w.details = t.view(details, at, first)
	}
	s.version++
	s.wake()
}

// failOne notes that one lock could not be read, and reports whether that is new.
func (s *state) failOne(id, why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[id]
	if w == nil || w.Stale != 0 && w.Why == why {
		return false
	}
	w.bad(time.Now(), why)
	s.version++
	s.wake()
	return true
}

// sawDetails notes that all locks have been read that browsers look at.
func (s *state) sawDetails(begun, ended time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.detail.Stale
	s.detail.good(ended)
	s.detail.took = ended.Sub(begun)
	if was != 0 {
		s.version++
		s.wake()
	}
}

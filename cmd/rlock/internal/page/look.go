package page

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// patience is for how long a look may take before what is shown counts as stale, unless earlier looks took longer.
const patience = 3 * time.Second

// noAnswer is what is said then.
const noAnswer = "Redis does not answer"

// watch counts a status as stale if a look takes too long, or longer than that until it goes on, until stop is called.
func (s *Server) watch(of *state, status *status) (goesOn func(now time.Time), stop func() bool) {
	after := max(patience, rest*of.latest(status))
	last := time.Now()
	timer := time.AfterFunc(after, func() { of.fail(status, noAnswer) })
	return func(now time.Time) {
		if now.Sub(last) > after/rest { // and not for each row
			last = now
			timer.Reset(after)
		}
	}, timer.Stop
}

// readDetails reads, once, the locks that browsers look at.
func (s *Server) readDetails(ctx context.Context) {
	_, stop := s.watch(s.all.state, &s.all.state.detail)
	defer stop()
	if !s.checked(ctx, s.all.state, &s.all.state.detail) {
		return
	}
	begun := time.Now()
	var failure error
	for id, name := range s.all.state.watching() {
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
		s.all.state.applyDetails(id, details, time.Now())
	}
	if failure != nil {
		s.failed(ctx, s.all.state, &s.all.state.detail, "show a lock", failure)
		return
	}
	s.all.state.sawDetails(begun, time.Now())
}

// failed notes that a look failed. That it was ended from within is no failure.
func (s *Server) failed(ctx context.Context, in *state, of *status, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	why := printable(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		why = noAnswer
	}
	if in.fail(of, why) {
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
	if s.all.state.failOne(id, why) {
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
	status  // of this lock alone
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
		if w.streams--; w.streams > 0 {
			return
		}
		delete(s.watched, id)
		if t := s.histories.tracks[id]; t != nil && t.here && s.rows[id] == nil { // nobody looks at it any more
			s.histories.leave(t, t.last, false)
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

// learn remembers the names of locks that have long ones, so that they are known when browsers look at them.
func (s *state) learn(seen []sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range seen {
		if id := seen[i].view.ID; len(seen[i].name) > maxPlainID && s.histories.tracks[id] == nil {
			s.histories.of(id, seen[i].name).last = seen[i].at
		}
	}
	s.histories.prune()
}

// applyDetails takes over what Redis has of one lock; nil is nothing.
func (s *state) applyDetails(id string, details *catalog.Details, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[id]
	if w == nil {
		return
	}
	t := s.histories.of(id, w.name)
	last := t.last
	if !s.cut && s.looked.After(last) {
		last = s.looked // a look at all of them would have seen it
	}
	sharp := recent(last, at)
	t.looked.add(at, at, blind)
	w.good(at)
	w.read, w.found, w.details = true, details != nil, lockView{}
	if details == nil || details.Kind == catalog.Counter {
		s.histories.leave(t, at, sharp)
		t.last = at
	} else {
		s.histories.arrive(t, at)
	}
	if details != nil {
		w.details = s.details(details, t, at, sharp)
	}
	s.histories.prune()
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

package page

import (
	"context"
	"strings"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

const (
	// maxSearches is how many texts may be searched for at a time, and maxQuery how long each may be, in bytes.
	maxSearches = 8
	maxQuery    = 1024
)

// list is a table of the rows that fit a filter, or of all. All browsers that show the same share it.
type list struct {
	filter catalog.Filter
	state  *state
	poller *poller
	users  int // of a search, under the server's mutex
}

// list returns the list of a filter for one more user, until leave is called. It returns nil if there are too many searches.
func (s *Server) list(filter catalog.Filter) (l *list, leave func()) {
	if filter == s.all.filter {
		s.all.state.resume()
		return s.all, s.all.poller.join()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.searches[filter]
	if l == nil {
		if len(s.searches) == maxSearches {
			return nil, nil
		}
		l = &list{filter: filter, state: newState()}
		l.poller = newPoller(s.pace, func(ctx context.Context) { s.readExact(ctx, l) }, func(ctx context.Context) { s.read(ctx, l) })
		s.searches[filter] = l
	}
	l.users++
	end := l.poller.join()
	return l, func() {
		end()
		s.mu.Lock()
		if l.users--; l.users == 0 {
			delete(s.searches, filter)
		}
		s.mu.Unlock()
		l.poller.wait() // does nothing while there are others
	}
}

// readExact reads the lock that has exactly the name that is searched for. It takes a few commands, so it need not wait for its turn.
func (s *Server) readExact(ctx context.Context, l *list) {
	if f := l.filter; !strings.HasPrefix(f.Text, s.opts.Prefix) || f.Text == "" || f != (catalog.Filter{Prefix: f.Prefix, Text: f.Text}) {
		return
	}
	begun := time.Now()
	row, err := s.source.Row(ctx, l.filter.Text)
	if row == nil || err != nil || ctx.Err() != nil { // the first look will say what is wrong
		return
	}
	one := newSighting(row, time.Now())
	l.state.apply([]sighting{one}, look{total: 1, part: true, begun: begun, ended: time.Now()})
}

// read reads the rows of a list once. What the first look finds is shown as it comes.
func (s *Server) read(ctx context.Context, l *list) {
	l.state.resume()
	goesOn, stop := s.watch(l.state, &l.state.table)
	defer stop()
	begun := time.Now()
	if !s.checked(ctx, l.state, &l.state.table) {
		return
	}
	k, shown, first := selection{names: make(map[string]bool)}, begun, !l.state.complete()
	for row, err := range s.source.Find(ctx, l.filter) {
		if err != nil {
			s.failed(ctx, l.state, &l.state.table, "list the locks", err)
			return
		}
		now := time.Now()
		goesOn(now)
		k.add(&row, now)
		if first && now.Sub(shown) > every {
			l.state.apply(k.all(), look{total: k.total, missed: k.missed, part: true, begun: begun, ended: now})
			shown = now
		}
	}
	if ctx.Err() != nil {
		return
	}
	seen := k.all()
	l.state.apply(seen, look{total: k.total, missed: k.missed, begun: begun, ended: time.Now()})
	if l != s.all {
		s.all.state.learn(seen)
	}
}

// checked reports whether what Redis has may be shown, and notes the warning about it.
func (s *Server) checked(ctx context.Context, in *state, of *status) bool {
	if s.opts.Check == nil {
		return true
	}
	note, err := s.opts.Check(ctx)
	if err != nil {
		s.failed(ctx, in, of, "check Redis", err)
		return false
	}
	in.noted(note)
	return true
}

// selection are the rows of a look that are kept: those that somebody waits for, all of them if there is room, and the first of the others.
type selection struct {
	names          map[string]bool
	waited, others []sighting
	bytes          int  // of both
	full           bool // no other is kept any more
	missed         bool // not all that somebody waits for are kept
	total          int  // how many rows there are
}

func (k *selection) add(row *catalog.Row, now time.Time) {
	if k.names[row.Name] {
		return
	}
	k.total++
	if row.Waiters == 0 && k.full {
		return
	}
	one := newSighting(row, now)
	size := one.bytes()
	if row.Waiters == 0 {
		if k.full = len(k.others) == maxRows || k.bytes+size > maxBytes; k.full {
			return
		}
		k.others = append(k.others, one)
	} else {
		for k.bytes+size > maxBytes && len(k.others) > 0 {
			last := &k.others[len(k.others)-1]
			delete(k.names, last.name)
			k.bytes -= last.bytes()
			k.others, k.full = k.others[:len(k.others)-1], true
		}
		if k.bytes+size > maxBytes {
			k.missed = true
			return
		}
		k.waited = append(k.waited, one)
	}
	k.names[row.Name] = true
	k.bytes += size
}

// all returns the rows that are kept.
func (k *selection) all() []sighting {
	return append(append(make([]sighting, 0, len(k.waited)+len(k.others)), k.waited...), k.others...)
}

package page

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

const (
	// maxRows is how many rows are kept, and maxBytes how long they may be together, with their whole names.
	maxRows  = 5000
	maxBytes = 16 << 20
)

// rowView is a row as browsers get it. Rows that are equal make no traffic.
type rowView struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Mode    string `json:"mode,omitempty"`
	Who     string `json:"who,omitempty"`
	Named   bool   `json:"named,omitempty"` // whether Who is an identity
	Holders int    `json:"holders"`
	Waiters int    `json:"waiters"`
	waiting
	Kept   bool   `json:"kept,omitempty"`
	Since  int64  `json:"since,omitempty"`
	Before bool   `json:"before,omitempty"`
	Token  string `json:"token,omitempty"` // a text: scripts count exactly up to 2^53 only
	Free   int    `json:"free,omitempty"`
	lease
}

// waiting says what the waiters are that are counted: calls, or processes. Processes is of how many of them the calls are, or 0 if that is
// not known.
type waiting struct {
	Calls     bool `json:"calls,omitempty"`
	Processes int  `json:"processes,omitempty"`
}

func waitingOf(row *catalog.Row) waiting {
	calls, processes := row.Waiting()
	return waiting{calls >= 0, max(0, processes)}
}

// status says whether Redis can be read.
type status struct {
	// Stale is since when it cannot, or 0: then what is shown is as it was at that time.
	Stale int64  `json:"stale,omitempty"`
	Why   string `json:"why,omitempty"`
	// Note is a warning about what is read.
	Note string `json:"note,omitempty"`

	read time.Time     // when it could last
	took time.Duration // how long that took
}

// good notes a read that succeeded, and bad one that did not.
func (s *status) good(at time.Time) { s.Stale, s.Why, s.read = 0, "", at }

func (s *status) bad(at time.Time, why string) {
	if s.read.IsZero() {
		s.read = at
	}
	s.Stale, s.Why = s.read.UnixMilli(), why
}

// state is what has been read, and what is remembered of earlier reads. Browsers follow it by its version.
type state struct {
	mu        sync.Mutex
	version   uint64
	rows      map[string]*rowView // by id; a row that changes is another one
	cut       bool                // there are more rows than are kept
	missed    bool                // some of those are waited for
	total     int                 // how many rows there are
	ready     bool                // there has been a look, or a part of one
	partial   bool                // the first look goes on
	table     status
	detail    status
	looked    time.Time // when the latest good look began
	spans     spans     // in which there were looks at all rows
	histories histories
	watched   map[string]*watched
	wakes     map[chan struct{}]struct{}
}

func newState() *state {
	return &state{
		rows: make(map[string]*rowView), watched: make(map[string]*watched), wakes: make(map[chan struct{}]struct{}),
		histories: histories{tracks: make(map[string]*track)},
	}
}

// difference is what a browser does not know yet. All means that it must forget what it knows.
type difference struct {
	All bool `json:"all,omitempty"`
	// Cut means that there are more rows than are sent, which are Total. Missed means that some of those are waited for. Part means that the
	// first look goes on.
	Cut    bool `json:"cut,omitempty"`
	Missed bool `json:"missed,omitempty"`
	Part   bool `json:"part,omitempty"`
	Total  int  `json:"total"`
	// Unread means that nothing has been read yet, because Redis is away.
	Unread bool       `json:"unread,omitempty"`
	Rows   []*rowView `json:"rows"`
	Gone   []string   `json:"gone,omitempty"`
	status
}

// since returns what has changed since a version of which the browser has these rows, which become those that it has then, and the present
// version. Nil rows are for one that has none. It returns nil if nothing has changed, or if there is nothing yet.
func (s *state) since(version uint64, sent map[string]*rowView) (*difference, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == s.version || !s.ready && s.table.Stale == 0 {
		return nil, version
	}
	d := &difference{All: version == 0, Cut: s.cut, Missed: s.missed, Part: s.partial, Total: s.total, Unread: !s.ready, status: s.table, Rows: []*rowView{}}
	for id, row := range s.rows {
		if sent[id] != row {
			d.Rows = append(d.Rows, row)
			sent[id] = row
		}
	}
	for id := range sent {
		if s.rows[id] == nil {
			d.Gone = append(d.Gone, id)
			delete(sent, id)
		}
	}
	return d, s.version
}

// sighting is what is kept of a row that was read: a view of it that knows no times yet.
type sighting struct {
	at     time.Time
	name   string
	view   rowView
	key    string // of its hold
	lease  time.Duration
	permit bool
}

func newSighting(row *catalog.Row, at time.Time) sighting {
	one := sighting{at: at, name: row.Name, lease: row.Lease, permit: row.Kind == catalog.Semaphore, view: rowView{
		ID: idOf(row.Name), Name: printable(row.Name), Kind: string(row.Kind), Mode: printable(row.Mode),
		Holders: row.Holders, Waiters: row.Waiters, waiting: waitingOf(row), Kept: row.Kept, Free: row.Free,
	}}
	one.key = keyOf(refOf(row.Holder), row.Token, row.Mode)
	if row.Token > 0 {
		one.view.Token = strconv.FormatInt(int64(row.Token), 10)
	}
	if row.Holders > 0 {
		one.view.Who, one.view.Named = whoOf(row.Client, row.Holder, row.Kept, row.Identity), row.Identity != nil
	}
	return one
}

// bytes returns how much a row takes, at most, as it is kept and as it is sent.
func (one *sighting) bytes() int {
	const rest = 256 // the numbers, and the names of the fields
	v := &one.view
	return len(one.name) + len(v.ID) + sent(v.Name) + sent(v.Mode) + sent(v.Who) + rest
}

// sent returns how long a text is as JSON.
func sent(text string) int {
	const longer = 5 // that "<" is as \u003c
	return len(text) + longer*(strings.Count(text, "<")+strings.Count(text, ">")+strings.Count(text, "&")) + strings.Count(text, `"`) + strings.Count(text, `\`)
}

// look is what a look has found beside the rows.
type look struct {
	total        int  // how many rows there are, those that are not kept counted
	missed       bool // some of these are waited for
	part         bool // it goes on
	begun, ended time.Time
}

// apply takes over a look.
func (s *state) apply(seen []sighting, l look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, cut := s.version, l.total > len(seen)
	s.version++
	changed := !s.ready || s.cut != cut || s.missed != l.missed || s.total != l.total || s.partial != l.part || s.table.Stale != 0
	last := s.looked
	sharp := recent(last, l.begun)
	here := make(map[string]bool, len(seen))
	for i := range seen {
		id := seen[i].view.ID
		if here[id] {
			continue
		}
		here[id] = true
		t := s.histories.of(id, seen[i].name)
		unseen := s.cut && !t.here // the last look may only not have read it
		if cut {
			t.looked.add(seen[i].at, seen[i].at, s.gap())
		}
		view := s.see(t, &seen[i], sharp && !unseen)
		if e := s.rows[id]; e == nil || *e != view {
			s.rows[id] = &view
			changed = true
		}
	}
	if !l.part && s.gone(here, l.ended, sharp && !cut) { // it may only not have been read
		changed = true
	}
	s.histories.prune()
	s.cut, s.missed, s.total, s.ready, s.partial = cut, l.missed, l.total, true, l.part
	s.table.good(l.ended)
	if !l.part {
		s.looked, s.table.took = l.begun, l.ended.Sub(l.begun)
		if !cut {
			s.spans.add(l.begun, l.ended, s.gap())
		}
	}
	if changed {
		s.wake()
	} else {
		s.version = before
	}
}

// gone removes the rows that are not here any more, and reports whether there are any.
func (s *state) gone(here map[string]bool, at time.Time, sharp bool) (some bool) {
	for id := range s.rows {
		if !here[id] {
			some = true
			delete(s.rows, id)
			if t := s.histories.tracks[id]; t != nil && s.watched[id] == nil { // otherwise the look at it alone knows more
				s.histories.leave(t, at, sharp)
			}
		}
	}
	return some
}

// complete reports whether there has been a whole look.
func (s *state) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready && !s.partial
}

// see notes one row in the history of its lock, and returns what browsers get of it.
func (s *state) see(t *track, one *sighting, sharp bool) rowView {
	view := one.view
	s.histories.arrive(t, one.at)
	if view.Holders == 0 {
		s.histories.leave(t, one.at, sharp)
		s.histories.arrive(t, one.at)
		return view
	}
	now, detailed := t.find(one.key), s.watched[view.ID] != nil && view.Holders > 1 // then the look at it alone names all
	if now == nil || !detailed {
		s.histories.note(t, []hold{{key: one.key, named: view.Named, Who: view.Who, Mode: view.Mode}}, view.Holders == 1, one.at, sharp)
		now = t.find(one.key)
		t.partial = t.partial && (!detailed || !sharp)
	}
	if t.shown == nil || t.shown.End != 0 || t.holders != view.Holders { // the row would change with each look otherwise
		t.shown, t.holders = now, view.Holders
	}
	view.Who, view.Named, view.Since, view.Before = t.shown.Who, t.shown.named, t.shown.Start, t.shown.Before
	if view.Holders == 1 || one.permit {
		now.lease.settle(one.lease, one.at)
		view.lease = now.lease
	} else {
		t.lease.settle(one.lease, one.at)
		view.lease = t.lease
	}
	return view
}

// fail notes that Redis could not be read, in one of the two statuses. It reports whether that is new. The first reason stays until
// Redis can be read, because others may differ in nothing but a port. Only that it does not answer gives way to an error.
func (s *state) fail(of *status, why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.Stale != 0 && of.Why != "" && (of.Why != noAnswer || why == noAnswer) {
		return false
	}
	of.bad(time.Now(), why)
	s.version++
	s.wake()
	return true
}

// latest returns how long the latest good look took.
func (s *state) latest(of *status) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of.took
}

// gap is how long a pause between looks may be.
func (s *state) gap() time.Duration { return blind + 2*rest*s.table.took }

// resume is for the first look after a time without any: nothing of what was seen before is shown.
func (s *state) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || s.table.Stale != 0 || time.Since(s.table.read.Round(0)) <= s.gap() {
		return
	}
	s.ready, s.rows = false, make(map[string]*rowView)
	for _, t := range s.histories.tracks {
		if t.here {
			s.histories.leave(t, s.looked, false)
		}
	}
	s.histories.prune()
	s.version++
}

// noted takes over a warning about what is read.
func (s *state) noted(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table.Note != note {
		s.table.Note = note
		s.version++
		s.wake()
	}
}

// wake tells all streams that there is something new.
func (s *state) wake() {
	for wake := range s.wakes {
		select {
		case wake <- struct{}{}:
		default: // it has not even seen the last one
		}
	}
}

// follow registers a stream.
func (s *state) follow(wake chan struct{}) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakes[wake] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wakes, wake)
	}
}

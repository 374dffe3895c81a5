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
	// maxTombs is how many rows that went are remembered for browsers that have not heard of it.
	maxTombs = 4096
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
	Ends   int64  `json:"ends,omitempty"`
	Full   int64  `json:"full,omitempty"`
	Token  string `json:"token,omitempty"` // a text: scripts count exactly up to 2^53 only
	Free   int    `json:"free,omitempty"`
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

type entry struct {
	view    rowView
	changed uint64
}

type tomb struct {
	id      string
	version uint64
}

// state is what has been read, and what is remembered of earlier reads. Browsers follow it by its version: what has changed since the one
// that a browser knows can be told at any time, so nothing queues up for a slow one.
type state struct {
	mu        sync.Mutex
	version   uint64
	rows      map[string]*entry // by id
	tombs     []tomb
	forgotten uint64 // rows that went in this version or before are not remembered
	cut       bool   // there are more rows than are kept
	missed    bool   // some of those are waited for
	total     int    // how many rows there are
	ready     bool   // there has been a look, or a part of one
	partial   bool   // the first look goes on
	table     status
	detail    status
	looked    time.Time // when the latest good look began
	histories histories
	watched   map[string]*watched
	wakes     map[chan struct{}]struct{}
	shared    shared
}

func newState() *state {
	return &state{
		rows: make(map[string]*entry), watched: make(map[string]*watched), wakes: make(map[chan struct{}]struct{}),
		histories: histories{tracks: make(map[string]*track)},
	}
}

// sighting is what is kept of a row that was read: a view of it that knows no times yet.
type sighting struct {
	at    time.Time
	name  string
	view  rowView
	ref   string // of the holder
	key   string // of its hold
	lease time.Duration
}

func newSighting(row *catalog.Row, at time.Time) sighting {
	one := sighting{at: at, name: row.Name, ref: refOf(row.Holder), lease: row.Lease, view: rowView{
		ID: idOf(row.Name), Name: printable(row.Name), Kind: string(row.Kind), Mode: printable(row.Mode),
		Holders: row.Holders, Waiters: row.Waiters, waiting: waitingOf(row), Kept: row.Kept, Free: row.Free,
	}}
	one.key = keyOf(one.ref, row.Token, row.Holders)
	if row.Token > 0 {
		one.view.Token = strconv.FormatInt(int64(row.Token), 10)
	}
	if row.Holders > 0 {
		one.view.Who, one.view.Named = who(row.Client, row.Holder, row.Identity), row.Identity != nil
		switch {
		case row.Kept:
			one.view.Who = kept(one.view.Who)
		case row.Client == "" && row.Holder != "":
			one.view.Who = permit(row.Holder, row.Identity)
		}
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
		t := s.histories.tracks[id]
		unseen := s.cut && (t == nil || !t.here) // the last look may only not have read it
		view := s.see(&seen[i], last, sharp && !unseen)
		if e := s.rows[id]; e == nil || e.view != view {
			s.rows[id] = &entry{view: view, changed: s.version}
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
		if here[id] {
			continue
		}
		some = true
		delete(s.rows, id)
		s.tombs = append(s.tombs, tomb{id, s.version})
		if t := s.histories.tracks[id]; t != nil && s.watched[id] == nil { // otherwise the look at it alone knows more
			s.histories.leave(t, at, s.looked, sharp)
		}
	}
	if over := len(s.tombs) - maxTombs; over > 0 {
		s.forgotten = s.tombs[over-1].version
		s.tombs = append([]tomb(nil), s.tombs[over:]...)
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
func (s *state) see(one *sighting, last time.Time, sharp bool) rowView {
	view := one.view
	t := s.histories.of(view.ID, one.name)
	s.histories.arrive(t, one.at)
	if view.Holders == 0 {
		s.histories.note(t, hold{}, one.at, last, sharp)
		t.forget()
		return view
	}
	key := one.key
	if was := t.shown; view.Holders == 1 && was.ref == one.ref && was.named && !view.Named {
		view.Who, view.Named = was.who, true // Redis has not told, or has forgotten who it is
	}
	now := hold{key: key, Who: view.Who, Mode: view.Mode, Count: view.Holders}
	if view.Holders == 1 {
		m := t.see(key, one.at, !sharp || t.shown.holders > 1) // it may have been one of those before
		t.keep(func(other string) bool { return other == key })
		t.held, t.shown = *m, shown{one.ref, view.Who, view.Named, 1, view.Mode, one.at}
	} else {
		if t.held.Since == 0 {
			t.held = *t.see(key, one.at, !sharp)
		}
		view.Who, view.Named = t.oneOf(shown{one.ref, view.Who, view.Named, view.Holders, view.Mode, one.at})
		key = several
		now.key, now.Who = view.Mode+"#"+strconv.Itoa(view.Holders), ""
	}
	s.histories.note(t, now, one.at, last, sharp)
	t.lease.settle(key, one.lease, one.at)
	view.Since, view.Before = t.held.Since, t.held.Before
	view.Ends, view.Full = t.lease.Ends, t.lease.Full
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

// resume is for the first look after a time without any: what is known is stale until it succeeds.
func (s *state) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := &s.table
	if !of.read.IsZero() && !recent(of.read, time.Now()) && of.Stale == 0 {
		of.bad(of.read, "")
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

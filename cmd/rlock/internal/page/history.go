package page

import (
	"maps"
	"slices"
	"time"
)

const (
	maxHolds = 200     // that are kept of one lock
	allHolds = 100_000 // that are kept of all locks, and one more of each
	maxGone  = 1000    // locks without a holder whose history is kept
	maxMarks = 256     // holders of one lock that are told apart
	// slack is how many more than maxGone there may be, so that they are not sorted with each look.
	slack = 250
	// maxPast is how many characters are kept of the holder of each hold.
	maxPast = 80
	// blind is for how long nobody need have looked until it is not known any more when something happened.
	blind = 3 * time.Second
)

// recent reports whether a look came so soon after another that it is known when something happened between them. While a machine sleeps,
// one of its clocks may stand still, and the other one may be set: then nobody knows.
func recent(was, now time.Time) bool {
	return !was.IsZero() && soonAfter(now.Round(0).Sub(was.Round(0)), now.Sub(was))
}

func soonAfter(wall, monotonic time.Duration) bool {
	return min(wall, monotonic) > -time.Second && max(wall, monotonic) <= blind && (wall-monotonic).Abs() <= time.Second
}

// hold is a time in which a lock had the same holder, or the same number of them.
type hold struct {
	key string

	Who    string `json:"who,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Count  int    `json:"n"`
	Start  int64  `json:"start"`
	Before bool   `json:"before,omitempty"` // it may have begun earlier than Start
	End    int64  `json:"end,omitempty"`    // 0 while it lasts
	After  bool   `json:"after,omitempty"`  // it may have ended later than End
}

// lease is when a lease ends, by the clock of this process.
type lease struct {
	ref  string
	Ends int64 `json:"ends,omitempty"` // 0 without a lease
	Full int64 `json:"full,omitempty"` // the longest that was seen of this hold
}

// settle notes what remains of a lease. If it only ran down meanwhile, nothing changes: what was measured now differs by no more than
// the time that the reply took.
func (l *lease) settle(ref string, remaining time.Duration, at time.Time) {
	if l.ref != ref {
		*l = lease{ref: ref}
	}
	if remaining < 0 {
		l.Ends, l.Full = 0, 0
		return
	}
	ends := at.Add(remaining).UnixMilli()
	tolerance := min(max(remaining/8, 150*time.Millisecond), time.Second).Milliseconds()
	if off := ends - l.Ends; -tolerance <= off && off <= tolerance {
		return
	}
	l.Ends = ends
	l.Full = max(l.Full, 1000*((remaining.Milliseconds()+999)/1000))
}

// mark is when a holder was seen for the first time.
type mark struct {
	Since  int64 `json:"since,omitempty"`
	Before bool  `json:"before,omitempty"` // it may have been there earlier
	lease  lease
}

// track is what is remembered of one lock.
type track struct {
	name  string
	holds []hold
	marks map[string]*mark // by the holder's ref
	held  mark             // since when the row has its holder, or any holder if it has several
	shown shown            // the holder that the row shows, or one of several
	lease lease            // of the row
	last  time.Time        // when it was seen last
	here  bool             // whether the latest look saw it
}

// see notes a holder, and returns since when it is known.
func (t *track) see(ref string, at time.Time, before bool) *mark {
	if m := t.marks[ref]; m != nil {
		return m
	}
	m := &mark{Since: at.UnixMilli(), Before: before}
	if len(t.marks) < maxMarks {
		t.marks[ref] = m
	}
	return m
}

// keep forgets all holders but some.
func (t *track) keep(stays func(ref string) bool) {
	maps.DeleteFunc(t.marks, func(ref string, _ *mark) bool { return !stays(ref) })
}

// forget forgets all holders.
func (t *track) forget() {
	t.held, t.shown, t.lease = mark{}, shown{}, lease{}
	clear(t.marks)
}

const (
	// several stands for the holders of a lock that has more than one.
	several = "several"
	// stays is for how long a row shows one of several holders although Redis only named others: it names any of them.
	stays = 15 * time.Second
)

// shown is a holder as a row shows it.
type shown struct {
	ref     string
	who     string
	named   bool
	holders int // how many there were
	mode    string
	at      time.Time // when it was seen last
}

// oneOf returns which of several holders the row shows, given the one that Redis named now. It is the same one as before, if that may
// still be there: the row would change with each look otherwise.
func (t *track) oneOf(now shown) (who string, named bool) {
	was := &t.shown
	if was.ref == now.ref || was.holders != now.holders || was.mode != now.mode || now.at.Sub(was.at) > stays {
		*was = now
	}
	return was.who, was.named
}

// histories are what is remembered of all locks.
type histories struct {
	tracks map[string]*track // by id
	total  int               // holds in all of them
	gone   int               // tracks that are not here
	names  int               // bytes of their names
}

// of returns the track of a lock.
func (h *histories) of(id, name string) *track {
	t := h.tracks[id]
	if t == nil {
		t = &track{name: name, marks: make(map[string]*mark)}
		h.tracks[id] = t
		h.count(t, 1)
	}
	return t
}

// note continues the history of a lock: it has this hold now, or none if the key is empty. Last is when it was looked at before that,
// and sharp means that this is not long ago.
func (h *histories) note(t *track, now hold, at, last time.Time, sharp bool) {
	now.Who = cutTo(now.Who, maxPast)
	if n := len(t.holds); n > 0 && t.holds[n-1].End == 0 {
		open := &t.holds[n-1]
		if open.key == now.key {
			open.Who = now.Who // an identity may have been read only now
			return
		}
		open.End = max(open.Start, at.UnixMilli()) // the clock may have been set
		if !sharp {
			open.End, open.After = max(open.Start, last.UnixMilli()), true
		}
	}
	if now.key == "" {
		return
	}
	now.Start, now.Before = at.UnixMilli(), !sharp
	if n := len(t.holds); n == maxHolds || n > 0 && h.total >= allHolds {
		t.holds = slices.Delete(t.holds, 0, 1)
		h.total--
	}
	t.holds = append(t.holds, now)
	h.total++
}

// arrive and leave note whether a lock is there.
func (h *histories) arrive(t *track, at time.Time) {
	if !t.here {
		t.here = true
		h.count(t, -1)
	}
	t.last = at
}

func (h *histories) leave(t *track, at, last time.Time, sharp bool) {
	if t.here {
		t.here = false
		h.count(t, 1)
	}
	h.note(t, hold{}, at, last, sharp)
	t.forget()
}

// count notes that a track is one of those that are not here, or, with -1, that it is no longer.
func (h *histories) count(t *track, n int) {
	h.gone += n
	h.names += n * len(t.name)
}

// prune forgets the locks that have been gone for longest.
func (h *histories) prune() {
	if h.gone <= maxGone+slack && h.names <= maxBytes {
		return
	}
	gone := make([]string, 0, h.gone)
	for id, t := range h.tracks {
		if !t.here {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(gone, func(a, b string) int { return h.tracks[a].last.Compare(h.tracks[b].last) })
	for _, id := range gone {
		if h.gone <= maxGone && h.names <= maxBytes/2 {
			return
		}
		h.total -= len(h.tracks[id].holds)
		h.count(h.tracks[id], -1)
		delete(h.tracks, id)
	}
}

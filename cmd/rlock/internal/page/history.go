package page

import (
	"slices"
	"time"
)

const (
	maxHolds = 200     // that are kept of one lock
	allHolds = 100_000 // that are kept of all locks, and one more of each
	maxGone  = 1000    // locks without a holder whose history is kept
	maxSpans = 100     // times without a gap that are kept
	// slack is how many more than maxGone there may be, so that they are not sorted with each look.
	slack = 250
	// maxPast is how many characters are kept of the holder of each hold that is over.
	maxPast = 80
	// blind is for how long nobody need have looked until it is not known any more when something happened.
	blind = 3 * time.Second
	// stays is for how long a holder is one of several although Redis, which names any of them, only named others.
	stays = 15 * time.Second
)

// recent reports whether a look came so soon after another that it is known when something happened between them. While a machine sleeps,
// one of its clocks may stand still, and the other one may be set: then nobody knows.
func recent(was, now time.Time) bool {
	return !was.IsZero() && soonAfter(now.Round(0).Sub(was.Round(0)), now.Sub(was))
}

func soonAfter(wall, monotonic time.Duration) bool {
	return min(wall, monotonic) > -time.Second && max(wall, monotonic) <= blind && (wall-monotonic).Abs() <= time.Second
}

// hold is a time in which one holder had a lock.
type hold struct {
	key   string
	named bool
	lease lease
	seen  time.Time // when it was seen last

	Who    string `json:"who,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Start  int64  `json:"start"`
	Before bool   `json:"before,omitempty"` // it may have begun earlier than Start
	End    int64  `json:"end,omitempty"`    // 0 while it lasts
	After  bool   `json:"after,omitempty"`  // it may have ended later than End
}

// lease is when a lease ends, by the clock of this process.
type lease struct {
	Ends    int64 `json:"ends,omitempty"`    // 0 without a lease
	Full    int64 `json:"full,omitempty"`    // the longest that was seen
	Renewed bool  `json:"renewed,omitempty"` // it has been made longer, so it is no fixed one
}

// settle notes what remains of a lease. If it only ran down meanwhile, nothing changes: what was measured now differs by no more than
// the time that the reply took.
func (l *lease) settle(remaining time.Duration, at time.Time) {
	if remaining < 0 {
		*l = lease{}
		return
	}
	ends := at.Add(remaining).UnixMilli()
	tolerance := min(max(remaining/8, 150*time.Millisecond), time.Second).Milliseconds()
	if off := ends - l.Ends; -tolerance <= off && off <= tolerance {
		return
	}
	l.Renewed = l.Renewed || l.Ends > 0 && ends > l.Ends
	l.Ends = ends
	l.Full = max(l.Full, 1000*((remaining.Milliseconds()+999)/1000))
}

// spans are times in which somebody looked, each from its begin to its end.
type spans [][2]int64

// add notes a look, which goes on where the one before has ended, unless that is longer ago than the gap.
func (s *spans) add(from, to time.Time, gap time.Duration) {
	n := len(*s)
	if n > 0 {
		if since := from.UnixMilli() - (*s)[n-1][1]; since >= -1000 && since <= gap.Milliseconds() {
			(*s)[n-1][1] = to.UnixMilli()
			return
		}
	}
	if *s = append(*s, [2]int64{from.UnixMilli(), to.UnixMilli()}); n == maxSpans {
		*s = slices.Delete(*s, 0, 1)
	}
}

// track is what is remembered of one lock.
type track struct {
	name    string
	holds   []*hold   // by their begins
	partial bool      // there were holders that the latest look did not name
	shown   *hold     // of the holder that the row shows
	holders int       // how many the row had then
	lease   lease     // of the row, if it has several holders
	looked  spans     // at this lock alone
	last    time.Time // when it was looked at last
	here    bool      // whether the latest look saw it
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
		t = &track{name: name}
		h.tracks[id] = t
		h.count(t, 1)
	}
	return t
}

// find returns the latest hold of a key that lasts, or of which it is not known when it ended.
func (t *track) find(key string) *hold {
	for _, one := range slices.Backward(t.holds) {
		if one.key == key && (one.End == 0 || one.After) {
			return one
		}
	}
	return nil
}

// note continues the history of a lock, which has these holders now. Whole means that it has no others. Sharp means that it was
// looked at not long ago.
func (h *histories) note(t *track, now []hold, whole bool, at time.Time, sharp bool) {
	several := false
	for _, one := range t.holds {
		if one.End != 0 {
			continue
		}
		several = several || t.partial
		if slices.ContainsFunc(now, func(n hold) bool { return n.key == one.key }) || !whole && len(now) > 0 && one.Mode == now[0].Mode && at.Sub(one.seen) <= stays {
			continue
		}
		one.Who, one.End = cutTo(one.Who, maxPast), max(one.Start, at.UnixMilli()) // the clock may have been set
		if !sharp || !whole || t.partial {
			one.End, one.After = max(one.Start, one.seen.UnixMilli()), true
		}
	}
	for _, n := range now {
		one := t.find(n.key)
		if one == nil {
			one = h.begin(t)
			*one = hold{key: n.key, Start: at.UnixMilli(), Before: !sharp || several}
		}
		if n.named || !one.named { // or Redis has not told, or has forgotten, who it is
			one.Who, one.named = n.Who, n.named
		}
		one.Mode, one.seen, one.End, one.After = n.Mode, at, 0, false
	}
	t.partial = !whole
}

// begin adds a hold.
func (h *histories) begin(t *track) *hold {
	if n := len(t.holds); n == maxHolds || n > 0 && h.total >= allHolds {
		t.holds = slices.Delete(t.holds, 0, 1)
		h.total--
	}
	one := new(hold)
	t.holds = append(t.holds, one)
	h.total++
	return one
}

// arrive and leave note whether a lock is there.
func (h *histories) arrive(t *track, at time.Time) {
	if !t.here {
		t.here = true
		h.count(t, -1)
	}
	t.last = at
}

func (h *histories) leave(t *track, at time.Time, sharp bool) {
	if t.here {
		t.here = false
		h.count(t, 1)
	}
	h.note(t, nil, true, at, sharp)
	t.shown, t.lease = nil, lease{}
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

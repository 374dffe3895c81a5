package page

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// holderView is a holder of a lock, or a permit.
type holderView struct {
	Ref          string `json:"ref"`
	Who          string `json:"who"`
	Named        bool   `json:"named,omitempty"`
	Client       string `json:"client,omitempty"`
	Version      string `json:"version,omitempty"`
	Started      int64  `json:"started,omitempty"`
	Mode         string `json:"mode,omitempty"`
	Acquisitions int    `json:"acquisitions,omitempty"`
	Expired      bool   `json:"expired,omitempty"`
	Since        int64  `json:"since,omitempty"`
	Before       bool   `json:"before,omitempty"`
	Ends         int64  `json:"ends,omitempty"`
	Full         int64  `json:"full,omitempty"`
}

// waiterView is a waiter.
type waiterView struct {
	Who      string `json:"who"`
	Named    bool   `json:"named,omitempty"`
	Client   string `json:"client,omitempty"`
	Since    int64  `json:"since,omitempty"`
	Redisson bool   `json:"redisson,omitempty"`
}

// lockView is a lock as the browsers get it that look at it.
type lockView struct {
	Kind        string       `json:"kind"`
	Mode        string       `json:"mode,omitempty"`
	Token       string       `json:"token,omitempty"`
	Free        int          `json:"free,omitempty"`
	Permits     bool         `json:"permits,omitempty"` // the holders are permits
	HolderCount int          `json:"holderCount"`
	Holders     []holderView `json:"holders"`
	WaiterCount int          `json:"waiterCount"`
	waiting
	Waiters []waiterView `json:"waiters"`
}

// pageView is all that the view of one lock shows.
type pageView struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Bytes int       `json:"bytes"`
	Read  bool      `json:"read"` // or it is not known yet whether it is held
	Lock  *lockView `json:"lock,omitempty"`
	// History are its holds since this server first looked.
	History []hold `json:"history"`
	// Alone means that the status is about this lock, and not about Redis.
	Alone bool `json:"alone,omitempty"`
	status
}

// view makes the view of a lock. First means that nobody looked at it right before, so its holders may have been there for longer.
func (t *track) view(d *catalog.Details, at time.Time, first bool) lockView {
	v := lockView{
		Kind: string(d.Kind), Mode: printable(d.Mode), Free: d.Free, HolderCount: d.Holders, WaiterCount: d.Waiters, waiting: waitingOf(&d.Row),
		Holders: []holderView{}, Waiters: []waiterView{},
	}
	var keys []string // of the marks
	if d.Token > 0 {
		v.Token = strconv.FormatInt(int64(d.Token), 10)
	}
	waiters := d.Queue
	if d.Lock != nil {
		waiters = d.Lock.Waiters
		v.HolderCount, v.WaiterCount = d.Lock.HolderCount, d.Lock.WaiterCount
		for i := range d.Lock.Holders {
			h := &d.Lock.Holders[i]
			key := keyOf(refOf(h.Holder), d.Token, v.HolderCount)
			keys = append(keys, key)
			v.Holders = append(v.Holders, t.holder(h, key, at, first))
		}
		slices.SortStableFunc(v.Holders, func(a, b holderView) int { return int(a.Since - b.Since) })
	} else {
		v.Permits = true
		for _, p := range d.Permits {
			keys = append(keys, refOf(p.ID))
			m := t.see(refOf(p.ID), at, first)
			m.lease.settle("", p.Lease, at)
			v.Holders = append(v.Holders, holderView{
				Ref: refOf(p.ID), Who: permit(p.ID, p.Identity), Named: p.Identity != nil, Since: m.Since, Before: m.Before, Ends: m.lease.Ends, Full: m.lease.Full,
			})
		}
	}
	for _, w := range waiters {
		view := waiterView{
			Who: who(w.Client, "", w.Identity), Named: w.Identity != nil, Client: printable(w.Client), Redisson: w.Redisson,
		}
		view.Since = millis(w.Since)
		v.Waiters = append(v.Waiters, view)
	}
	if len(v.Holders) == v.HolderCount {
		t.keep(func(key string) bool { return slices.Contains(keys, key) })
	}
	return v
}

func (t *track) holder(h *rlock.HolderInfo, key string, at time.Time, first bool) holderView {
	ref := refOf(h.Holder)
	m := t.see(key, at, first)
	m.lease.settle("", h.Lease, at)
	view := holderView{
		Ref: ref, Who: who(h.Client, h.Holder, h.Identity), Named: h.Identity != nil, Client: printable(h.Client), Mode: printable(h.Mode),
		Acquisitions: h.Acquisitions, Expired: h.Expired, Since: m.Since, Before: m.Before, Ends: m.lease.Ends, Full: m.lease.Full,
	}
	if h.Kept {
		view.Who = kept(view.Who)
	}
	if id := h.Identity; id != nil {
		view.Version = printable(id.Version)
		view.Started = millis(id.Started)
	}
	return view
}

// page returns what the view of a lock shows now.
func (s *state) page(id string) pageView {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := pageView{ID: id, status: s.detail, History: []hold{}}
	name := ""
	if w := s.watched[id]; w != nil {
		name, v.Read = w.name, w.read || !w.known && s.ready
		if v.Stale == 0 {
			v.status, v.Alone = w.status, w.Stale != 0
		}
		if w.found {
			lock := w.details
			v.Lock = &lock
		}
	}
	if t := s.histories.tracks[id]; t != nil {
		name, v.History = t.name, append(v.History, t.holds...)
	}
	v.Name, v.Bytes = printable(name), len(name)
	return v
}

// named returns the holders, as Redis has them, that a browser named by their refs, and how they are shown. They are all holders of a
// lock, or one permit of a semaphore. It returns none if others hold the lock now.
func named(d *catalog.Details, refs []string) (holders, shown []string) {
	if d == nil || len(refs) == 0 {
		return nil, nil
	}
	if d.Lock == nil {
		for _, p := range d.Permits {
			if len(refs) == 1 && refOf(p.ID) == refs[0] {
				return []string{p.ID}, []string{permit(p.ID, p.Identity)}
			}
		}
		return nil, nil
	}
	for i := range d.Lock.Holders {
		h := &d.Lock.Holders[i]
		if !slices.Contains(refs, refOf(h.Holder)) {
			return nil, nil
		}
		holders, shown = append(holders, h.Holder), append(shown, who(h.Client, h.Holder, h.Identity))
	}
	if len(holders) < d.Lock.HolderCount {
		return nil, nil
	}
	return holders, shown
}

package page

import (
	"slices"
	"strconv"
	"time"

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
	lease
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
	Token       string       `json:"token,omitempty"`
	Free        int          `json:"free,omitempty"`
	Permits     bool         `json:"permits,omitempty"` // the holders are permits
	Counter     bool         `json:"counter,omitempty"` // nobody knows the holders, and Free is its value
	Kept        bool         `json:"kept,omitempty"`    // the holder has unlocked it, and it stays taken
	HolderCount int          `json:"holderCount"`
	Holders     []holderView `json:"holders"`
	WaiterCount int          `json:"waiterCount"` // -1 if it is not known
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
	// History are its holds since this server first looked, and Looked is when it did.
	History []hold `json:"history"`
	Looked  spans  `json:"looked"`
	// Alone means that the status is about this lock, and not about Redis.
	Alone bool `json:"alone,omitempty"`
	status
}

// detail notes what Redis has of a lock, and returns the view of it.
func (s *state) details(d *catalog.Details, t *track, at time.Time, sharp bool) lockView {
	v := lockView{
		Kind: string(d.Kind), Free: d.Free, Kept: d.Kept, Permits: d.Kind == catalog.Semaphore, Counter: d.Kind == catalog.Counter,
		HolderCount: d.Holders, WaiterCount: d.Waiters, waiting: waitingOf(&d.Row), Holders: []holderView{}, Waiters: []waiterView{},
	}
	if d.Token > 0 {
		v.Token = strconv.FormatInt(int64(d.Token), 10)
	}
	now := make([]hold, len(d.HolderList))
	for i := range now {
		h := &d.HolderList[i]
		now[i] = hold{
			key: keyOf(refOf(h.Holder), d.Token, h.Mode), named: h.Identity != nil, Who: whoOf(h.Client, h.Holder, h.Kept, h.Identity), Mode: printable(h.Mode),
		}
	}
	s.histories.note(t, now, len(now) >= d.Holders, at, sharp)
	for i, n := range now {
		h, one := &d.HolderList[i], t.find(n.key)
		one.lease.settle(h.Lease, at)
		view := holderView{
			Ref: refOf(h.Holder), Who: n.Who, Named: n.named, Client: printable(h.Client), Mode: n.Mode, Acquisitions: h.Acquisitions, Expired: h.Expired,
			Since: one.Start, Before: one.Before, lease: one.lease,
		}
		if h.Identity != nil {
			view.Version, view.Started = printable(h.Identity.Version), millis(h.Identity.Started)
		}
		v.Holders = append(v.Holders, view)
	}
	if !v.Permits {
		slices.SortStableFunc(v.Holders, func(a, b holderView) int { return int(a.Since - b.Since) })
	}
	for _, w := range d.WaiterList {
		v.Waiters = append(v.Waiters, waiterView{
			Who: whoOf(w.Client, "", false, w.Identity), Named: w.Identity != nil, Client: printable(w.Client), Redisson: w.Redisson, Since: millis(w.Since),
		})
	}
	return v
}

// page returns what the view of a lock shows now.
func (s *state) page(id string) pageView {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := pageView{ID: id, status: s.detail, History: []hold{}, Looked: s.spans}
	v.Note = s.table.Note
	name := ""
	if w := s.watched[id]; w != nil {
		name, v.Read = w.name, w.read || !w.known && s.ready
		if v.Stale == 0 {
			v.status, v.Alone = w.status, w.Stale != 0
			v.Note = s.table.Note
		}
		if w.found {
			lock := w.details
			v.Lock = &lock
		}
	}
	if t := s.histories.tracks[id]; t != nil {
		name, v.Looked = t.name, append(slices.Clone(v.Looked), t.looked...)
		for _, one := range t.holds {
			v.History = append(v.History, *one)
		}
	}
	v.Name, v.Bytes = printable(name), len(name)
	return v
}

// named returns the holders, as Redis has them, that a browser named by their refs, and how they are shown. They are all holders of a
// lock, or one permit of a semaphore. It returns none if others hold the lock now.
func named(d *catalog.Details, refs []string) (holders, shown []string) {
	if d == nil {
		return nil, nil
	}
	for i := range d.HolderList {
		h := &d.HolderList[i]
		if slices.Contains(refs, refOf(h.Holder)) {
			holders, shown = append(holders, h.Holder), append(shown, whoOf(h.Client, h.Holder, false, h.Identity))
		}
	}
	if permits := d.Kind == catalog.Semaphore; permits && len(refs) != 1 || !permits && len(holders) < d.Holders {
		return nil, nil
	}
	return holders, shown
}

package page

import (
	"encoding/json"
	"sync"
)

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
	Unread bool      `json:"unread,omitempty"`
	Rows   []rowView `json:"rows"`
	Gone   []string  `json:"gone,omitempty"`
	status
}

// since returns what has changed since a version, 0 for all, and the present version. It returns nil if nothing has changed, or if there
// is nothing yet.
func (s *state) since(version uint64) (*difference, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == s.version || !s.ready && s.table.Stale == 0 {
		return nil, version
	}
	d := &difference{All: version == 0 || version < s.forgotten, Cut: s.cut, Missed: s.missed, Part: s.partial, Total: s.total, Unread: !s.ready, status: s.table, Rows: []rowView{}}
	if d.All {
		version = 0
		d.Rows = make([]rowView, 0, len(s.rows))
	}
	for _, e := range s.rows {
		if e.changed > version {
			d.Rows = append(d.Rows, e.view)
		}
	}
	for i := len(s.tombs) - 1; i >= 0 && s.tombs[i].version > version && !d.All; i-- {
		if s.rows[s.tombs[i].id] == nil {
			d.Gone = append(d.Gone, s.tombs[i].id)
		}
	}
	return d, s.version
}

// shared is the latest difference as JSON. Most streams know the same version, or none, and a snapshot may be large.
type shared struct {
	mu       sync.Mutex
	from, to uint64
	latest   *difference
	body     []byte
}

// encoded returns what since does, and the same as JSON, which is made once for all streams that ask for it.
func (s *state) encoded(version uint64) (d *difference, body []byte, now uint64, err error) {
	c := &s.shared
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	now = s.version
	s.mu.Unlock()
	if c.latest != nil && c.from == version && c.to == now {
		return c.latest, c.body, now, nil
	}
	d, now = s.since(version)
	if d == nil {
		return nil, nil, now, nil
	}
	if body, err = json.Marshal(d); err != nil {
		return nil, nil, version, err
	}
	c.from, c.to, c.latest, c.body = version, now, d, body
	return d, body, now, nil
}

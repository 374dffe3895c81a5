package table

import (
	"sync"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Owner stands for the thread that Redisson's locks belong to. It is known by its address. One owner may hold locks of
// several tables. It is safe for concurrent use.
type Owner struct {
	// of is the only grant of an owner that nobody else can name. The table's mutex guards it.
	of *Grant

	mu     sync.Mutex // a leaf; guards what follows
	lost   map[sideKey]*Grant
	values map[any]any
}

// NewOwner returns an owner that holds nothing.
func NewOwner() *Owner { return new(Owner) }

// Value returns what another floor attached to the owner under a key. The first call for a key makes it.
func (o *Owner) Value(key any, create func() any) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	v, ok := o.values[key]
	if !ok {
		if o.values == nil {
			o.values = make(map[any]any)
		}
		v = create()
		o.values[key] = v
	}
	return v
}

// rememberLost keeps a lost grant until its acquisitions have been unlocked. Lost grants live as long as somebody has the
// owner's context, and need no place in the table.
func (o *Owner) rememberLost(g *Grant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = make(map[sideKey]*Grant)
	}
	o.lost[g.handle.sideKey()] = g
}

// forgetLost forgets a lost grant, because all of its acquisitions know.
func (o *Owner) forgetLost(g *Grant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key := g.handle.sideKey(); o.lost[key] == g {
		delete(o.lost, key)
	}
}

// lostOf returns the grant that this owner lost and has not unlocked since, or nil.
func (o *Owner) lostOf(key sideKey) *Grant {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost[key]
}

// hasLost reports whether there is such a grant on any side of a name.
func (o *Owner) hasLost(k Key) bool {
	return o.lostOf(sideKey{k, 0}) != nil || o.lostOf(sideKey{k, 1}) != nil
}

// mayNot returns why an owner must not acquire a name now: because it lost the name and has not unlocked it since, or
// because the handle does not re-enter. It returns nil if it may.
func (t *Table) mayNot(h *Handle, o *Owner, now clock.Instant) error {
	holds := false
	for _, side := range [2]wire.Side{wire.MainSide, wire.ReadSide} {
		switch g := t.grantOf(sideKey{h.Key, side}, o); {
		case g == nil:
		case g.stage == expired, g.stage == held && g.past(now):
			return fault.ErrLost
		case g.stage == held:
			holds = true
		}
	}
	switch {
	case o.hasLost(h.Key):
		return fault.ErrLost
	case holds && h.NonReentrant:
		return fault.ErrReentered
	}
	return nil
}

package table

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

// Owner is the owner of a grant. A lost grant is attached to it until all acquisitions of the grant have been unlocked. So
// a lost grant lives as long as somebody has the owner's context, and needs no place in the table.
type Owner = owner.Owner

// NewOwner returns an owner that holds nothing.
func NewOwner() *Owner { return new(Owner) }

// lostOf returns the grant that an owner lost and has not unlocked since, or nil.
func lostOf(o *Owner, key sideKey) *Grant {
	g, _ := o.Attached(key).(*Grant)
	return g
}

// mayNot returns why an owner must not acquire a name now: because it lost the name and has not unlocked it since, or
// because the handle does not re-enter. It returns nil if it may.
func (t *Table) mayNot(h *Handle, o *Owner, now clock.Instant) error {
	holds := false
	for _, side := range [2]wire.Side{wire.MainSide, wire.ReadSide} {
		key := sideKey{h.Key, side}
		g := t.grants.Of(key, o)
		switch {
		case lostOf(o, key) != nil:
			return fault.ErrLost
		case g == nil:
		case g.stage == expired, g.stage == held && g.term.Past(now):
			return fault.ErrLost
		case g.stage == held:
			holds = true
		}
	}
	if holds && h.NonReentrant {
		return fault.ErrReentered
	}
	return nil
}

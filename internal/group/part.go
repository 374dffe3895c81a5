package group

import (
	"slices"

	"github.com/go-rlock/rlock/internal/client"
)

// Part returns the acquisition itself for the group that it is of. For a member of a multi lock, or a part of one, it
// returns the acquisition of that member. A red lock has none to return, because the majority may be without the member.
func (a *acquisition) Part(of client.Member) client.Held {
	if g, ok := of.(*Group); ok && a.group.same(g) {
		return a
	}
	if a.group.quorum != nil {
		return nil
	}
	for _, h := range a.held() {
		if h == nil {
			continue
		}
		if part := h.Part(of); part != nil {
			return part
		}
	}
	return nil
}

// same reports whether two handles are for the same members, taken in the same way.
func (g *Group) same(other *Group) bool {
	return g.err == nil && other.err == nil && g.need == other.need && (g.quorum == nil) == (other.quorum == nil) &&
		slices.EqualFunc(g.members, other.members, sameMember)
}

// sameMember reports whether two members are handles on the same.
func sameMember(one, two client.Member) bool {
	a, ok := one.(*Group)
	b, also := two.(*Group)
	switch {
	case ok && also:
		return a.same(b)
	case ok || also:
		return false
	}
	return one.Locks()[0].ID() == two.Locks()[0].ID()
}

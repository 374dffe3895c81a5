package group

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/owner"
)

// A context may carry holds of several members, of different owners. What a closed one let it acquire comes after all that an open one did.
func TestWhatAClosedHoldLeftComesAfterWhatAnOpenOneHas(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	g := NewMulti([]client.Member{newLock(c, "a")})
	var closed, open atomic.Bool
	closed.Store(true)
	left := &acquisition{group: g, conditions: conditions{owner: new(owner.Owner), by: &closed}}
	has := &acquisition{group: g, conditions: conditions{owner: new(owner.Owner), by: &open}}
	ownedBy(left.owner).Add(left)
	ownedBy(has.owner).Add(has)
	w := owner.Who{Holds: []owner.Claim{{Owner: left.owner, Closed: &closed}, {Owner: has.owner, Closed: &open}}}
	a, o := g.toUnlock(w)
	require.Same(t, has, a)
	require.Same(t, has.owner, o)
	g.forget(has)
	a, _ = g.toUnlock(w)
	require.Same(t, left, a)
}

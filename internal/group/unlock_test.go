package group

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/owner"
)

// A context that carries an open hold stands for the owner of that hold alone, as for a single lock.
func TestAnOpenHoldHidesWhatAClosedOneLeft(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	g := NewMulti([]client.Member{newLock(c, "a")})
	var inner, outer atomic.Bool
	outer.Store(true)
	left := &acquisition{group: g, conditions: conditions{owner: new(owner.Owner), by: &outer}}
	ownedBy(left.owner).Add(left)
	w := owner.Who{Holds: []owner.Claim{{Owner: new(owner.Owner), Closed: &inner}, {Owner: left.owner, Closed: &outer}}}
	a, o := g.toUnlock(w)
	require.Nil(t, a)
	require.Same(t, w.Holds[0].Owner, o)
	inner.Store(true)
	a, _ = g.toUnlock(w)
	require.Same(t, left, a)
}

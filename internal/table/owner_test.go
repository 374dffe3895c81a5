package table

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

// The context of a hold at one client may ask for a lock of another client, as a member of a group. Then the tables of both
// clients look at the owner of the hold.
func TestTwoTablesLookAtTheOwnerOfAHold(t *testing.T) {
	t.Parallel()
	one, h, l := newTable()
	other, strange, _ := newTable()
	a := acquire(t, h)
	var both sync.WaitGroup
	both.Go(func() {
		require.Nil(t, other.Chosen(strange, owner.Who{Owner: a.Owner()}, start))
	})
	both.Go(func() {
		var n notice.List
		var x Exit
		one.Release(&x, a, start, &n)
		one.SettleRelease(&x, wire.Reply{N: 1}, start, &n)
		n.Deliver(l)
	})
	both.Wait()
	require.Nil(t, one.Chosen(h, owner.Who{Owner: a.Owner()}, start))
}

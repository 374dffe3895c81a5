package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestAWatchLastsAsLongAsItsSubscription checks that a client that was asked to watch looks after the lock also while nobody
// waits here. Redis counts it as a watcher until it is unsubscribed, and asks nobody else.
func TestAWatchLastsAsLongAsItsSubscription(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	l := &lineClient{epoch: 1}
	table.messages, table.told = l, l
	base, own := h.Names().Base(), h.Names().Own()
	told := func() []string {
		all := l.told
		l.told = nil
		return all
	}
	freed := func() []string {
		told()
		var n Notices
		table.Freed(base, &n)
		n.Deliver(l)
		return told()
	}
	// turn lets an attempt wait, get the lock, and release it.
	turn := func(now clock.Instant, watch int64) {
		var n Notices
		a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
		require.Equal(t, Ask, table.Admit(a, now, &n).Do)
		table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, watch, 0}}, now, &n)
		n.Deliver(l)
		require.Equal(t, []string{"pump " + own}, freed(), "while it waits")
		table.Pumped(own, wire.Reply{}, start, &n)
		message := wire.Message{Sort: wire.Granted, Number: a.grant.holder.Number, At: 1, Term: time.Second}
		table.Hear(h.Names().Own(), message, now, &n)
		require.NotNil(t, table.Wake(a, ByMessage, now, &n).Got)
		var x Exit
		require.Equal(t, Ask, table.Unlock(&x, h, Who{}, now, &n).Do)
		require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{N: 1}, now, &n).Do)
		n.Deliver(l)
	}
	turn(start, 1)
	require.Contains(t, told(), "unwatch "+base)
	require.Equal(t, []string{"pump " + own}, freed(), "its subscription is still counted")
	var n Notices
	table.Pumped(own, wire.Reply{}, start, &n)
	turn(start+1, 0) // nobody asks it to watch, but it goes on
	require.Contains(t, told(), "unwatch "+base)
	table.Unwatched(base, &n)
	n.Deliver(l)
	require.Equal(t, []string{"pump " + own}, told(), "somebody else may have to watch")
	require.Empty(t, freed())
	require.Zero(t, table.watches.Len())
}

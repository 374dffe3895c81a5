package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// The head of a local queue does not set the semaphore up, and those behind it do. It tells them that nobody has. One of them may run
// only when somebody has.
func TestAWaiterIsToldThatASemaphoreIsNotSetUp(t *testing.T) {
	t.Parallel()
	unset := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 8, 0}}
	refused := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 0, 0}}
	for what, c := range map[string]struct {
		later *wire.Reply // what the head is told before the other one runs
		head  Do          // what the head does then
		want  Do
	}{
		"at once":                 {want: Done},
		"it is set up":            {later: &refused, head: Sleep, want: Sleep},
		"it is set up, with more": {later: &wire.Reply{}, head: Done, want: Ask},
		"it is still unset":       {later: &unset, head: Sleep, want: Done},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			table, h, _ := newTable()
			h.Kind, h.Key.Family = wire.Permit, wire.SemaphoreFamily
			var n notice.List
			head, behind := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}, &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true, SetsUp: true}
			require.Equal(t, Ask, table.Admit(head, start, &n).Do)
			require.Equal(t, Sleep, table.Admit(behind, start, &n).Do)
			require.Equal(t, Sleep, table.Settle(head, unset, start, &n).Do)
			if c.later != nil {
				require.Equal(t, Ask, table.Wake(head, ByMessage, start, &n).Do)
				require.Equal(t, c.head, table.Settle(head, *c.later, start, &n).Do)
			}
			require.Equal(t, c.want, table.Wake(behind, ByNews, start, &n).Do)
		})
	}
}

// Rule L.2: a waiter that stands in the line was refused by Redis. A hand-over that Redis did not carry out changes nothing about that.
func TestAWaiterIsRefusedAfterAHandOverThatWasNotCarriedOut(t *testing.T) {
	t.Parallel()
	table, _ := lineTable()
	table.cfg.ClientID, table.cfg.HandOvers, table.cfg.HandOverTime = "c", 10, time.Minute
	h := &Handle{Key: table.Key("name", wire.SemaphoreFamily), Kind: wire.Permit, Name: "name"}
	var n notice.List
	holder, next := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true, ByHold: true}, &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Ask, table.Admit(holder, start, &n).Do)
	s := table.Settle(holder, wire.Reply{}, start, &n)
	require.NotNil(t, s.Got)
	require.Equal(t, Ask, table.Admit(next, start, &n).Do)
	require.Equal(t, Sleep, table.Settle(next, wire.Reply{N: -30_001, List: []int64{-30_001, 1_000_000, 0, 0}}, start, &n).Do)
	var x Exit
	require.Same(t, wire.Permit.HandOver, table.Release(&x, s.Got, start, &n).Call.Script)
	require.NotSame(t, wire.Permit.HandOver, table.SettleRelease(&x, wire.Reply{N: -2}, start, &n).Call.Script)
	require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{N: 1}, start, &n).Do)
	require.True(t, table.Known(next, start.Add(2*table.cfg.Floor())).Refused)
}

package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestAnExportWithoutAReply has both numbers released, and a tombstone for that of the ticket: a late export must not make a holder
// that nobody can adopt or release.
func TestAnExportWithoutAReply(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	var n notice.List
	a := acquire(t, h)
	a.byHold = true
	var x Exit
	s := table.Export(&x, a, time.Second, nil, start, &n)
	require.Equal(t, Ask, s.Do)
	ticket, last := s.Call.Args.Holder, s.Call.Args.Extra
	require.ErrorIs(t, a.Err(start), fault.ErrNotHeld, "the hold is over before anybody can have the lock")
	s = table.SettleRelease(&x, wire.Reply{N: -1, Err: errSilence}, start, &n)
	require.Equal(t, Done, s.Do)
	require.ErrorIs(t, s.Err, fault.ErrUnavailable)
	n.Deliver(l)
	batches, releases := table.Due(start, true, &n)
	require.Empty(t, batches)
	tombstones := make(map[any]int64)
	for _, release := range releases {
		s := table.ResumeRelease(release, start, &n)
		tombstones[s.Call.Args.Holder] = s.Call.Args.Millis
	}
	require.Len(t, tombstones, 2)
	require.Positive(t, tombstones[ticket])
	require.Zero(t, tombstones[last])
}

// TestAnAdoptionThatCrossesAnUnlockByForce is not relied on, like an acquisition.
func TestAnAdoptionThatCrossesAnUnlockByForce(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	var n notice.List
	a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true, ByHold: true, Ticket: "c:7", Bound: start.Add(modelCommand)}
	require.Equal(t, Ask, table.Admit(a, start, &n).Do)
	table.Forced(h.Key, 0, start, &n)
	s := table.Settle(a, wire.Reply{}, start, &n)
	require.Equal(t, Done, s.Do)
	require.Nil(t, s.Got)
	require.ErrorIs(t, s.Err, fault.ErrLate)
	_, releases := table.Due(start, true, &n)
	require.Len(t, releases, 1)
}

package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// seekers returns a table of a semaphore with attempts for a permit each, all of which were admitted. The first one asks.
func seekers(t *testing.T, many int) (*Table, []*Attempt, *notice.List) {
	t.Helper()
	table, _ := lineTable()
	table.cfg.ClientID, table.cfg.HandOvers, table.cfg.HandOverTime = "c", 10, time.Minute
	h := &Handle{Key: table.Key("name", wire.SemaphoreFamily), Kind: wire.Permit, Name: "name"}
	n := &notice.List{}
	all := make([]*Attempt, many)
	for i := range all {
		all[i] = &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true, ByHold: true}
		want := Sleep
		if i == 0 {
			want = Ask
		}
		require.Equal(t, want, table.Admit(all[i], start, n).Do)
	}
	return table, all, n
}

// woken returns those whose bell rings.
func woken(all []*Attempt) (rung []int) {
	for i, a := range all {
		select {
		case <-a.bell.C():
			rung = append(rung, i)
		default:
		}
	}
	return rung
}

var (
	noPermit = wire.Reply{N: -30_001, List: []int64{-30_001, 1_000_000, 0, 0}}
	noPlace  = wire.Reply{N: -30_001, List: []int64{-30_001, 0, 0, -1}}
)

func TestAsManyAskAsPermitsAreFree(t *testing.T) {
	t.Parallel()
	table, all, n := seekers(t, 5)
	require.NotNil(t, table.Settle(all[0], wire.Reply{N: 3}, start, n).Got)
	require.Equal(t, []int{1, 2, 3}, woken(all), "three are free")
	for _, a := range all[1:4] {
		require.Equal(t, Ask, table.Wake(a, ByNews, start, n).Do)
	}
	require.Equal(t, Sleep, table.Wake(all[4], ByNews, start, n).Do, "the three are spoken for")
	require.NotNil(t, table.Settle(all[2], wire.Reply{N: 2}, start, n).Got)
	require.Empty(t, woken(all), "the two that are free are asked for")
	require.NotNil(t, table.Settle(all[1], wire.Reply{N: 3}, start, n).Got)
	require.Contains(t, woken(all), 4, "somebody has given some back meanwhile")
	require.Equal(t, Ask, table.Wake(all[4], ByNews, start, n).Do)
}

func TestOneThatComesAsksWithTheOthers(t *testing.T) {
	t.Parallel()
	table, all, n := seekers(t, 2)
	require.NotNil(t, table.Settle(all[0], wire.Reply{N: 4}, start, n).Got)
	late := &Attempt{Handle: all[0].Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Sleep, table.Admit(late, start, n).Do, "another one waits for its turn")
	require.Equal(t, Ask, table.Wake(all[1], ByNews, start, n).Do)
	later := &Attempt{Handle: all[0].Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Sleep, table.Admit(later, start, n).Do)
	require.Equal(t, Ask, table.Wake(late, ByNews, start, n).Do)
	require.Equal(t, Ask, table.Wake(later, ByNews, start, n).Do)
	last := &Attempt{Handle: all[0].Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Ask, table.Admit(last, start, n).Do, "all before it ask, and a fourth permit is free")
	require.Equal(t, Sleep, table.Admit(&Attempt{Handle: all[0].Handle, Lease: modelWatchdog}, start, n).Do)
}

// Only the first one stands in the line. Those who asked beside it and were refused wait behind it, and one that is the first by then
// asks again, to stand there.
func TestOnlyTheFirstOneStandsInTheLine(t *testing.T) {
	t.Parallel()
	table, all, n := seekers(t, 4)
	require.NotNil(t, table.Settle(all[0], wire.Reply{N: 3}, start, n).Got)
	for i := range all[1:] {
		require.Equal(t, Ask, table.Wake(all[i+1], ByNews, start, n).Do)
		require.Equal(t, i == 0, all[i+1].place.Asks)
	}
	require.Equal(t, Sleep, table.Settle(all[3], noPlace, start, n).Do)
	require.Equal(t, Sleep, table.Wake(all[3], ByNews, start, n).Do)
	require.NotNil(t, table.Settle(all[1], wire.Reply{N: 0}, start, n).Got)
	require.Equal(t, Ask, table.Settle(all[2], noPlace, start, n).Do, "it is the first one by now")
	require.True(t, all[2].place.Asks)
	require.Equal(t, Sleep, table.Settle(all[2], noPermit, start, n).Do)
	require.True(t, all[2].place.Stands)
	require.Equal(t, Sleep, table.Wake(all[3], ByNews, start, n).Do)
}

// One that got no reply may have a permit in Redis, so it asks again, although it is not the first.
func TestOneWithoutAReplyAsksAgain(t *testing.T) {
	t.Parallel()
	table, all, n := seekers(t, 3)
	require.NotNil(t, table.Settle(all[0], wire.Reply{N: 2}, start, n).Got)
	require.Equal(t, Ask, table.Wake(all[1], ByNews, start, n).Do)
	require.Equal(t, Ask, table.Wake(all[2], ByNews, start, n).Do)
	s := table.Settle(all[2], wire.Reply{N: -1, Err: errDoubt}, start, n)
	require.Equal(t, Sleep, s.Do)
	require.Positive(t, s.Pause)
	s = table.Wake(all[2], ByTime, start.Add(s.Pause), n)
	require.Equal(t, Ask, s.Do)
	require.False(t, all[2].place.Asks)
	require.NotNil(t, table.Settle(all[2], wire.Reply{N: 0}, start.Add(time.Second), n).Got)
}

// While permits are being handed over to an attempt, a question of its own could take as many again.
func TestOneThatIsHandedPermitsDoesNotAsk(t *testing.T) {
	t.Parallel()
	table, all, n := seekers(t, 3)
	s := table.Settle(all[0], wire.Reply{N: 2}, start, n)
	require.NotNil(t, s.Got)
	require.Equal(t, Ask, table.Wake(all[1], ByNews, start, n).Do)
	require.Equal(t, Ask, table.Wake(all[2], ByNews, start, n).Do)
	require.Equal(t, Sleep, table.Settle(all[2], wire.Reply{N: -1, Err: errDoubt}, start, n).Do)
	var x Exit
	require.Same(t, wire.Permit.HandOver, table.Release(&x, s.Got, start, n).Call.Script)
	require.True(t, all[2].handing)
	require.Equal(t, Sleep, table.Wake(all[2], ByTime, start, n).Do)
	require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{N: 0}, start, n).Do)
	require.NotNil(t, table.Wake(all[2], ByNews, start, n).Got)
}

// Permits that are given back while the first one stands in the line are for those whom the line tells.
func TestNobodyAsksBesideOneInTheLine(t *testing.T) {
	t.Parallel()
	table, all, n := seekers(t, 3)
	table.cfg.HandOvers = 0
	s := table.Settle(all[0], wire.Reply{N: 0}, start, n)
	require.NotNil(t, s.Got)
	require.Equal(t, Ask, table.Wake(all[1], ByNews, start, n).Do)
	require.Equal(t, Sleep, table.Settle(all[1], noPermit, start, n).Do)
	woken(all)
	var x Exit
	require.Equal(t, Ask, table.Release(&x, s.Got, start, n).Do)
	require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{N: 1}, start, n).Do)
	require.Empty(t, woken(all))
	require.Equal(t, Sleep, table.Wake(all[2], ByNews, start, n).Do)
}

// The reply to a release may come after a grant that counted its permits. Then the one behind the first must not ask for them, too.
func TestALateReplyToAReleaseWakesOnlyTheFirstOne(t *testing.T) {
	t.Parallel()
	table, all, n := seekers(t, 4)
	table.cfg.HandOvers = 0
	s := table.Settle(all[0], wire.Reply{N: 1}, start, n)
	require.NotNil(t, s.Got)
	require.Equal(t, Ask, table.Wake(all[1], ByNews, start, n).Do)
	var x Exit
	require.Equal(t, Ask, table.Release(&x, s.Got, start, n).Do)
	require.NotNil(t, table.Settle(all[1], wire.Reply{N: 1}, start, n).Got)
	require.Equal(t, Ask, table.Wake(all[2], ByNews, start, n).Do)
	woken(all)
	require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{N: 1}, start, n).Do)
	require.NotContains(t, woken(all), 3)
	require.Equal(t, Sleep, table.Wake(all[3], ByNews, start, n).Do)
}

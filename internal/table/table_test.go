package table

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// listener is what surrounds one table in a direct test. It notes what it is told, in order.
type listener struct {
	told []string
}

// Received implements Messages.
func (l *listener) Received(string) (messages uint64, subscribed bool) { return 0, false }

// Epoch and Counts implement Messages: no waiter stands in the line.
func (l *listener) Epoch(string) uint64       { return 0 }
func (*listener) Refused(string) *fault.Error { return nil }

func (l *listener) Counts() bool { return false }

// Unheard implements Messages.
func (l *listener) Unheard(string, uint64) {}

// Watch, Unwatch and Pump implement Told.
func (l *listener) Watch(channel, _ string) { l.told = append(l.told, "watch "+channel) }

func (l *listener) Unwatch(channel, _ string) { l.told = append(l.told, "unwatch "+channel) }

func (l *listener) Pump(channel string, _ time.Duration) { l.told = append(l.told, "pump "+channel) }

// Alarm implements Told.
func (l *listener) Alarm(clock.Instant) { l.told = append(l.told, "alarm") }

// Unlisten implements Told.
func (l *listener) Unlisten(channel string, _ chan struct{}) {
	l.told = append(l.told, "unlisten "+channel)
}

// Log implements Told.
func (l *listener) Log(e notice.Entry) { l.told = append(l.told, e.Message.Text+" "+e.Lock) }

const start = clock.Instant(time.Second)

// newTable returns a table and a handle of it.
func newTable() (*Table, *Handle, *listener) {
	l := &listener{}
	t := New(config.Config{
		ClientID: "c", WatchdogTimeout: modelWatchdog, CommandTimeout: modelCommand, PollInterval: modelPoll,
		FairWait: 10 * time.Second, BatchSize: 10, StandBack: time.Millisecond,
	}, task.New(), l, l)
	return t, &Handle{Key: t.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}, l
}

// acquire takes a lock that is free.
func acquire(tb testing.TB, h *Handle) *Acquisition {
	tb.Helper()
	var n notice.List
	t := h.Key.Table
	a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
	s := t.Admit(a, start, &n)
	require.Equal(tb, Ask, s.Do)
	s = t.Settle(a, wire.Reply{}, start, &n)
	require.NotNil(tb, s.Got)
	n.Deliver(t.receiver)
	return s.Got
}

func TestAPairTakesTheMutexFourTimesAtMost(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	before := table.Stats().Sections
	acquire(t, h)
	var n notice.List
	var x Exit
	s := table.Unlock(&x, h, owner.Who{}, start, &n)
	require.Equal(t, Ask, s.Do)
	s = table.SettleRelease(&x, wire.Reply{N: 1}, start, &n)
	require.Equal(t, Step{Do: Done}, s)
	n.Deliver(l)
	require.LessOrEqual(t, table.Stats().Sections-before, uint64(4))
	require.Equal(t, Stats{Sections: before + 4}, table.Stats())
}

func TestUndefinedStepsAreInternalErrors(t *testing.T) {
	t.Parallel()
	for phase := claiming; phase <= done; phase++ {
		table, h, _ := newTable()
		var n notice.List
		if phase > resting && phase != adopting {
			a := &Attempt{Handle: h, course: course{phase: phase}}
			s := table.Wake(a, ByNews, start, &n)
			require.Equal(t, Done, s.Do)
			require.ErrorIs(t, s.Err, errUndefined, "an attempt wakes in phase %d", phase)
		}
		if phase < trying || phase == done {
			a := &Attempt{Handle: h, course: course{phase: phase}}
			s := table.Settle(a, wire.Reply{}, start, &n)
			require.ErrorIs(t, s.Err, errUndefined, "a reply in phase %d", phase)
		}
	}
	for phase := turning; phase <= released; phase++ {
		table, _, _ := newTable()
		var n notice.List
		if phase != turning && phase != pausing {
			s := table.ResumeRelease(&Exit{phase: phase}, start, &n)
			require.ErrorIs(t, s.Err, errUndefined, "an exit resumes in phase %d", phase)
		}
		if phase == turning || phase > exporting {
			s := table.SettleRelease(&Exit{phase: phase}, wire.Reply{}, start, &n)
			require.ErrorIs(t, s.Err, errUndefined, "a reply to an exit in phase %d", phase)
		}
	}
}

func TestALossIsToldOnceThroughEveryChannel(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	a := acquire(t, h)
	done := a.Done()
	var causes []error
	require.NoError(t, a.Notify(func(why error) { causes = append(causes, why) }))
	var n notice.List
	table.Forced(h.Key, 0, start, &n)
	require.Empty(t, causes, "users are told without the mutex")
	n.Deliver(l)
	require.Len(t, causes, 1)
	require.ErrorIs(t, causes[0], fault.ErrLost)
	<-done
	require.ErrorIs(t, a.Err(start), fault.ErrLost)
	require.Equal(t, lease.Loss{Early: true, Since: start}, a.Loss())
	require.Contains(t, l.told, notice.LogLost.Text+" name")
}

// A red lock has to know since when another owner may have had a member whose unlock finds nothing.
func TestAnUnlockThatFindsNothingIsALoss(t *testing.T) {
	t.Parallel()
	for reply, want := range map[int64]lease.Loss{1: {}, -1: {Early: true, Since: start}} {
		for _, replied := range []time.Duration{time.Second, 2 * modelWatchdog} { // or after the deadline
			table, h, _ := newTable()
			a := acquire(t, h)
			var n notice.List
			var x Exit
			require.Equal(t, Ask, table.Release(&x, a, start.Add(time.Second), &n).Do)
			s := table.SettleRelease(&x, wire.Reply{N: reply}, start.Add(replied), &n)
			require.Equal(t, Done, s.Do)
			require.Equal(t, want.Early, errors.Is(s.Err, fault.ErrLost))
			require.Equal(t, want, a.Loss(), "replied after %v", replied)
		}
	}
}

// A release that Redis refused at first finds a lease that has ended, as it should.
func TestAnUnlockThatIsRepeatedAfterTheDeadlineIsNoEarlyLoss(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	a := acquire(t, h)
	var n notice.List
	var x Exit
	now := a.grant.term.Deadline.Add(-time.Second / 2)
	require.Equal(t, Ask, table.Release(&x, a, now, &n).Do)
	s := table.SettleRelease(&x, wire.Reply{Err: errPasses}, now, &n)
	require.Equal(t, Sleep, s.Do)
	now = now.Add(time.Second)
	require.Equal(t, Ask, table.ResumeRelease(&x, now, &n).Do)
	s = table.SettleRelease(&x, wire.Reply{N: -1}, now, &n)
	require.ErrorIs(t, s.Err, fault.ErrLost)
	require.False(t, a.Loss().Early)
}

func TestALossIsLoggedOnce(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	a := acquire(t, h)
	_ = a.Done()
	require.NoError(t, a.Notify(func(error) {}))
	var n notice.List
	table.Forced(h.Key, 0, start, &n)
	n.Deliver(l)
	var x Exit
	require.ErrorIs(t, table.Release(&x, a, start, &n).Err, errForced)
	n.Deliver(l)
	require.Equal(t, 1, strings.Count(strings.Join(l.told, "\n"), notice.LogLost.Text+" name"), "although the holder is told")
}

func TestAnUncontendedLockTellsOnlyTheFirstAlarm(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	for range 3 {
		a := acquire(t, h)
		var n notice.List
		var x Exit
		table.Release(&x, a, start, &n)
		table.SettleRelease(&x, wire.Reply{N: 1}, start, &n)
		n.Deliver(l)
	}
	require.Equal(t, []string{"alarm"}, l.told)
}

func TestAnErrorThatStaysEndsTheWait(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	var n notice.List
	a := &Attempt{Handle: h, Lease: time.Second}
	require.Equal(t, Ask, table.Admit(a, start, &n).Do)
	noPerm := &fault.Error{Code: "NOPERM", Err: errors.New("NOPERM")}
	s := table.Settle(a, wire.Reply{N: -1, Err: noPerm}, start, &n)
	require.Equal(t, Done, s.Do)
	require.Equal(t, error(noPerm), s.Err)
	require.Zero(t, table.Stats().Queues)
}

func TestACanceledContextEndsAWait(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	acquire(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	var n notice.List
	a := &Attempt{Handle: h, Lease: time.Second, Wait: ctx, Caller: ctx}
	s := table.Admit(a, start, &n)
	require.Equal(t, Sleep, s.Do, "this process knows the holder")
	waiters, rests, channel := table.Line(h.Key)
	require.Equal(t, 1, waiters)
	require.True(t, rests)
	require.Equal(t, h.Names().Channel, channel)
	cancel()
	s = table.Wake(a, Ended, start, &n)
	require.Equal(t, Step{Do: Done}, s)
	require.Equal(t, outcome.Result{Refused: true}, a.Last)
	n.Deliver(l)
	require.Contains(t, l.told, "unlisten "+h.Names().Channel)
	waiters, _, channel = table.Line(h.Key)
	require.Zero(t, waiters)
	require.Empty(t, channel)
}

// An attempt in a fair queue is left after a third of the fair wait, and repeated with the same number.
func TestAFairAttemptIsRepeatedInTime(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	table.cfg.CommandTimeout = time.Minute
	h.Kind, h.Key.Family = wire.Fair, wire.FairFamily
	var n notice.List
	a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
	s := table.Admit(a, start, &n)
	require.Equal(t, Ask, s.Do)
	require.Equal(t, table.cfg.FairWait/3, s.Within)
	number := s.Call.Args.Number
	s = table.Settle(a, wire.Reply{N: -1, Err: errSilence}, start, &n)
	require.Equal(t, Sleep, s.Do)
	s = table.Wake(a, ByTime, start, &n)
	require.Equal(t, Ask, s.Do)
	require.Equal(t, number, s.Call.Args.Number)
	s = table.Settle(a, wire.Reply{N: -1 - time.Hour.Milliseconds()}, start, &n)
	require.Equal(t, Sleep, s.Do)
	require.LessOrEqual(t, s.Pause, table.cfg.FairWait/3)
}

// Rule G.5: only a reader that waits leaves a mark, so one that does not wait says so.
func TestAReaderThatDoesNotWaitSaysSo(t *testing.T) {
	t.Parallel()
	for _, single := range [2]bool{false, true} {
		table, _ := lineTable()
		var n notice.List
		h := &Handle{Key: table.Key("name", wire.RWFamily), Kind: wire.Read, Name: "name", Yields: true}
		s := table.Admit(&Attempt{Handle: h, Lease: modelWatchdog, Single: single}, start, &n)
		require.Equal(t, wire.Read.Line.Yield, s.Call.Script)
		waited, ok := s.Call.Args.Extra.(int64)
		require.True(t, ok)
		require.Equal(t, single, waited < 0)
	}
}

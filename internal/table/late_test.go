package table

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// waitOver is a wait that ends when a test says so.
type waitOver struct{ over bool }

func (w *waitOver) Err() error {
	if w.over {
		return context.DeadlineExceeded
	}
	return nil
}

// The caller of an acquire leaves, because its short wait is over, and asks a last time with the same number. The second
// reply overtakes the first one. The lock that was granted is then handed over without asking Redis, so that the next
// owner has the same number. The late reply must not release it.
func TestALateReplyDoesNotReleaseTheNextHolder(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	table.cfg.HandOvers, table.cfg.HandOverTime = 10, time.Second
	var n notice.List
	left := &fault.Error{Fate: fault.Left, Transient: true, Err: context.DeadlineExceeded}
	now := start
	admit := func(a *Attempt) Step {
		a.Handle, a.Lease, a.Renewed = h, modelWatchdog, true
		return table.Admit(a, now, &n)
	}

	canceled := new(waitOver) // the first head leaves before anybody knows about the lock
	head := &Attempt{Wait: canceled, Caller: canceled}
	require.Equal(t, Ask, admit(head).Do)
	short := new(waitOver)
	a := &Attempt{Wait: short}
	require.Equal(t, Sleep, admit(a).Do)
	canceled.over = true
	require.Equal(t, Done, table.Settle(head, wire.Reply{N: -1, Err: left}, now, &n).Do)

	s := table.Wake(a, ByNews, now, &n)
	require.Equal(t, Ask, s.Do)
	first, number := s.Late, s.Number
	short.over = true
	s = table.Settle(a, wire.Reply{N: -1, Err: left}, now, &n)
	require.Equal(t, Ask, s.Do, "nobody has told it yet how it stands")
	require.True(t, s.Outlives)
	s = table.Settle(a, wire.Reply{}, now, &n)
	require.NotNil(t, s.Got)

	next := new(Attempt)
	require.Equal(t, Sleep, admit(next).Do)
	var x Exit
	s = table.Release(&x, s.Got, now, &n)
	if s.Do == Ask {
		require.NotZero(t, s.Call.Args.Millis, "the release refuses the first acquire")
		s = table.SettleRelease(&x, wire.Reply{N: 1}, now, &n)
	}
	require.Equal(t, Step{Do: Done}, s)
	s = table.Wake(next, ByNews, now, &n)
	if s.Do == Ask {
		s = table.Settle(next, wire.Reply{}, now, &n)
	}
	require.NotNil(t, s.Got)

	first.Late(number, wire.Reply{}, now)
	n.Deliver(l)
	var renew []Batch
	var release []*Exit
	for range 2 {
		renew, release = table.Due(now, false, &n)
		require.Empty(t, renew)
		for _, x := range release {
			require.NotEqual(t, s.Got.grant.inRedis().Field, x.grant.inRedis().Field, "this releases the lock of the next owner")
		}
	}
}

// TestALateReplyToAnOlderAttemptIsNotOneToALaterOne has the question of an attempt that has left be answered while that of the next one, which
// joined the queue after it, has no reply. Redis answers, so the silence counts from then; but it counts.
func TestALateReplyToAnOlderAttemptIsNotOneToALaterOne(t *testing.T) {
	t.Parallel()
	table, _, first := tries(t)
	first.Wait, first.Caller = &waitOver{true}, &waitOver{true}
	var n notice.List
	now := start
	left := wire.Reply{N: -1, Err: &fault.Error{Fate: fault.Left, Err: context.Canceled}}
	require.Equal(t, Done, table.Settle(first, left, now, &n).Do)
	next := &Attempt{Handle: first.Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Ask, table.Admit(next, now, &n).Do)
	late := now.Add(time.Second)
	first.grant.Late(first.question, wire.Reply{N: -60_001}, late)
	floor := table.cfg.Floor()
	require.False(t, table.concludes(next, late.Add(floor-1)).Known())
	require.ErrorIs(t, table.concludes(next, late.Add(floor)).Err, fault.ErrNoAnswer)
}

// TestALateReplyToALastQuestionIsNotOneToTheQueue has an attempt leave the local queue, and ask once more by itself, because nothing is known yet. The
// reply comes while the head's next question has none. It says that Redis answers, but not that question.
func TestALateReplyToALastQuestionIsNotOneToTheQueue(t *testing.T) {
	t.Parallel()
	table, _, head := tries(t)
	var n notice.List
	now := start
	last := &Attempt{Handle: head.Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Sleep, table.Admit(last, now, &n).Do)
	s := table.Wake(last, Ended, now, &n)
	require.Equal(t, Ask, s.Do, "nobody has told it yet how it stands")
	require.Equal(t, Sleep, table.Settle(head, refusedInLine(), now, &n).Do)
	left := wire.Reply{N: -1, Err: &fault.Error{Fate: fault.Left, Err: context.Canceled}}
	require.Equal(t, Done, table.Settle(last, left, now, &n).Do)
	require.Equal(t, Ask, table.Wake(head, ByTime, now, &n).Do)
	late := now.Add(time.Second)
	s.Late.Late(s.Number, wire.Reply{N: -60_001}, late)
	floor := table.cfg.Floor()
	require.True(t, table.concludes(head, late.Add(floor-1)).Refused)
	require.ErrorIs(t, table.concludes(head, late.Add(floor)).Err, fault.ErrNoAnswer)
}

// TestALateReplyToALastQuestionIsNotOneToItsFirst has the head's question be under way when its wait ends, and it asks once more by itself. Redis answers
// both, and not the next head.
func TestALateReplyToALastQuestionIsNotOneToItsFirst(t *testing.T) {
	t.Parallel()
	table, _, head := tries(t)
	head.Wait = &waitOver{over: true}
	first := head.question
	var n notice.List
	next := &Attempt{Handle: head.Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Sleep, table.Admit(next, start, &n).Do)
	now := start.Add(time.Millisecond)
	left := wire.Reply{N: -1, Err: &fault.Error{Fate: fault.Left, Err: context.DeadlineExceeded}}
	s := table.Settle(head, left, now, &n)
	require.Equal(t, Ask, s.Do, "nobody has told it yet how it stands")
	require.Equal(t, Ask, table.Wake(next, ByNews, now, &n).Do)
	require.Equal(t, Done, table.Settle(head, left, now, &n).Do)
	late := now.Add(time.Second)
	head.grant.Late(first, wire.Reply{N: -60_001}, late)
	s.Late.Late(s.Number, wire.Reply{N: -60_001}, late)
	require.ErrorIs(t, table.concludes(next, late.Add(table.cfg.Floor())).Err, fault.ErrNoAnswer)
}

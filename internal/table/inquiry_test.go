package table

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// asleep returns a table with an attempt that sleeps in the line since start, while the holder has a lease of a minute.
func asleep(t *testing.T) (*Table, *Attempt) {
	t.Helper()
	table, _, a, _ := waiting(t)
	var n notice.List
	require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
	s := table.Settle(a, wire.Reply{N: -60_001, List: []int64{-60_001, 1, lua.BitHeard, 0}}, start, &n)
	require.Equal(t, Sleep, s.Do)
	require.Negative(t, s.Pause, "it needs no timer")
	return table, a
}

// inquire returns the inquiry about one attempt that is due by a moment.
func inquire(t *testing.T, table *Table, now clock.Instant) *Inquiry {
	t.Helper()
	var n notice.List
	due := table.Inquiries(now, false, &n)
	require.Len(t, due, 1)
	require.Len(t, table.Inquire(&due[0], now).Keys, 2)
	return &due[0]
}

// TestAnInquiryLetsAWaiterSleep has the lock be held for longer. Redis knows of the subscription, so another name whose subscription it does
// not know of says nothing about what hides subscriptions.
func TestAnInquiryLetsAWaiterSleep(t *testing.T) {
	t.Parallel()
	table, a := asleep(t)
	var n notice.List
	require.Empty(t, table.Inquiries(start.Add(wire.FirstTerm-inquiryWindow), false, &n))
	now := start.Add(wire.FirstTerm)
	i := inquire(t, table, now)
	table.unheardSince = start
	table.Inquired(i, now, wire.Reply{List: []int64{2}}, now, &n)
	require.Zero(t, table.unheardSince)
	require.Empty(t, a.bell.C(), "nothing wakes it")
	require.Equal(t, now.Add(wire.FirstTerm), a.place.AskAt)
	require.Equal(t, now.Add(wire.FirstTerm), a.DueAt())
}

// TestAWaiterAsksByItself has an inquiry say that something has changed, or fail. A waiter that woke meanwhile has nothing to do with it.
func TestAWaiterAsksByItself(t *testing.T) {
	t.Parallel()
	now := start.Add(wire.FirstTerm)
	for what, reply := range map[string]wire.Reply{
		"it must": {List: []int64{-1}}, "no reply": {N: -1, Err: errDoubt}, "an error": {N: -1, Err: errRights},
	} {
		table, a := asleep(t)
		var n notice.List
		i := inquire(t, table, now)
		again := *i
		table.Inquired(i, now, reply, now, &n)
		require.Len(t, a.bell.C(), 1, what)
		require.Empty(t, table.Inquire(&again, now).Keys, what)
		s := table.Wake(a, ByNews, now, &n)
		require.Equal(t, Ask, s.Do, what)
		require.Empty(t, table.asleep.All(), what)
		table.Inquired(&again, now, wire.Reply{List: []int64{3}}, now, &n)
		require.Empty(t, table.asleep.All(), "the reply to another copy comes late: %s", what)
	}
}

// TestNewsThatChangesNothingEndsNoInquiry wakes a waiter because a hold of its process is over, while an inquiry about it is under way, or yet to
// be sent. The hold had the lock before the waiter was heard, so that only the inquiry sees that the lock is free.
func TestNewsThatChangesNothingEndsNoInquiry(t *testing.T) {
	t.Parallel()
	now := start.Add(time.Second)
	for _, sent := range []bool{true, false} {
		table, a := asleep(t)
		var n notice.List
		var i *Inquiry
		table.inquireAt(a, now, &n) // as once its subscription is confirmed
		if sent {
			i = inquire(t, table, now)
		}
		s := table.Wake(a, ByNews, now, &n)
		require.Equal(t, Sleep, s.Do)
		require.Negative(t, s.Pause, "it needs no timer, as before")
		if !sent {
			i = inquire(t, table, now)
		}
		table.Inquired(i, now, wire.Reply{List: []int64{-1}}, now, &n)
		require.Len(t, a.bell.C(), 1)
		require.Equal(t, Ask, table.Wake(a, ByNews, now, &n).Do)
		require.Empty(t, table.asleep.All())
	}
}

// TestAnInquiryWithoutAReplyIsAnOutage ends waits while an inquiry has no reply.
func TestAnInquiryWithoutAReplyIsAnOutage(t *testing.T) {
	t.Parallel()
	table, a := asleep(t)
	now := start.Add(wire.FirstTerm)
	inquire(t, table, now)
	floor := table.cfg.Floor()
	require.True(t, table.concludes(a, now.Add(floor-1)).Refused)
	require.ErrorIs(t, table.concludes(a, now.Add(floor)).Err, fault.ErrNoAnswer)
}

// TestWhatIsToldEndsTheSleep has a message tell that the lease of the next holder is short, while an inquiry is under way. Its reply is about the
// holder before.
func TestWhatIsToldEndsTheSleep(t *testing.T) {
	t.Parallel()
	table, a := asleep(t)
	now := start.Add(wire.FirstTerm)
	i := inquire(t, table, now)
	var n notice.List
	table.Hear(a.Handle.Names().Own(), wire.Message{Subject: wire.EndsSoon, Number: a.grant.holder.Number, Term: time.Second}, now, &n)
	table.Inquired(i, now, wire.Reply{List: []int64{2}}, now, &n)
	require.Equal(t, Ask, table.Wake(a, ByNews, now, &n).Do)
}

// TestAWatchBeginsWithALookAtTheLock has a client watch for an attempt. It may have missed that the lock was freed before. The client inquires for an
// attempt that it lets sleep, and pumps for another one, or when a message tells that the lock is free.
func TestAWatchBeginsWithALookAtTheLock(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{false, true} {
		for _, asks := range []bool{false, true} {
			table, a := asleep(t)
			names := a.Handle.Names()
			var n notice.List
			table.Hear(names.Own(), wire.Message{Subject: wire.Watch}, start, &n)
			if asks {
				require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
			}
			table.Freed(names.Base(), told, start, &n)
			if asks || told {
				require.Contains(t, table.pumps, names.Own())
				continue
			}
			require.Empty(t, table.pumps)
			now := start.Add(inquiryGap)
			table.Inquired(inquire(t, table, now), now, wire.Reply{List: []int64{-1}}, now, &n)
			require.Equal(t, Ask, table.Wake(a, ByNews, now, &n).Do, "the lock is free")
		}
	}
}

// checkInquiries checks that a client asks for an attempt if and only if that sleeps without a timer for its place in the line.
func (w *world) checkInquiries() {
	for _, v := range w.verbs {
		a := v.a
		if v.proc.table.closed { // it drops them
			continue
		}
		due := slices.Contains(v.proc.table.asleep.All(), a)
		under := a.inquiry != 0 && w.inquires(v.proc, a)
		switch {
		case a.inquiry != 0 && !under:
			w.failf("Inquiries: none is under way about %s", v)
		case due && under:
			w.failf("Inquiries: two about %s", v)
		case (due || under) != (a.place.Pause > 0):
			w.failf("Inquiries: %v, %v, every %v, about %s", due, under, a.place.Pause, v)
		case (due || under) && (a.phase != resting || !a.place.Stands):
			w.failf("Inquiries: about %s in phase %d", v, a.phase)
		}
	}
}

// inquires reports whether the latest inquiry about an attempt is yet to be sent, or to be answered.
func (w *world) inquires(p *process, a *Attempt) bool {
	about := func(r *renewal) bool {
		return r != nil && r.i != nil && r.proc == p && r.i.number == a.inquiry && slices.Contains(r.i.waiters, a)
	}
	return slices.ContainsFunc(w.batches, about) || slices.ContainsFunc(w.bag, func(f *flight) bool { return about(f.renewal) })
}

// inquire sends an inquiry.
func (w *world) inquire(r *renewal) {
	c := r.proc.table.Inquire(r.i, w.now)
	if len(c.Keys) == 0 {
		return
	}
	for _, a := range r.i.waiters {
		w.evidenceOf(a).ask(w)
	}
	if len(c.Argv)-1 != len(r.i.waiters) || len(r.i.waiters) > modelBatch {
		w.failf("Inquires: %d waiters for %d attempts", len(c.Argv)-1, len(r.i.waiters))
	}
	for _, a := range r.i.waiters {
		if a.phase != resting || a.got != nil || !a.place.Stands {
			w.failf("Inquires: about #%d in phase %d", a.grant.holder.Number, a.phase)
		}
	}
	c.Argv[0] = string(wire.PublishPlain) // the transport fills it in
	w.bag = append(w.bag, &flight{call: c, proc: r.proc, renewal: r, until: w.now.Add(modelCommand)})
	w.logf("c%d inquires about %v", r.proc.index, c.Argv[1:])
}

// inquired takes the reply to an inquiry.
func (w *world) inquired(i *renewal, r wire.Reply) {
	for k, a := range i.i.waiters {
		switch {
		case r.Err != nil:
		case a.inquiry == i.i.number && r.List[k] >= 0:
			*w.evidenceOf(a) = evidence{refused: w.step}
		default:
			w.learnsLate(a.grant, r, i.step)
		}
	}
	i.proc.table.Inquired(i.i, i.sent, r, w.now, &i.proc.notices)
}

// willInquire notes the inquiries that are due.
func (w *world) willInquire(p *process, due []Inquiry) {
	for i := range due {
		w.batches = append(w.batches, &renewal{proc: p, i: &due[i]})
	}
}

// again returns a copy, to be sent on another connection.
func (r *renewal) again() *renewal {
	if r.i != nil {
		i := *r.i
		return &renewal{proc: r.proc, i: &i}
	}
	b := *r.b
	return &renewal{proc: r.proc, b: &b}
}

// TestAnInquiryOfWhichAWaiterNeedsNoReplyIsNoSilence has a message tell a waiter when to ask, while an inquiry about it is under way, or before that
// is sent. Redis answers the inquiry, so the end of the wait is no outage.
func TestAnInquiryOfWhichAWaiterNeedsNoReplyIsNoSilence(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		table, a := asleep(t)
		now := start.Add(wire.FirstTerm)
		var n notice.List
		due := table.Inquiries(now, false, &n)
		require.Len(t, due, 1)
		if sent {
			require.Len(t, table.Inquire(&due[0], now).Keys, 2)
		}
		told := wire.Message{Subject: wire.EndsSoon, Number: a.grant.holder.Number, Term: 2 * time.Second}
		table.Hear(a.Handle.Names().Own(), told, now, &n)
		if sent {
			table.Inquired(&due[0], now, wire.Reply{List: []int64{-1}}, now, &n)
		} else {
			require.Empty(t, table.Inquire(&due[0], now).Keys)
		}
		require.True(t, table.concludes(a, now.Add(table.cfg.Floor())).Refused)
	}
}

package table

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// lineTable returns a table whose waiters stand in the line.
func lineTable() (*Table, *lineClient) {
	c := &lineClient{epoch: 1}
	return New(config.Config{CommandTimeout: modelCommand, PollInterval: modelPoll}, task.New(), c, c), c
}

// try has a caller that does not wait ask Redis for a lock. It returns the script.
func try(tb testing.TB, table *Table, name string, now clock.Instant) (*Attempt, *wire.Script) {
	tb.Helper()
	var n notice.List
	h := &Handle{Key: table.Key(name, wire.PlainFamily), Kind: wire.Plain, Name: name}
	a := &Attempt{Handle: h, Lease: time.Second, Single: true}
	s := table.Admit(a, now, &n)
	require.Equal(tb, Ask, s.Do)
	return a, s.Call.Script
}

// deny has Redis refuse the question of an attempt, which is repeated without the line.
func deny(tb testing.TB, c *lineClient, table *Table, a *Attempt, now clock.Instant) {
	tb.Helper()
	var n notice.List
	s := table.Settle(a, wire.Reply{N: -1, Err: errRights}, now, &n)
	require.Equal(tb, wire.Plain.Acquire, s.Call.Script)
	n.Deliver(c)
}

// Several questions of the line may be under way when Redis refuses the first of them for want of a right.
func TestEveryQuestionOfTheLineIsRepeatedWithoutIt(t *testing.T) {
	t.Parallel()
	table, c := lineTable()
	var all []*Attempt
	for _, name := range []string{"a", "a", "b"} {
		a, script := try(t, table, name, start)
		require.Equal(t, wire.Plain.Line.Acquire, script)
		all = append(all, a)
	}
	for _, a := range all {
		deny(t, c, table, a, start)
	}
	var n notice.List
	s := table.Settle(all[0], wire.Reply{N: -1, Err: errRights}, start, &n)
	require.Equal(t, Done, s.Do)
	require.ErrorIs(t, s.Err, errRights)
	n.Deliver(c)
	require.NotContains(t, strings.Join(c.told, "\n"), notice.LogAllWoken.Text, "nothing works yet")
	for _, a := range all[1:] {
		require.Equal(t, Done, table.Settle(a, wire.Reply{}, start, &n).Do)
	}
	n.Deliver(c)
	require.Equal(t, 1, strings.Count(strings.Join(c.told, "\n"), notice.LogAllWoken.Text), "once, for all names: %v", c.told)
}

// A waiter to which Redis refuses the line goes on without it. No lazy hand-over gives it another number: Redis may have put its own into the
// line before the command that it refused, and nobody would take that out again.
func TestAWaiterThatMayStandInTheLineKeepsItsNumber(t *testing.T) {
	t.Parallel()
	table, c := lineTable()
	table.cfg.Lazy, table.cfg.HandOvers, table.cfg.HandOverTime = true, 10, time.Hour
	h := &Handle{Key: table.Key("a", wire.PlainFamily), Kind: wire.Plain, Name: "a"}
	var n notice.List
	first, next := &Attempt{Handle: h, Lease: time.Minute, Renewed: true}, &Attempt{Handle: h, Lease: time.Minute, Renewed: true}
	require.Equal(t, Ask, table.Admit(first, start, &n).Do)
	require.Equal(t, Sleep, table.Admit(next, start, &n).Do)
	held := table.Settle(first, wire.Reply{}, start, &n).Got
	require.NotNil(t, held)
	require.Equal(t, Sleep, table.Wake(next, ByNews, start, &n).Do, "it is the head now")
	require.Equal(t, Ask, table.Wake(next, ByTime, start, &n).Do)
	deny(t, c, table, next, start)
	require.Equal(t, Sleep, table.Settle(next, wire.Reply{N: -1 - time.Minute.Milliseconds()}, start, &n).Do)

	var x Exit
	require.Equal(t, wire.Plain.HandOver, table.Release(&x, held, start, &n).Call.Script)
	require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{}, start, &n).Do)
	number := next.grant.holder.Number
	held = table.Wake(next, ByNews, start, &n).Got
	require.NotNil(t, held)
	x = Exit{}
	s := table.Release(&x, held, start, &n)
	require.Equal(t, wire.Plain.Line.Release, s.Call.Script, "which takes it out of the line")
	require.Equal(t, number, s.Call.Args.Number)
	require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{N: 1}, start, &n).Do)
	require.Empty(t, table.alive)
}

// A user may have the rights for some names only, and may get them for others later.
func TestOnlyTheNameThatRedisRefusesDoesWithoutTheLine(t *testing.T) {
	t.Parallel()
	table, c := lineTable()
	a, _ := try(t, table, "a", start)
	deny(t, c, table, a, start)
	script := func(name string, now clock.Instant) *wire.Script {
		_, script := try(t, table, name, now)
		return script
	}
	require.Equal(t, wire.Plain.Line.Acquire, script("b", start), "another name")
	require.Equal(t, wire.Plain.Acquire, script("a", start+1))
	require.Equal(t, wire.Plain.Acquire, script("a", start.Add(unlinedFor)-1))
	require.Equal(t, wire.Plain.Line.Acquire, script("a", start.Add(unlinedFor)), "the right may have been granted since")

	a, _ = try(t, table, "a", start.Add(unlinedFor))
	deny(t, c, table, a, start.Add(unlinedFor))
	require.Equal(t, wire.Plain.Acquire, script("a", start.Add(unlinedFor)+1))
	var n notice.List
	for range 2 {
		again, _ := try(t, table, "a", start.Add(unlinedFor)+1)
		require.Equal(t, Done, table.Settle(again, wire.Reply{N: -1001}, start.Add(unlinedFor)+1, &n).Do)
	}
	n.Deliver(c)
	require.Equal(t, 1, strings.Count(strings.Join(c.told, "\n"), notice.LogAllWoken.Text), "the log says so once: %v", c.told)
}

// A user without any of the rights uses many names. Each costs a refused command, and some memory.
func TestAUserWithoutRightsIsNotRefusedForEveryName(t *testing.T) {
	t.Parallel()
	table, c := lineTable()
	refused := 0
	for i := range 10_000 {
		if a, script := try(t, table, strconv.Itoa(i), start); script == wire.Plain.Line.Acquire {
			refused++
			deny(t, c, table, a, start)
		}
	}
	require.LessOrEqual(t, refused, 100)
	_, script := try(t, table, "0", start.Add(unlinedFor))
	require.Equal(t, wire.Plain.Line.Acquire, script)
}

// stands has an attempt stand in the line of a lock that somebody else holds.
func stands(tb testing.TB) (*Table, *Attempt) {
	tb.Helper()
	table, _ := lineTable()
	var n notice.List
	h := &Handle{Key: table.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}
	a := &Attempt{Handle: h, Lease: 3 * time.Second}
	require.Equal(tb, wire.Plain.Line.Acquire, table.Admit(a, start, &n).Call.Script)
	s := table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, 0, 0}}, start, &n)
	require.Equal(tb, h.Names().Own(), s.Listen)
	return table, a
}

// No release reaches a waiter that may not subscribe to its channel. It would only be passed over.
func TestAWaiterThatMayNotListenLeavesTheLine(t *testing.T) {
	t.Parallel()
	for _, gets := range [2]bool{false, true} {
		table, a := stands(t)
		var n notice.List
		own, base := a.Handle.Names().Own(), a.Handle.Names().Base()
		table.Refused([]string{base}, start)
		require.Equal(t, Sleep, table.Wake(a, ByNews, start, &n).Do, "another channel")
		table.Refused([]string{base, own}, start)
		s := table.Wake(a, ByNews, start, &n)
		require.Equal(t, wire.Plain.Acquire, s.Call.Script)

		var x *Exit
		if gets {
			x = new(Exit)
			require.NotNil(t, table.Settle(a, wire.Reply{}, start, &n).Got)
			s = table.Unlock(x, a.Handle, owner.Who{}, start, &n)
		} else {
			s = table.Settle(a, wire.Reply{N: -1000}, start, &n)
			require.Equal(t, base, s.Listen, "it is woken as waiters that know of no line")
			table.Wake(a, Ended, start, &n)
			_, release := table.Due(start, false, &n)
			require.Len(t, release, 1)
			x = release[0]
			s = table.ResumeRelease(x, start, &n)
		}
		require.Equal(t, wire.Plain.Line.Release, s.Call.Script)
		require.Equal(t, "3000", s.Call.Args.Extra, "its standing in the line")
		s = table.SettleRelease(x, wire.Reply{N: -1, Err: errRights}, start, &n)
		require.Equal(t, wire.Plain.Release, s.Call.Script, "the lock is freed in any case")
		s = table.SettleRelease(x, wire.Reply{}, start, &n)
		require.Equal(t, Step{Do: Done}, s)
	}
}

// The refusal of the channel may be known before the attempt stands in the line.
func TestAWaiterThatMayNotListenLeavesTheLineAsSoonAsItStandsThere(t *testing.T) {
	t.Parallel()
	table, a := stands(t)
	var n notice.List
	require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
	table.Refused([]string{a.Handle.Names().Own()}, start)
	s := table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, 0, 0}}, start, &n)
	require.Equal(t, wire.Plain.Acquire, s.Call.Script)
}

// Or the lock may be granted to the attempt while it asks. Then it has the lock, and does not ask for it once more.
func TestAWaiterThatMayNotListenKeepsTheLockThatItGot(t *testing.T) {
	t.Parallel()
	table, a := stands(t)
	var n notice.List
	require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
	table.Refused([]string{a.Handle.Names().Own()}, start)
	table.Hear(a.Handle.Names().Own(), wire.Message{Subject: wire.Granted, Number: a.grant.holder.Number, At: 1, Term: wire.FirstTerm}, start, &n)
	s := table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, 0, 0}}, start, &n)
	require.NotNil(t, s.Got)
	s = table.Unlock(new(Exit), a.Handle, owner.Who{}, start, &n)
	require.Equal(t, wire.Plain.Release, s.Call.Script, "its only acquisition")
}

// A release may have given the lock to the next holder before Redis refused something.
func TestARefusedReleaseFreesTheLock(t *testing.T) {
	t.Parallel()
	table, held, a, _ := waiting(t)
	var n notice.List
	var x Exit
	s := table.Release(&x, held, start, &n)
	require.NotNil(t, s.Call.Args.Other, "it names the head")
	s = table.SettleRelease(&x, wire.Reply{N: -1, Err: errRights}, start, &n)
	require.Equal(t, wire.Plain.Release, s.Call.Script)
	require.Equal(t, Step{Do: Done}, table.SettleRelease(&x, wire.Reply{}, start, &n), "it was freed before")

	require.Equal(t, Done, table.Wake(a, Ended, start, &n).Do)
	_, release := table.Due(start, false, &n)
	require.Len(t, release, 1, "it may have the lock")
}

func TestWaitersLeaveTheLineWhenRedisRefusesAPump(t *testing.T) {
	t.Parallel()
	table, a := stands(t)
	var n notice.List
	own := a.Handle.Names().Own()
	table.pump(a.Handle, 0, &n)
	require.Equal(t, wire.Plain.Line.Pump, table.PumpCall(own).Script)
	table.Pumped(own, wire.Reply{N: -1, Err: errRights}, start, &n)
	require.Len(t, a.bell.C(), 1, "it wakes")
	require.Equal(t, wire.Plain.Acquire, table.Wake(a, ByNews, start, &n).Call.Script)
}

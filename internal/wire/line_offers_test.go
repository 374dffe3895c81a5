package wire_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestOthersAreOfferedTheLockInTurn(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		other := l.others(1)[0]
		l.stand("A1")
		for _, who := range []string{"B2", "C3", "D4", "E5"} {
			l.stand(who)
			l.listen(who[:1])
		}
		given := l.give("A1", "") // (0+1) x 1 < 4
		require.Equal(l, wire.ToWaiter, given.What)
		require.EqualValues(l, 1, given.Others)
		l.stands("C3 D4 E5 #w #n")
		require.Equal(l, wire.ToWaiter, l.give("B2", "").What) // (1+1) x 1 < 3
		l.hearsNothing(other)
		given = l.give("C3", "C6") // (2+1) x 1 >= 2+1
		require.Equal(l, wire.ToPublic, given.What)
		l.hearsFree(other)
		l.holds("")
		l.stands("D4 E5 C6 #o #w #n")
		require.EqualValues(l, 7e15, l.rdb.ZScore(context.Background(), l.key(), "#n").Val(), "counted anew")
		l.wait(time.Millisecond)
		require.EqualValues(l, 1, l.run(l.about(l.sort.plain).pump()).N)
		l.holds("D4")
		require.EqualValues(l, 7e15+1, l.rdb.ZScore(context.Background(), l.key(), "#n").Val())
		require.Equal(l, wire.ToPublic, l.give("D4", "").What) // (1+1) x 1 >= 2
		l.hearsFree(other)
	})
}

// Two processes in which others wait behind each holder give the lock to each other. Whenever one of them has it, only the other
// one stands in the line.
func TestTwoProcessesOfferTheLockToOthers(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		other := l.others(1)[0]
		l.stand("A1")
		l.stand("B2")
		l.listen("A")
		l.listen("B")
		require.Equal(l, wire.ToWaiter, l.give("A1", "A3").What) // (0+1) x 1 < 1+1
		l.hearsNothing(other)
		require.Equal(l, wire.ToPublic, l.give("B2", "B4").What) // (1+1) x 1 >= 1+1
		l.hearsFree(other)
	})
}

// While a lock is offered to others, the line has no claim to it.
func TestAnAttemptThatDoesNotWaitTakesALockThatIsOffered(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.others(1)
		for _, who := range []string{"C9", "fC9"} {
			for inTime := false; !inTime; { // the offer lasts 10 ms
				l.rdb.Del(context.Background(), l.name, l.key())
				l.stand("A1")
				l.stand("B2")
				require.Negative(l, l.try("C8").N, "it does not overtake the line")
				given := l.give("A1", "")
				require.Equal(l, wire.ToPublic, given.What)
				waits := l.run(l.standCall("D7", term))
				r := l.try(who)
				if inTime = l.rdb.Time(context.Background()).Val().UnixMicro()-given.At < 10_000; inTime {
					require.Negative(l, waits.N, "who waits stands behind the line")
					require.True(l, r.Acquired())
					require.Equal(l, who == "fC9", r.N > 0, "a fenced lock has a token")
					l.holds("C9")
					l.stands("B2 D7 #o #w #n")
				}
			}
		}
	})
}

func TestTheNextHolderAloneIsOfferedAgainstOthers(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		other := l.others(2)[1]
		l.stand("A1")
		given := l.give("A1", "A2")
		require.Equal(l, wire.Given{Freed: true, At: given.At, What: wire.ToPublic, Watch: true, Others: 2}, given)
		l.hearsFree(other)
		l.stands("A2 #o #w #n")
		l.wait(10 * time.Millisecond)
		require.Zero(l, l.stand("A2").N)
		l.stands("")
	})
}

// TestAnOfferLasts runs scripts in one transaction, right after a public release. An attempt that does not wait may take the lock then.
func TestAnOfferLasts(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testAnOfferLasts)
}

func testAnOfferLasts(t *testing.T, sort sort) {
	t.Helper()
	l := onLine(t, sort)
	l.others(1)
	l.listen("B")
	for name, c := range map[string]struct {
		call    wire.Call
		replies int64
	}{
		"a newcomer":     {l.standCall("C3", term), -11},
		"the waiter":     {l.standCall("B2", term), -11},
		"a pump":         {l.about(l.sort.plain).pump(), -2},
		"a leave":        {l.giveCall("D4", 0, ""), 0},
		"a late release": {l.giveCall("D4", 0, "D5"), 0},
	} {
		testkit.Eventually(t, name, func() bool { // once the server does not stand still meanwhile
			l.rdb.FlushAll(context.Background())
			l.stand("A1")
			l.stand("B2")
			pipe := l.rdb.TxPipeline()
			evalIn(pipe, l.giveCall("A1", 0, ""))
			cmd := evalIn(pipe, c.call)
			_, err := pipe.Exec(context.Background())
			require.NoError(t, err)
			n, err := cmd.Int64()
			if err != nil {
				list, err := cmd.Int64Slice()
				require.NoError(t, err)
				if n = list[0]; len(list) == 6 && list[2] != int64(wire.ToPublic) {
					return false // the server stood still for the offer, or else: its client looks after the lock
				}
			}
			return n == c.replies && len(testkit.Holders(t, l.rdb, l.name)) == 0
		})
		l.holds("")
		l.wait(time.Millisecond)
		require.EqualValues(t, 1, l.run(l.about(l.sort.plain).pump()).N, name)
		l.holds("B2")
	}
}

// TestWatchersAreAskedFor checks that two processes watch Redisson's channel while somebody waits.
func TestWatchersAreAskedFor(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		asked := func(who string) bool {
			r := l.stand(who)
			place, ok := r.Position()
			require.True(l, ok)
			return place.Watch
		}
		base, twin := l.names(l.sort.plain, "A").Base(), l.names(l.sort.plain, "A").Twin()
		l.stand("A1")
		require.True(l, asked("B2"))
		require.False(l, asked("C3"), "somebody was, within a second")
		l.age("#w", 300)
		require.False(l, asked("C3"))
		l.age("#w", 800)
		require.True(l, asked("C3"))
		l.subscribe(base, twin)
		l.age("#w", 1001)
		require.True(l, asked("D4"), "one is not enough")
		l.age("#w", 1001)
		b, c, d := l.listen("B"), l.listen("C"), l.listen("D")
		given := l.give("A1", "")
		require.False(l, given.Watch, "the others count, and there are none")
		require.Zero(l, given.Others)
		l.hears(b, "granted 2")

		l.others(1)
		l.give("B2", "")
		l.hears(c, "granted 3")
		l.hears(d, "7")
		l.stand("E5")
		require.False(l, asked("E6"))
		l.age("#w", 1001)
		l.age("#n", 1) // or else it is the others' turn
		given = l.give("C3", "C7")
		require.True(l, given.Watch)
		require.Equal(l, wire.ToWaiter, given.What)
		l.hears(d, "granted 4")
		l.subscribe(base, twin)
		l.age("#w", 1001)
		require.False(l, asked("F8"), "two watch")
		l.listen("E")
		require.False(l, l.give("D4", "D9").Watch)
	})
}

// TestAnotherProcessIsAskedToWatch has the only process that watches be the one that asks again. It is asked in vain.
func TestAnotherProcessIsAskedToWatch(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.stand("B2")
		l.stand("C3")
		l.stand("D4")
		b, c := l.listen("B"), l.listen("C")
		l.subscribe(l.names(l.sort.plain, "B").Base(), l.names(l.sort.plain, "B").Twin())
		l.age("#w", 1001)
		r := l.stand("B2")
		place, ok := r.Position()
		require.True(l, ok)
		require.True(l, place.Watch)
		l.hears(c, "7") // D is not reached
		l.age("#w", 1001)
		l.stand("E5")
		l.hears(c, "7")
		l.hearsNothing(b)
	})
}

// TestAPumpOfALockThatIsTakenAsksToWatch, but not the client that has left, which may still stand in the line.
func TestAPumpOfALockThatIsTakenAsksToWatch(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.stand("B2")
		l.stand("C3")
		b, c := l.listen("B"), l.listen("C")
		names := l.names(l.sort.plain, "C")
		require.Zero(l, l.run(l.sort.plain.PumpCall(names, clientID("C"))).N)
		l.hears(b, "7")
		require.Zero(l, l.run(l.sort.plain.PumpCall(names, "")).N)
		l.hears(c, "7")
		l.subscribe(names.Base(), names.Twin())
		require.Zero(l, l.run(l.sort.plain.PumpCall(names, "")).N)
		l.hearsNothing(c)
	})
}

func TestATokenThatIsNoNumber(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		ctx := context.Background()
		key, _ := l.names(l.sort.fenced, "A").LineKeys[2].(string)
		require.NoError(l, l.rdb.Set(ctx, key, "x", 0).Err())
		fails := func(c wire.Call) {
			l.Helper()
			_, err := testkit.RunCall(l.rdb, c)
			require.ErrorContains(l, err, "integer")
		}
		fails(l.standCall("fA1", term))
		l.holds("")
		l.stand("B2")
		l.stand("fC3")
		l.listen("C")
		base := l.subscribe(l.names(l.sort.plain, "A").Base(), l.names(l.sort.plain, "A").Twin())
		l.stands("fC3 #w")
		require.EqualValues(l, 1, l.run(l.about(l.sort.fenced).force()).N, "it is free, but cannot be granted")
		l.hearsFree(base)
		fails(l.about(l.sort.fenced).pump())
		fails(l.standCall("fC3", term))
		fails(l.standCall("fD4", term))
		l.holds("")
		l.stands("fC3 #w")
		for _, next := range []string{"", "fE5"} {
			require.NoError(l, l.makeHolder("D4"))
			given := l.give("fD4", next)
			require.Equal(l, wire.Given{Freed: true}, given, "a release is never refused")
			l.hearsFree(base)
			l.holds("")
		}
		require.False(l, l.give("fC3", "").Freed)
		require.NoError(l, l.makeHolder("D4"))
		require.Equal(l, wire.Given{Freed: true}, l.give("fD4", "fE5"))
		l.hearsFree(base)
		l.holds("")
	})
}

func TestForeignKeysStay(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		ctx := context.Background()
		fails := func(c wire.Call) {
			l.Helper()
			_, err := testkit.RunCall(l.rdb, c)
			require.ErrorContains(l, err, "WRONGTYPE")
		}
		foreign := func(key string) {
			l.Helper()
			require.NoError(l, l.rdb.Set(ctx, key, "x", 0).Err())
		}
		base := l.subscribe(l.names(l.sort.plain, "A").Base(), l.names(l.sort.plain, "A").Twin())
		l.stand("A1")
		l.stand("B2")
		foreign(l.name)
		for _, call := range []wire.Call{
			l.standCall("A1", term), l.standCall("B2", 0), l.giveCall("A1", 0, ""), l.giveCall("A1", 0, "A3"), l.about(l.sort.plain).force(),
		} {
			fails(call)
		}
		require.Zero(l, l.run(l.about(l.sort.plain).pump()).N)
		require.Equal(l, "x", l.rdb.Get(ctx, l.name).Val())
		l.stands("B2 #w")
		fails(l.giveCall("B2", time.Minute, ""))
		l.stands("") // but it has left
		require.Negative(l, l.tombstoned("B2"))

		l.rdb.FlushAll(ctx)
		foreign(l.key())
		fails(l.standCall("A1", term))
		fails(l.about(l.sort.plain).pump())
		for _, next := range []string{"", "A3"} {
			require.NoError(l, l.makeHolder("A1"))
			require.NoError(l, l.rdb.PExpire(ctx, l.name, time.Minute).Err())
			fails(l.standCall("B2", term))
			r := l.try("B2")
			require.Negative(l, r.N)
			require.Zero(l, l.stand("A1").N)
			require.False(l, l.give("B2", "").Freed)
			require.Equal(l, wire.Given{Freed: true}, l.give("A1", next), "a release is never refused")
			l.hearsFree(base)
			l.holds("")
		}
		require.NoError(l, l.makeHolder("A1"))
		require.EqualValues(l, 1, l.run(l.about(l.sort.plain).force()).N)
		l.hearsFree(base)
		require.Equal(l, "x", l.rdb.Get(ctx, l.key()).Val())
	})
}

func TestTheNextWaiterIsToldOfAShortLease(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		const short = 200 * time.Millisecond
		l.stand("A1")
		l.run(l.standCall("B2", short))
		for _, who := range []string{"C3", "D4", "E5"} {
			l.wait(0)
			l.run(l.standCall(who, short))
		}
		b, d, e := l.listen("B"), l.listen("D"), l.listen("E")
		l.give("A1", "")
		l.hears(b, "granted 2")
		l.hears(d, "9 4 200") // C3 is next, but is not reached
		l.hearsNothing(e)

		require.NoError(l, l.rdb.Del(context.Background(), l.name).Err())
		require.EqualValues(l, 1, l.run(l.about(l.sort.plain).pump()).N)
		l.hears(d, "granted 4")
		l.hears(e, "9 5 200")
		l.hearsNothing(d)

		l.run(l.standCall("F6", short))
		f := l.listen("F")
		require.NoError(l, l.rdb.Del(context.Background(), l.name).Err())
		h, n, _ := l.holder("E5")
		c := h.Stand(n, 100*time.Millisecond, short)
		l.age("!"+strings.Replace(l.member("C3"), "20000", "200", 1), 3000)
		require.Zero(l, l.run(c).N)
		l.hears(f, "9 6 100")
	})
}

// TestTheNextWaiterIsToldOfAFirstTerm has a waiter be next that came long ago, so that it may not ask for some time.
func TestTheNextWaiterIsToldOfAFirstTerm(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		const first = 3 * time.Second
		c, d := l.listen("C"), l.listen("D")
		l.listen("B")
		l.stand("A1")
		for _, who := range []string{"B2", "C3", "D4"} {
			l.wait(0)
			l.run(l.standCall(who, first))
		}
		member := func(who string) string { return strings.Replace(l.member(who), "20000", "3000", 1) }
		l.age(member("B2"), 3e6)
		l.age(member("C3"), 2e6)
		l.give("A1", "")
		l.holds("B2")
		l.hears(c, "9 3 3000")
		l.hearsNothing(d)
		l.give("B2", "")
		l.hears(c, "granted 3")
		l.hearsNothing(d) // it has just come, and asks soon
	})
}

package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// standWoken is [line.stand] for a waiter that no script may give the lock to.
func (l *line) standWoken(who string) wire.Reply {
	l.Helper()
	l.wait(0)
	return l.run(l.standCall(who, wire.Woken))
}

// wokenMember returns the member of the line that stands for such a waiter.
func (l *line) wokenMember(who string) string {
	h, n, _ := l.holder(who)
	next := h.Give(n, 0, 0, &wire.Next{Holder: &h, Term: wire.Woken})
	return next.Args.Other.(string)
}

// TestAWaiterThatIsWoken has a waiter in the line to which nobody gives the lock, because it has to take it by itself. It is
// woken alone, and nobody overtakes it.
func TestAWaiterThatIsWoken(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		require.Zero(l, l.stand("A1").N)
		r := l.standWoken("B2")
		place, ok := r.Position()
		require.True(l, ok)
		require.Zero(l, place.Ahead)
		l.standWoken("fC3")
		l.stand("D4")
		b, c, d := l.listen("B"), l.listen("C"), l.listen("D")
		require.Equal(l, wire.ToWaiter, l.give("A1", "").What)
		l.hears(b, "8")
		l.holds("")

		require.Negative(l, l.try("E5").N, "nobody overtakes it")
		l.hears(b, "8")
		r = l.standWoken("fC3")
		require.LessOrEqual(l, r.Hint(), 20*time.Millisecond)
		l.hears(b, "8")
		require.Zero(l, l.standWoken("B2").N)
		l.holds("B2")

		require.Equal(l, wire.ToWaiter, l.give("B2", "").What)
		l.hears(c, "8")
		require.Positive(l, l.standWoken("fC3").N, "it draws its token")
		l.holds("C3")
		require.Equal(l, wire.ToWaiter, l.give("C3", "").What)
		l.hears(d, "granted 4")
		l.holds("D4")
		l.stands("")
		l.hearsNothing(b)
		l.hearsNothing(c)
	})
}

// TestAWokenWaiterThatDoesNotCome keeps the lock free for 3 s. The one behind it asks then.
func TestAWokenWaiterThatDoesNotCome(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.standWoken("B2")
		l.stand("C3")
		l.age(l.member("C3"), 2_000_000)
		l.age(l.wokenMember("B2"), 2_000_000)
		b, c := l.listen("B"), l.listen("C")
		require.Equal(l, wire.ToWaiter, l.give("A1", "").What)
		l.hears(b, "8")
		l.hears(c, "9 3 3000")
		require.Negative(l, l.stand("C3").N)
		l.hears(b, "8")
		l.age("!"+l.wokenMember("B2"), 3000)
		require.Zero(l, l.stand("C3").N)
		l.holds("C3")
		l.stands("")
		l.hearsNothing(c)
	})
}

// TestAWokenWaiterLeaves, and the next one is woken.
func TestAWokenWaiterLeaves(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.standWoken("B2")
		l.standWoken("C3")
		b, c := l.listen("B"), l.listen("C")
		l.give("A1", "")
		l.hears(b, "8")
		h, n, _ := l.holder("B2")
		r := l.run(h.Give(n, time.Minute, wire.Woken, nil))
		require.Equal(l, wire.ToWaiter, r.Gave().What)
		l.hears(c, "8")
		require.Zero(l, l.standWoken("C3").N)
		l.holds("C3")
		l.stands("")
	})
}

// TestAWaiterThatHasLeftIsNotWokenByItsOwnClient has a waiter in the line that has left, as after a failover. Its client has another
// one there. If that one woke its own client whenever it asks, it would ask again at once, for 3 s.
func TestAWaiterThatHasLeftIsNotWokenByItsOwnClient(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.standWoken("B2")
		l.stand("C3")
		l.stand("B4")
		b, c := l.listen("B"), l.listen("C")
		require.Equal(l, wire.ToWaiter, l.give("A1", "").What)
		l.hears(b, "8")
		require.Negative(l, l.try("B5").N, "an attempt that does not wait overtakes nobody")
		l.hears(b, "8")
		require.Negative(l, l.stand("B4").N)
		l.hears(c, "granted 3")
		l.holds("C3")
		require.Equal(l, wire.ToWaiter, l.give("C3", "").What)
		l.hears(b, "8")
		require.Zero(l, l.stand("B4").N)
		l.holds("B4")
		l.hearsNothing(b)
	})
}

// TestATurnOfAWokenWaiterCounts for the others, which have every nth turn.
func TestATurnOfAWokenWaiterCounts(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		for _, who := range []string{"B2", "C3", "D4", "E5"} {
			l.standWoken(who)
			l.listen(who[:1])
		}
		l.others(1)
		for _, turn := range []struct{ leaves, takes string }{{"A1", "B2"}, {"B2", "C3"}} {
			require.Equal(l, wire.ToWaiter, l.give(turn.leaves, "").What, turn.leaves)
			require.Zero(l, l.standWoken(turn.takes).N)
		}
		require.Equal(l, wire.ToPublic, l.give("C3", "").What)
	})
}

// TestDeadWaitersDelayNobody has one waiter that lives behind four that are dead. The script that frees the lock wakes it, although
// somebody watches all channels of the real server. It sends the messages of the others, too: that somebody may pass them on to
// subscribers of whom no script knows.
func TestDeadWaitersDelayNobody(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		for _, who := range []string{"B2", "fC3", "D4", "E5", "F6"} {
			l.standWoken(who)
		}
		everything, f := l.rdb.PSubscribe(l.Context(), "*"), l.listen("F")
		l.Cleanup(func() { _ = everything.Close() })
		_, err := everything.Receive(l.Context())
		require.NoError(l, err)
		require.Equal(l, wire.ToWaiter, l.give("A1", "").What)
		l.hears(f, "8")
		for range 5 {
			l.hears(everything, "8")
		}
		l.hearsNothing(everything)
		require.Zero(l, l.standWoken("F6").N)
		l.holds("F6")
	})
}

// TestTheNextWaiterWatchesWhoeverTakesAFreeLock has a waiter take a lock that nobody released: its lease had ended. The next one may have come
// when there were many before it, so that it does not look at the lock. It must from now on, however long the new lease is.
func TestTheNextWaiterWatchesWhoeverTakesAFreeLock(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.listen("B")
		l.stand("B2")
		c := l.listen("C")
		l.stand("C3")
		l.age(l.member("B2"), 3e6)
		l.age(l.member("C3"), 2e6)
		require.NoError(l, l.rdb.Del(context.Background(), l.name).Err())
		require.GreaterOrEqual(l, l.stand("B2").N, int64(0))
		l.holds("B2")
		l.hears(c, "9 3 3000")
		r := l.stand("C3")
		place, _ := r.Position()
		require.Zero(l, place.Ahead, "it asks within a first term, and watches the lease from then on")
	})
}

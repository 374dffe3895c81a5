package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheHintOfAKeptPermit has a waiter ask while a permit is kept for the one before it: it sleeps until that is over, and no longer.
func TestTheHintOfAKeptPermit(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2x2", "C3")
		b := l.listen("B")
		l.gives("A1x2")
		l.hears(b, "8")
		l.older("B2x2", 2500)
		r := l.stand("C3")
		require.LessOrEqual(l, r.Hint(), 500*time.Millisecond)
	})
}

// TestADeadWaiterForMorePermitsStopsNobody has one at the head of the line that wants more permits than are free, and that died, or is
// stopped.
func TestADeadWaiterForMorePermitsStopsNobody(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		if l.kind.Lasting {
			l.Skip("nobody stops others")
		}
		l.gets("A1", "A2")
		l.refused("B3x2", "C4")
		c := l.listen("C")
		l.gives("A1")
		l.hears(c, "8")
		l.gets("C4")
		l.listen("B") // it lives
		l.refused("D5")
		d := l.listen("D")
		l.gives("C4")
		l.hearsNothing(d)
		l.older("B3x2", 10_000)
		l.gets("D5") // it has not asked for 10 s
		l.refused("B3x2", "E6")
		l.gives("D5")
		l.refused("E6")
	})
}

// TestTheLastQuestionOfAWaiter does not wait, but takes the permit that is kept for it.
func TestTheLastQuestionOfAWaiter(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2x2")
		b := l.listen("B")
		l.gives("A1x2")
		l.hears(b, "8")
		require.Zero(l, l.try("B2x2").N)
		l.waiting()
	})
}

// TestADebtIsNotAnnounced gives back permits of which fewer were set than are out: a watcher must not take the next message of
// Redisson's channel for one of rlock.
func TestADebtIsNotAnnounced(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		base := l.names("A").Base()
		l.gets("A1", "A2")
		l.refused("B3")
		l.subscribe(base)
		watcher := l.subscribe(base, l.names("B").Twin())
		l.run(l.calls().AddPermits(1002, -1))
		l.gives("A1")
		l.hearsNothing(watcher)
	})
}

// TestAPumpAsksToWatch also when a permit is free, but not enough for the one that waits.
func TestAPumpAsksToWatch(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1")
		l.refused("B2x2", "D3x2")
		b, d := l.listen("B"), l.listen("D")
		l.run(l.kind.PumpCall(l.names("D"), clientID("D"))) // the watcher D has left
		l.hears(b, "7")
		l.run(l.kind.PumpCall(l.names("D"), ""))
		l.hears(d, "7")
		l.hearsNothing(d)
	})
}

// TestAReleaseThatCannotGiveBack replies Redis's error, also when somebody waits.
func TestAReleaseThatCannotGiveBack(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2")
		require.NoError(l, l.rdb.Del(l.Context(), l.name).Err())
		require.NoError(l, l.rdb.HSet(l.Context(), l.name, "a", 1).Err())
		h, n := l.holder("A1x2")
		_, err := runCall(l.rdb, h.Give(n, 0, 0, nil))
		require.ErrorContains(l, err, "WRONGTYPE")
	})
}

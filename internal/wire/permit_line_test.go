package wire_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// permitLine is a semaphore with its line. Its clients are A, B, C and so on. A holder is a client and a number, as in B7, and for
// two permits B7x2.
type permitLine struct {
	line
	kind *wire.Kind
}

// onPermitLines runs a test on the embedded server and on a real one, for both semaphores, set up with two permits.
func onPermitLines(t *testing.T, test func(*permitLine)) {
	t.Helper()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for _, kind := range []*wire.Kind{wire.Permit, wire.PlainPermit} {
			t.Run(kind.Noun, func(t *testing.T) {
				l := &permitLine{line{T: t, rdb: rdb, name: testkit.NewName()}, kind}
				l.run(l.calls().SetUp(1000, 2, 0))
				test(l)
			})
		}
	})
}

func (l *permitLine) names(client string) *wire.Names {
	return wire.NewNames(l.kind, l.name, clientID(client))
}

func (l *permitLine) calls() wire.Semaphore { return wire.NewSemaphore(l.names("A")) }

func (l *permitLine) holder(who string) (wire.Holder, *wire.Names) {
	l.Helper()
	number, permits, _ := strings.Cut(who[1:], "x")
	n, err := strconv.ParseInt(number, 10, 64)
	require.NoError(l, err)
	many, _ := strconv.Atoi(permits)
	names := l.names(who[:1])
	return wire.NewHolder(l.kind.Of(many), names, clientID(who[:1]), n), names
}

func (l *permitLine) standCall(who string, term time.Duration) wire.Call {
	h, n := l.holder(who)
	return h.Stand(n, time.Minute, term)
}

// stand asks for permits, and waits in the line if it is refused.
func (l *permitLine) stand(who string) wire.Reply {
	l.Helper()
	l.wait(0)
	return l.run(l.standCall(who, wire.Woken))
}

// gets has holders get their permits.
func (l *permitLine) gets(all ...string) {
	l.Helper()
	for _, who := range all {
		r := l.stand(who)
		require.GreaterOrEqual(l, r.N, int64(0), who)
	}
}

// refused has waiters be refused, in this order, and stand in the line.
func (l *permitLine) refused(all ...string) {
	l.Helper()
	for _, who := range all {
		r := l.stand(who)
		require.Negative(l, r.N, who)
		place, ok := r.Position()
		require.True(l, ok)
		require.GreaterOrEqual(l, place.Ahead, int64(0), who)
	}
}

func (l *permitLine) try(who string) wire.Reply {
	l.Helper()
	return l.run(l.standCall(who, 0))
}

// gives has a holder give back its permits.
func (l *permitLine) gives(who string) {
	l.Helper()
	h, n := l.holder(who)
	r := l.run(h.Give(n, 0, 0, nil))
	require.EqualValues(l, 1, r.N)
}

// leaves has a waiter leave the line.
func (l *permitLine) leaves(who string) {
	l.Helper()
	h, n := l.holder(who)
	r := l.run(h.Give(n, 0, wire.Woken, nil))
	require.Zero(l, r.N)
}

func (l *permitLine) listen(client string) *redis.PubSub { return l.subscribe(l.names(client).Own()) }

func (l *permitLine) key() string {
	keys := l.names("A").LineKeys
	key, _ := keys[len(keys)-1].(string)
	return key
}

func (l *permitLine) member(who string) string {
	h, _ := l.holder(who)
	return fmt.Sprintf("%s|0", h.Field)
}

// older makes the mark of a waiter older by some ms.
func (l *permitLine) older(who string, ms float64) {
	l.Helper()
	l.ageIn(l.key(), "!"+l.member(who), ms)
}

// waiting checks who stands in the line, in its order.
func (l *permitLine) waiting(want ...string) {
	l.Helper()
	members := make([]string, 0)
	for _, m := range l.rdb.ZRange(l.Context(), l.key(), 0, -1).Val() {
		if m[0] != '!' && m[0] != '#' {
			members = append(members, m)
		}
	}
	wanted := make([]string, 0)
	for _, who := range want {
		wanted = append(wanted, l.member(who))
	}
	require.Equal(l, wanted, members)
}

// TestPermitsGoToTheFirstInTheLine releases permits while others wait: as many of them are told as get permits, and nobody
// overtakes these.
func TestPermitsGoToTheFirstInTheLine(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1", "A2")
		l.refused("B3", "C4", "D5")
		b, c, d, public := l.listen("B"), l.listen("C"), l.listen("D"), l.subscribe(l.names("A").Base())
		require.NoError(l, public.Unsubscribe(l.Context(), l.names("A").Base()))
		testkit.Eventually(l, "nobody else listens", func() bool {
			return l.rdb.PubSubNumSub(l.Context(), l.names("A").Base()).Val()[l.names("A").Base()] == 0
		})
		l.gives("A1")
		l.hears(b, "8")
		require.Negative(l, l.try("E6").N, "a newcomer does not overtake")
		l.refused("F7", "C4")
		l.gives("A2")
		l.hears(c, "8")
		l.hearsNothing(b) // it was told
		l.hearsNothing(d)
		require.Negative(l, l.try("E8").N)
		l.gets("C4", "B3")
		l.waiting("D5", "F7")
		l.gives("B3")
		l.hears(d, "8")
	})
}

// TestAWaiterForMorePermitsIsNotOvertaken has one that wants two permits at the head of the line. Nobody knows whether a plain
// semaphore will ever have so many.
func TestAWaiterForMorePermitsIsNotOvertaken(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		if l.kind.Lasting {
			l.gets("A1", "A2")
			l.refused("B3x2", "C4")
			b, c := l.listen("B"), l.listen("C")
			l.gives("A1")
			l.hears(c, "8")
			l.hearsNothing(b)
			l.gets("C4")
			l.waiting("B3x2")
			return
		}
		l.gets("A1", "A2")
		l.refused("B3x2", "C4")
		b, c := l.listen("B"), l.listen("C")
		l.gives("A1")
		require.Negative(l, l.try("D5").N)
		l.refused("C4", "B3x2")
		l.gives("A2")
		l.hears(b, "8")
		l.hearsNothing(c)
		l.gets("B3x2")
		l.gives("B3x2")
		l.hears(c, "8")
		l.gets("C4", "D6")
		l.waiting()
	})
}

// TestAWaiterForMoreThanThereAreBlocksNobody has the head of the line wait for what it cannot get.
func TestAWaiterForMoreThanThereAreBlocksNobody(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2x3", "C3")
		b, c := l.listen("B"), l.listen("C")
		l.gives("A1x2")
		l.hears(c, "8")
		l.gets("D4")
		l.refused("B2x3")
		l.gets("C3")
		l.run(l.calls().AddPermits(1002, 3))
		l.hears(b, "8")
		l.gets("B2x3")
	})
}

// TestAsManyAreToldAsFit releases two permits at once.
func TestAsManyAreToldAsFit(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2", "C3", "D4")
		b, c, d := l.listen("B"), l.listen("C"), l.listen("D")
		l.gives("A1x2")
		l.hears(b, "8")
		l.hears(c, "8")
		l.leaves("B2") // its permit goes on
		l.hears(d, "8")
		l.gets("D4", "C3")
		l.waiting()
	})
}

// TestAToldWaiterThatDoesNotCome keeps a permit for 3 s. The one behind it knows when to ask.
func TestAToldWaiterThatDoesNotCome(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2x2", "C3x2")
		require.NoError(l, l.rdb.ZAdd(l.Context(), l.key(), redis.Z{Score: 1, Member: l.member("B2x2")}, redis.Z{Score: 2, Member: l.member("C3x2")}).Err())
		b, c := l.listen("B"), l.listen("C")
		l.gives("A1x2")
		l.hears(b, "8")
		l.hears(c, "9 3 3000")
		l.refused("C3x2")
		l.older("B2x2", 3000)
		l.gets("C3x2")
		l.waiting()
	})
}

// TestAnUnreachedWaiterForAPermitIsPassedOver keeps its place for 3 s.
func TestAnUnreachedWaiterForAPermitIsPassedOver(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2", "C3", "D4", "E5")
		c, d, e := l.listen("C"), l.listen("D"), l.listen("E")
		l.gives("A1x2")
		l.hears(c, "8")
		l.hears(d, "8")
		l.gets("C3", "D4")
		l.waiting("B2", "E5")
		l.gives("C3")
		l.hears(e, "8")
		l.older("B2", 3000)
		l.gives("D4") // the other one is for E
		l.waiting("E5")
		l.gets("E5")
	})
}

// TestOthersHearOfFreePermits has somebody listen who knows of no line, and a watcher, who does not act on that.
func TestOthersHearOfFreePermits(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		base := l.names("A").Base()
		other := l.subscribe(base)
		l.gets("A1", "A2")
		l.refused("B3")
		l.run(l.kind.PumpCall(l.names("A"), "")) // nothing is free
		b := l.listen("B")
		l.gives("A1")
		l.hears(b, "8")
		l.hears(other, "1")
		watcher := l.subscribe(base, l.names("A").Twin())
		l.gives("A2")
		l.hears(watcher, "5")
		l.hears(watcher, "2")
		l.hears(other, "2")
		l.gets("B3")
	})
}

// TestPermitsThatOthersGiveBack become known to a watcher, whose pump tells the first one in the line.
func TestPermitsThatOthersGiveBack(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A1x2")
		l.refused("B2", "C3", "D4")
		b, c, d := l.listen("B"), l.listen("C"), l.listen("D")
		l.subscribe(l.names("D").Base(), l.names("D").Twin())          // D watches
		require.NoError(l, l.rdb.IncrBy(l.Context(), l.name, 2).Err()) // as Redisson does
		require.EqualValues(l, 1, l.run(l.kind.PumpCall(l.names("D"), "")).N)
		l.hears(b, "8")
		l.hears(c, "8")
		l.hearsNothing(d)
		l.gets("B2", "C3")
	})
}

// TestPermitsThatAreGivenBackByID go to the first in the line.
func TestPermitsThatAreGivenBackByID(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		if l.kind.Lasting {
			l.Skip("has no ids")
		}
		l.gets("A1x2")
		l.refused("B2")
		b := l.listen("B")
		h, n := l.holder("A1x2")
		id, err := wire.ParsePermitID(h.PermitIDs(clientID("A"))[0])
		require.NoError(l, err)
		require.EqualValues(l, 1, l.run(wire.NewSemaphore(n).GiveBack(1002, []string{id})).N)
		l.hears(b, "8")
		l.gets("B2")
	})
}

// TestALineBeforeASetUp has waiters stand in the line of a semaphore that nobody has set up, but none that would set it up.
func TestALineBeforeASetUp(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.name = testkit.NewName()
		r := l.stand("A1")
		require.True(l, r.NotSetUp())
		place, ok := r.Position()
		require.True(l, ok)
		require.Zero(l, place.Ahead)
		c := l.standCall("B2", wire.Woken)
		c.Args.Other = 1
		r = l.run(c)
		require.True(l, r.NotSetUp())
		r = l.try("B3")
		require.True(l, r.NotSetUp())
		l.waiting("A1")
		a := l.listen("A")
		require.EqualValues(l, -1, l.run(l.calls().SetUp(1001, 1, 0)).N)
		l.hears(a, "8")
		l.gets("A1")
	})
}

// TestALeaseThatIsOverGoesToTheFirst has somebody far behind find out.
func TestALeaseThatIsOverGoesToTheFirst(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		if l.kind.Lasting {
			l.Skip("has no leases")
		}
		l.gets("A1", "A2")
		l.refused("B3", "C4")
		b := l.listen("B")
		leases, _ := l.names("A").Keys[1].(string)
		first := l.rdb.ZRange(l.Context(), leases, 0, 0).Val()[0]
		require.NoError(l, l.rdb.ZAdd(l.Context(), leases, redis.Z{Score: 1, Member: first}).Err())
		l.refused("C4")
		l.hears(b, "8")
		l.gets("B3")
	})
}

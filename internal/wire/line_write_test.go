package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// onBothRW runs a test of a read-write lock on the embedded server and on a real one.
func onBothRW(t *testing.T, test func(*line)) {
	t.Helper()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		test(&line{t, rdb, testkit.NewName(), writeSort})
	})
}

// reads takes the read lock for a while. writer is the same owner's hold of the write lock, or empty.
func (l *line) reads(who, writer string, lease time.Duration) bool {
	l.Helper()
	h, n, _ := l.holder(who)
	var other any
	if writer != "" {
		w, _, _ := l.holder(writer)
		other = w.Field
	}
	r := l.run(h.Acquire(n, lease, other))
	return r.Acquired()
}

// state returns the fields of the lock, and how long it lasts.
func (l *line) state() (map[string]string, time.Duration) {
	l.Helper()
	return testkit.Holders(l, l.rdb, l.name), l.rdb.PTTL(context.Background(), l.name).Val()
}

// offers checks what watchers hear of a public release, on the channel and on its twin.
func (l *line) offers(watcher *redis.PubSub) {
	l.Helper()
	for _, message := range l.sort.free {
		l.hears(watcher, "5")
		l.hears(watcher, message)
	}
}

func TestReadersAndWritersTakeTurns(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		l.stand("A1")
		readers := l.others(2) // C and D want to read
		require.False(l, l.reads("rC3", "", time.Minute))
		l.stand("B2")
		l.stand("E5")
		watcher := l.subscribe(l.names(wire.Write, "B").Base(), l.names(wire.Write, "B").Twin())
		b, e := l.listen("B"), l.listen("E")

		require.Equal(l, wire.ToPublic, l.give("A1", "").What) // (0+1) x 2 >= 2
		l.offers(watcher)
		l.hearsFree(readers[0])
		l.hearsFree(readers[1])
		require.True(l, l.reads("rC3", "", time.Minute))
		require.True(l, l.reads("rD4", "", time.Minute), "readers share")
		l.wait(time.Millisecond)
		require.Zero(l, l.run(l.about(wire.Write).pump()).N)

		require.Equal(l, wire.Given{Freed: true}, l.give("rC3", ""), "another one reads")
		given := l.give("rD4", "")
		require.Equal(l, wire.Given{Freed: true, At: given.At, What: wire.ToWaiter, Others: 2}, given, "it is the writers' turn")
		l.hears(b, "granted 2")
		l.holds("B2")
		l.hearsNothing(readers[0])

		require.Equal(l, wire.ToPublic, l.give("B2", "").What)
		l.offers(watcher)
		l.wait(time.Millisecond)
		require.EqualValues(l, 1, l.run(l.about(wire.Read).pump()).N, "no reader came")
		l.hears(e, "granted 5")
		l.holds("E5")
		require.Equal(l, wire.Given{Freed: true}, l.give("E5", ""))
		l.hearsFree(watcher)
	})
}

// TestAnOfferKeepsNoReaderWaiting runs scripts in one transaction, right after a public release.
func TestAnOfferKeepsNoReaderWaiting(t *testing.T) {
	t.Parallel()
	l := onLine(t, writeSort)
	ctx := context.Background()
	l.others(1)
	b := l.listen("B")
	reader, names, _ := l.holder("rC3")
	require.Eventually(t, func() bool {
		l.rdb.FlushAll(ctx)
		l.stand("A1")
		l.stand("B2")
		pipe := l.rdb.TxPipeline()
		var last *redis.Cmd
		for _, c := range []wire.Call{
			l.giveCall("A1", 0, ""), reader.Acquire(names, time.Minute, nil), l.standCall("D4", term), l.giveCall("rC3", 0, ""),
		} {
			last = evalIn(pipe, c)
		}
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
		l.hears(b, "7") // nobody watches
		list, err := last.Int64Slice()
		require.NoError(t, err)
		require.Len(t, list, 6)
		if list[2] == int64(wire.ToPublic) { // another reader may be slower
			return true
		}
		l.hears(b, "granted 2") // the offer was over
		return false
	}, 5*time.Second, time.Millisecond)
	l.wait(time.Millisecond)
	require.EqualValues(t, 1, l.run(l.about(wire.Write).pump()).N)
	require.True(t, l.rdb.HExists(ctx, l.name, clientID("B")+":2:write").Val())
	l.hears(b, "granted 2")
}

func TestAReadReleaseThatNobodyHears(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		require.True(l, l.reads("rA1", "", time.Minute))
		l.stand("B2")
		base := l.others(1)[0]
		given := l.give("rA1", "")
		require.Equal(l, wire.Given{Freed: true, At: given.At, Others: 1}, given)
		l.hears(base, "0")
		l.holds("")
		l.stands("B2 #w !B2")
		require.Equal(l, wire.Given{}, l.give("rA1", ""), "it has left already")
		l.hearsNothing(base)

		require.True(l, l.reads("rA3", "", time.Minute))
		l.rdb.Del(context.Background(), l.key())
		require.Equal(l, wire.Given{Freed: true}, l.give("rA3", ""), "nobody waits")
		l.hears(base, "0")
		l.holds("")

		l.stand("A1")
		require.Equal(l, wire.Given{}, l.give("rA3", ""))
		l.holds("A1")
		require.NoError(l, l.rdb.Set(context.Background(), l.name, "x", 0).Err())
		_, err := testkit.RunCall(l.rdb, l.giveCall("rA3", 0, ""))
		require.ErrorContains(l, err, "WRONGTYPE")
	})
}

func TestAReaderWithATombstoneReadsNothing(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		l.run(l.giveCall("rA1", time.Minute, ""))
		require.False(l, l.reads("rA1", "", time.Minute))
		l.holds("")
	})
}

func TestAWriterThatStillReads(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		l.stand("A1")
		require.True(l, l.reads("rA2", "A1", 2*time.Second))
		l.stand("B3")
		l.stand("C4")
		b, base := l.listen("B"), l.others(1)[0]
		require.Equal(l, wire.Given{Freed: true}, l.give("A1", "A5"))
		l.hears(base, "1")
		l.hears(base, "0")
		fields, left := l.state()
		require.Equal(l, map[string]string{"mode": "read", clientID("A") + ":2": "1"}, fields)
		require.LessOrEqual(l, left, 2*time.Second, "a dead reader blocks writers for its own lease")
		m, err := b.ReceiveTimeout(context.Background(), 5*time.Second)
		require.NoError(l, err)
		told, ok := wire.ParseMessage(m.(*redis.Message).Payload)
		require.True(l, ok)
		require.Equal(l, wire.EndsSoon, told.Subject, "the first in the line knew a longer lease")
		require.EqualValues(l, 3, told.Number)
		require.InDelta(l, 2*time.Second, told.Term, float64(time.Second))
		require.True(l, l.reads("rD6", "", time.Minute))
		l.give("rA2", "")
		l.give("rD6", "")
		l.hears(b, "granted 3")
		l.holds("B3")
		l.stands("C4 #w #n")
	})
}

func TestAReaderThatHeldLongest(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		require.True(l, l.reads("rA1", "", time.Minute))
		require.True(l, l.reads("rA2", "", 2*time.Second))
		l.stand("B3")
		b, base := l.listen("B"), l.others(1)[0]
		require.Equal(l, wire.Given{Freed: true}, l.give("rA1", ""))
		l.hears(base, "0")
		_, left := l.state()
		require.LessOrEqual(l, left, 2*time.Second)
		m, err := b.ReceiveTimeout(context.Background(), 5*time.Second)
		require.NoError(l, err)
		told, _ := wire.ParseMessage(m.(*redis.Message).Payload)
		require.Equal(l, wire.EndsSoon, told.Subject)

		require.True(l, l.reads("rA4", "", time.Second))
		require.Equal(l, wire.Given{Freed: true}, l.give("rA4", ""), "a shorter one changes nothing")
		l.hearsNothing(b)
		l.hearsNothing(base)
	})
}

func TestEachSideIsUnlockedByForce(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		require.True(l, l.reads("rA1", "", time.Minute))
		l.stand("B2")
		b, base := l.listen("B"), l.others(1)[0]
		require.Zero(l, l.run(l.about(wire.Write).force()).N, "nobody writes")
		require.EqualValues(l, 1, l.run(l.about(wire.Read).force()).N)
		l.hears(b, "granted 2")
		l.holds("B2")
		require.Zero(l, l.run(l.about(wire.Read).force()).N, "nobody reads")
		l.holds("B2")
		require.EqualValues(l, 1, l.run(l.about(wire.FencedWrite).force()).N)
		l.hearsFree(base)
		l.holds("")
		require.True(l, l.reads("rA3", "", time.Minute))
		require.EqualValues(l, 1, l.run(l.about(wire.Read).force()).N)
		l.hears(base, "0")
		l.stands("")
	})
}

func TestAReaderDrawsNoTokens(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		require.True(l, l.reads("rA1", "", time.Minute))
		l.stand("fB2")
		b := l.listen("B")
		require.Equal(l, wire.ToWaiter, l.give("rA1", "").What)
		l.hears(b, "8")
		l.holds("")
		require.Positive(l, l.stand("fB2").N, "a token")
		l.holds("fB2")
		l.stand("fC3")
		c := l.listen("C")
		require.Equal(l, wire.ToWaiter, l.give("fB2", "").What)
		l.hears(c, "granted 3")
	})
}

// TestAReadReleaseWhileASlotMoves checks that a release never loses anything while a slot is moving.
func TestAReadReleaseWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	name := testkit.NewName()
	from := cluster.MasterOf(t, name)
	l := &line{t, from.Client(t), name, writeSort}
	ctx := context.Background()
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	slot, target := wire.Slot(name), to.Client(t).ClusterMyID(ctx).Val()
	base := l.rdb.SSubscribe(ctx, l.names(wire.Write, "A").Base())
	t.Cleanup(func() { _ = base.Close() })
	_, err := base.Receive(ctx)
	require.NoError(t, err)
	b := l.rdb.SSubscribe(ctx, l.names(wire.Write, "B").Own())
	t.Cleanup(func() { _ = b.Close() })
	_, err = b.Receive(ctx)
	require.NoError(t, err)
	for who, free := range map[string][]string{"A1": {"1", "0"}, "rA3": {"0"}} {
		if who == "A1" {
			require.Zero(t, l.stand(who).N)
		} else {
			require.True(t, l.reads(who, "", time.Minute))
		}
		l.stand("B2")
		for _, key := range l.giveCall(who, 0, "").Keys { // otherwise Redis does not run the script
			if key, _ := key.(string); l.rdb.Exists(ctx, key).Val() == 0 {
				require.NoError(t, l.rdb.HSet(ctx, key, 7, 1).Err())
			}
		}
		require.NoError(t, l.rdb.Do(ctx, "cluster", "setslot", slot, "migrating", target).Err())
		c := l.giveCall(who, 0, "")
		c.Args.Publish = wire.PublishSharded
		r := l.run(c)
		require.Equal(t, wire.Given{Freed: true}, r.Gave(), who)
		for _, message := range free {
			l.hears(base, message)
		}
		require.NoError(t, l.rdb.Do(ctx, "cluster", "setslot", slot, "stable").Err())
		l.hearsNothing(b)
		l.holds("")
	}
}

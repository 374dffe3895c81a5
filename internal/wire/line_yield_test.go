package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// once is given for how long a reader has waited that does not wait.
const once = -time.Microsecond

// yields takes the read lock, unless it has to wait for a writer, given for how long it has waited. writer is as for reads.
func (l *line) yields(who, writer string, waited time.Duration) *wire.Reply {
	l.Helper()
	h, n, _ := l.holder(who)
	var other any
	if writer != "" {
		w, _, _ := l.holder(writer)
		other = w.Field
	}
	r := l.run(h.Yield(n, time.Minute, waited, other))
	return &r
}

// refuses checks that a reader has to wait, and for how long.
func (l *line) refuses(who string, waited, hint time.Duration) {
	l.Helper()
	r := l.yields(who, "", waited)
	require.False(l, r.Acquired())
	require.InDelta(l, hint, r.Hint(), float64(time.Second))
}

func (l *line) admits(who string, waited time.Duration) {
	l.Helper()
	r := l.yields(who, "", waited)
	require.True(l, r.Acquired(), "%v", r)
}

// old makes a waiter one that came a second before, so that it has subscribed by now, if it is alive.
func (l *line) old(who string) {
	l.Helper()
	l.ageIn(l.key(), l.member(who), 1e6)
}

func TestAReaderYieldsToAWriterThatWaits(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		base := l.others(1)[0]
		l.admits("rA1", 0)
		l.admits("rC2", 0)
		b := l.listen("B")
		l.stand("B3")
		l.old("B3")
		l.refuses("rD4", 0, 3*time.Second)
		l.stands("B3 #r #w")
		require.True(l, l.reads("rE5", "", time.Minute), "without the option it joins")
		l.admits("rC2", 0) // a repetition
		require.True(l, l.yields("rD4", "", 10*time.Second).Acquired(), "it came before the writer")
		for _, reader := range []string{"rC2", "rD4", "rE5", "rA1"} {
			l.give(reader, "")
		}
		l.hears(b, "granted 3")
		l.stands("#r #w #n")
		l.hearsNothing(base)
		l.refuses("rF6", 10*time.Second, term) // somebody writes
		require.Equal(l, wire.ToNobody, l.give("B3", "").What)
		l.hearsFree(base)
		l.stands("")
		l.admits("rF6", 0)
	})
}

func TestAWriterThatLeavesLetsInWhoWaited(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		l.stand("A1")
		base := l.others(1)[0]
		for _, writer := range []string{"B2", "C3", "D4"} {
			l.listen(writer[:1])
			l.stand(writer)
		}
		l.refuses("rE5", 0, time.Minute)
		require.Equal(l, wire.ToPublic, l.give("A1", "").What, "three writers wait, and one process of readers")
		l.stands("B2 C3 D4 #o #w #n")
		l.hearsFree(base)
		l.admits("rE5", time.Second)
		l.age("#o", -1e3) // the clock was behind
		l.refuses("rG7", 0, 3*time.Second)
		l.age("#o", 1e3)
		l.wait(20 * time.Millisecond)
		l.admits("rH8", time.Second)
		l.refuses("rF6", 0, 3*time.Second)
		l.give("rE5", "")
		require.Equal(l, wire.ToWaiter, l.give("rH8", "").What)
		l.holds("B2")
		require.Equal(l, wire.ToPublic, l.give("B2", "").What, "of those who were refused")
		l.hearsFree(base)
		l.wait(20 * time.Millisecond)
		l.refuses("rI9", 0, 3*time.Second) // and gives the free lock to the writer
		l.holds("C3")
		require.Equal(l, wire.ToPublic, l.give("C3", "").What)
	})
}

// TestALaterReaderLeavesAnOfferToThoseWhoWaited runs scripts in one transaction, right after a public release.
func TestALaterReaderLeavesAnOfferToThoseWhoWaited(t *testing.T) {
	t.Parallel()
	l := onLine(t, writeSort)
	ctx := context.Background()
	l.others(1)
	l.listen("B")
	reader, names, _ := l.holder("rC3")
	require.Eventually(t, func() bool {
		l.rdb.FlushAll(ctx)
		l.stand("A1")
		l.stand("B2")
		l.wait(0)
		pipe := l.rdb.TxPipeline()
		evalIn(pipe, l.giveCall("A1", 0, ""))
		later := evalIn(pipe, reader.Yield(names, time.Minute, 0, nil))
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
		hint, err := later.Int64()
		require.NoError(t, err)
		require.Negative(t, hint)
		return hint == -1-10 // otherwise the offer was over
	}, 5*time.Second, time.Millisecond)
	l.holds("")
}

// TestAWriterThatGivesUpTellsReaders also has writers that leave while somebody else writes, or while nobody waits for them.
func TestAWriterThatGivesUpTellsReaders(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		base := l.others(1)[0]
		l.admits("rA1", 0)
		l.stand("B2")
		l.give("B2", "")
		l.hearsNothing(base)
		l.stand("B2")
		l.stand("C3")
		l.refuses("rD4", 0, 3*time.Second)
		l.give("B2", "")
		l.hearsFree(base)
		l.refuses("rD4", 0, 3*time.Second)
		l.give("C3", "")
		l.hearsFree(base)
		l.admits("rD4", 0)
		l.give("rA1", "")
		l.give("rD4", "")
		l.hears(base, "0")

		l.stand("A5")
		l.stand("B6")
		l.refuses("rD7", 0, time.Minute)
		l.give("B6", "")
		l.hearsNothing(base)
		l.give("A5", "")
		l.hearsFree(base)
	})
}

// TestAWokenWriterThatGivesUpTellsReaders has a writer that was told to ask for a free lock.
func TestAWokenWriterThatGivesUpTellsReaders(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		base, b := l.others(1)[0], l.listen("B")
		l.admits("rA1", 0)
		h, n, _ := l.holder("B2")
		l.run(h.Stand(n, time.Minute, wire.Woken))
		require.Equal(l, wire.ToWaiter, l.give("rA1", "").What)
		l.hears(b, "8")
		l.refuses("rC3", 0, 3*time.Second)
		l.hears(b, "8")
		l.run(h.Give(n, 0, wire.Woken, nil))
		l.hearsFree(base)
		l.admits("rC3", 0)
	})
}

func TestADeadWriterIsPassedOverByReaders(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		l.admits("rA1", 0)
		l.stand("B2")
		l.refuses("rC3", 0, 3*time.Second) // it may be about to subscribe
		l.old("B2")
		l.admits("rC3", 0)
		l.listen("D")
		l.stand("D4")
		l.refuses("rE5", 0, 3*time.Second)
		require.NoError(l, l.rdb.Del(context.Background(), l.name).Err())
		l.refuses("rE5", 0, 3*time.Second) // and gives the lock to the writer
		l.holds("D4")
		require.NoError(l, l.rdb.Del(context.Background(), l.name).Err())
		l.admits("rE5", 0)
	})
}

func TestAnOwnerThatWritesYieldsToNobody(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		base := l.others(1)[0]
		l.stand("A1")
		l.listen("B")
		l.stand("B2")
		require.True(l, l.yields("rA3", "A1", 0).Acquired())
		l.refuses("rC4", 0, time.Minute)
		l.give("A1", "")
		l.hearsFree(base)
		l.wait(0)
		l.refuses("rD5", 0, 3*time.Second)
		l.admits("rC4", time.Second)
	})
}

func TestAReaderThatYieldsToNothing(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		ctx := context.Background()
		l.run(l.giveCall("rA1", time.Minute, ""))
		require.False(l, l.yields("rA1", "", time.Hour).Acquired(), "a tombstone")
		require.NoError(l, l.rdb.Set(ctx, l.key(), "x", 0).Err())
		l.admits("rA2", 0) // what is in the place of the line has no writers
		l.admits("rB3", 0)
		require.NoError(l, l.rdb.Del(ctx, l.key(), l.name).Err())
		require.NoError(l, l.rdb.HSet(ctx, l.name, "x", "1").Err())
		require.False(l, l.yields("rA4", "", 0).Acquired(), "foreign data")
		require.Zero(l, l.rdb.Exists(ctx, l.key()).Val())
		require.NoError(l, l.rdb.Del(ctx, l.name).Err())
		require.NoError(l, l.rdb.ZAdd(ctx, l.key(), redis.Z{Score: 1, Member: "x"}).Err())
		l.admits("rA5", 0)
	})
}

// TestAReaderThatDoesNotWaitLeavesNoMark has readers try once, while somebody writes and while somebody reads. The writer that leaves after that
// gives the lock to the next one, and offers it to nobody.
func TestAReaderThatDoesNotWaitLeavesNoMark(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		base := l.others(1)[0]
		l.stand("A1")
		for _, writer := range []string{"B2", "C3", "D4"} {
			l.listen(writer[:1])
			l.stand(writer)
		}
		l.refuses("rE5", once, time.Minute)
		require.Equal(l, wire.ToWaiter, l.give("A1", "").What)
		l.hearsNothing(base)
		l.holds("B2")

		require.NoError(l, l.rdb.Del(context.Background(), l.name).Err())
		l.admits("rF6", time.Hour)
		l.refuses("rG7", once, 3*time.Second)
		l.stands("C3 D4 #w #n")
	})
}

// TestANewWriterBehindTheDeadLeavesReadersTheirTurn has a writer take a lock that is free, for which only dead writers stand in the line, and
// readers wait. These have their turn after it.
func TestANewWriterBehindTheDeadLeavesReadersTheirTurn(t *testing.T) {
	t.Parallel()
	onBothRW(t, func(l *line) {
		l.admits("rA1", 0)
		l.stand("B2")
		l.refuses("rC3", 0, 3*time.Second)
		require.Equal(l, wire.ToNobody, l.give("rA1", "").What)
		l.age("!"+l.member("B2"), 3000)
		l.stand("D4")
		l.holds("D4")
		base := l.others(1)[0]
		for _, writer := range []string{"E5", "F6", "G7"} {
			l.listen(writer[:1])
			l.stand(writer)
		}
		require.Equal(l, wire.ToPublic, l.give("D4", "").What)
		l.hearsFree(base)
		l.admits("rC3", time.Second)
	})
}

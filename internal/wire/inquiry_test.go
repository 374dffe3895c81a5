package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// inquire inquires about some waiters in one call, and returns what the script says of each.
func (l *line) inquire(all ...string) []int64 {
	l.Helper()
	var c wire.Call
	for _, who := range all {
		h, n, kind := l.holder(who)
		if c.Script == nil {
			c = wire.NewRenewal(kind.Line.Inquire, 0, len(all))
			c.Argv[0] = string(wire.PublishPlain)
		}
		c.Inquire(n, &h, term)
	}
	require.Equal(l, len(all), c.Numbers())
	return l.run(c).List
}

// TestAnInquiryTellsWhoMustAsk changes what a waiter needs to rest, one after the other.
func TestAnInquiryTellsWhoMustAsk(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		ctx, must := context.Background(), []int64{-1}
		require.NoError(l, l.makeHolder("A1"))
		require.Equal(l, must, l.inquire("B1"), "it does not stand in the line")
		l.stand("B1")
		require.Equal(l, must, l.inquire("B1"), "it is not heard, and nobody watches")
		_, names, _ := l.holder("B1")
		l.listen("B")
		require.Equal(l, must, l.inquire("B1"), "nobody watches")
		l.subscribe(names.Base(), names.Twin())
		rests := func(what string, all ...string) {
			l.Helper()
			now := l.rdb.Time(ctx).Val().UnixMicro()
			for _, reply := range l.inquire(all...) {
				require.InDelta(l, now, reply, 1e6, what)
			}
		}
		rests("it is heard, and watches", "B1")

		require.NoError(l, l.rdb.ZAdd(ctx, l.key(), redis.Z{Score: 8e15, Member: "!" + l.member("B1")}).Err())
		require.NoError(l, l.rdb.Expire(ctx, l.key(), time.Minute).Err())
		rests("a message did not reach it", "B1")
		require.NotContains(l, l.rdb.ZRange(ctx, l.key(), 0, -1).Val(), "!"+l.member("B1"), "it is alive")
		require.Greater(l, l.rdb.TTL(ctx, l.key()).Val(), 4*time.Minute, "and so is the line")

		require.NoError(l, l.rdb.PExpire(ctx, l.name, 2*time.Second).Err())
		require.Equal(l, must, l.inquire("B1"), "the lease ends soon")
		require.NoError(l, l.rdb.Persist(ctx, l.name).Err())
		require.Equal(l, must, l.inquire("B1"), "a lock without a lease has to be repaired")
		require.NoError(l, l.rdb.Expire(ctx, l.name, time.Minute).Err())

		l.listen("C")
		l.stand("C2")
		require.Equal(l, []int64{-1, -1}, l.inquire("B1", "C2"), "two processes wait, and one watches")
		l.subscribe(names.Base(), names.Twin())
		rests("two watch", "B1", "C2")

		require.NoError(l, l.rdb.Del(ctx, l.name).Err())
		require.Equal(l, []int64{-1, -1}, l.inquire("B1", "C2"), "the lock is free")
		require.NoError(l, l.makeHolder("B1"))
		require.NoError(l, l.rdb.Expire(ctx, l.name, time.Minute).Err())
		require.Equal(l, must, l.inquire("B1"), "it has the lock")
		require.Positive(l, l.inquire("C2")[0], "the other one has not")
		require.NoError(l, l.rdb.Set(ctx, l.name, "no lock", time.Minute).Err())
		require.Equal(l, []int64{-1, -1}, l.inquire("B1", "C2"), "the error is for those who ask")
	})
}

package wire_test

import (
	"crypto/sha1" // by which the script derives marks
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// mark returns the fraction of a millisecond by which the deadline of a waiter of rlock shows that the waiter has asked.
func mark(waiter string) float64 {
	digest := sha1.Sum([]byte(waiter))
	return float64(binary.BigEndian.Uint32(digest[:4])%341*2+1) / 2048
}

// FuzzFairDeadlines compares the deadlines of waiters for a fair lock with a second statement of the rule. D is the waiter's own
// wait, J is 5 min, and j is how many waiters of Redisson are between the waiter and the nearest one of rlock ahead of it. The
// deadline is D from now, or that of the rlock waiter if that is later, and J * j more. It is at least D after the deadline of the
// waiter of Redisson just ahead. Each attempt sets it to exactly that, and no other waiter's.
func FuzzFairDeadlines(f *testing.F) {
	for _, times := range [][3]int64{
		{300_000, 300_000, 60_000},
		{10_000, 1, 1},
		{60_000, -1, 600_000},
		{10_000, math.MaxInt64, -1},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{10_000, 0, 0},
	} {
		for _, ours := range []uint8{0, 0b1, 0b10, 0b11, 0b110, 0b1001, 0b1111_1111} {
			f.Add(times[0], times[1], times[2], uint8(0), ours)
			f.Add(times[0], times[1], times[2], uint8(1), ours)
			f.Add(times[0], times[1], times[2], uint8(3), ours)
			f.Add(times[0], times[1], times[2], uint8(7), ours)
		}
	}
	rdb := redistest.Embedded(f)
	source, n := testkit.Script("fair", "acquire")
	lock := testkit.NewClient(f, rdb).NewFairLock(testkit.NewName())
	keys := testkit.Keys(lock)
	require.Len(f, keys, n+1)
	longest := (century / 10).Milliseconds() // marks need the rest of a float's precision
	f.Fuzz(func(t *testing.T, wait, ofOthers, ofOurs int64, places, ours uint8) {
		wait = min(max(wait, 10_000), longest)
		ofOthers, ofOurs = min(max(ofOthers, -longest), longest), min(max(ofOurs, -longest), longest)
		ctx := t.Context()
		milliseconds := func() float64 { return float64(testkit.Must(rdb.Time(ctx).Result()).UnixMilli()) }
		start := milliseconds()
		pipe := rdb.Pipeline()
		pipe.Del(ctx, keys...)
		pipe.HSet(ctx, keys[0], testkit.Stranger, 1)
		pipe.PExpire(ctx, keys[0], time.Minute)
		name := func(i uint8) string {
			if ours>>i&1 == 1 {
				return fmt.Sprint("ahead:-", i)
			}
			return fmt.Sprint("ahead:", i)
		}
		for i := range places % 8 {
			waiter := name(i)
			deadline := start + float64(ofOthers+int64(i)) + mark(waiter) // which one of Redisson may have copied from another
			if ours>>i&1 == 1 {
				deadline = start + float64(ofOurs+int64(i)) + mark(waiter)
			}
			pipe.RPush(ctx, keys[1], waiter)
			pipe.ZAdd(ctx, keys[2], redis.Z{Score: deadline, Member: waiter})
		}
		require.NoError(t, testkit.Second(pipe.Exec(ctx)))
		deadlines := func() map[string]float64 {
			all := make(map[string]float64)
			for _, z := range rdb.ZRangeWithScores(ctx, keys[2], 0, -1).Val() {
				all[z.Member.(string)] = z.Score
			}
			return all
		}
		for range 2 {
			before, low := deadlines(), milliseconds()
			reply, err := rdb.Eval(ctx, source, keys, "holder", 60_000, 1, testkit.Channel(lock), "PUBLISH", wait, "me", 0).Int64Slice()
			require.NoError(t, err)
			require.Negative(t, reply[0], "another holder has the lock")
			high, after := milliseconds(), deadlines()
			waiters := rdb.LRange(ctx, keys[1], 0, -1).Val()
			require.Equal(t, "me", waiters[len(waiters)-1])
			require.Len(t, after, len(waiters), "only waiters have deadlines")
			low, high = low+float64(wait), high+float64(wait)
			between, atLeast := 0, 0.0
			for _, waiter := range slices.Backward(waiters[:len(waiters)-1]) {
				deadline := after[waiter]
				require.Equal(t, before[waiter], deadline, "an attempt changes no other deadline")
				if strings.Contains(waiter, ":-") {
					low, high = max(low, math.Floor(deadline)), max(high, math.Floor(deadline))
					break
				}
				if between++; between == 1 {
					atLeast = math.Floor(deadline) + float64(wait)
				}
			}
			for i := range places % 8 {
				if waiter := name(i); !slices.Contains(waiters, waiter) {
					require.LessOrEqual(t, before[waiter], milliseconds(), "only the dead are removed")
					require.Zero(t, ours>>i&1, "a waiter of rlock is not judged by its deadline")
				}
			}
			low, high = low+float64(between)*300_000, high+float64(between)*300_000
			require.GreaterOrEqual(t, after["me"], max(low, atLeast))
			require.Less(t, after["me"], max(high, atLeast)+1)
			require.InDelta(t, mark("me"), after["me"]-math.Floor(after["me"]), 0)
			if between > 0 { // one of Redisson's, behind it, left after 5 s
				require.NoError(t, rdb.ZIncrBy(ctx, keys[2], -5000, "me").Err())
			}
		}
	})
}

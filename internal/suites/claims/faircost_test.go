package claims

import (
	"fmt"
	"math"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestTheCostOfAFairAttemptDoesNotGrowWithTheQueue measures the time that Redis spends on an attempt of a waiter, and on a
// hand-off, with few and with many waiters.
func TestTheCostOfAFairAttemptDoesNotGrowWithTheQueue(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	// times returns the times of an attempt and of a hand-off, in µs.
	times := func(n int) (attempt, handOff float64) {
		q := newFairQueue(t, rdb)
		const holder = "holder:-1"
		waiters := names(testkit.Stranger, n)
		channels := []string{testkit.Channel(q.lock) + ":" + holder}
		for _, waiter := range waiters {
			channels = append(channels, testkit.Channel(q.lock)+":"+waiter)
		}
		listening := rdb.Subscribe(t.Context(), channels...)
		defer listening.Close()
		for range channels {
			require.NoError(t, testkit.Second(listening.Receive(t.Context())))
		}
		go func() {
			for range listening.Channel() { // drop the messages
			}
		}()
		q.hold(waiters...)
		asked, last := 0, holder
		attempt = leastTime(t, rdb, 20, func() {
			asked++
			require.Negative(t, q.ask(waiters[asked*7919%n]))
		})
		handOff = leastTime(t, rdb, 10, func() {
			q.release(last)
			require.Zero(t, q.ask(waiters[0]))
			require.Negative(t, q.ask(last))
			waiters, last = append(waiters[1:], last), waiters[0]
		})
		return attempt, handOff
	}
	times(10) // compiles the scripts
	testkit.OnceGood(t, func() bool {
		few, fewHandOff := times(10)
		many, manyHandOff := times(1000)
		t.Logf("an attempt: %.0f µs with 10 waiters, %.0f µs with 1000; a hand-off and an arrival: %.0f µs and %.0f µs",
			few, many, fewHandOff, manyHandOff)
		return many < 2*few+20 && manyHandOff < 2*fewHandOff+50
	})
}

// leastTime returns how long Redis runs scripts for one call of do, in µs: in the best of 20 batches, because Redis may have to
// wait for a CPU.
func leastTime(t *testing.T, rdb *redis.Client, batch int, do func()) float64 {
	t.Helper()
	least := math.Inf(1)
	for range 20 {
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		for range batch {
			do()
		}
		least = min(least, scriptTime(t, rdb)/float64(batch))
	}
	return least
}

// scriptTime returns how long Redis has run scripts since its statistics were reset, in µs.
func scriptTime(t *testing.T, rdb *redis.Client) (sum float64) {
	t.Helper()
	for _, command := range []string{"eval", "evalsha"} {
		info := testkit.Must(rdb.InfoMap(t.Context(), "commandstats").Result())["Commandstats"]["cmdstat_"+command]
		var calls, usec float64
		if _, err := fmt.Sscanf(info, "calls=%f,usec=%f", &calls, &usec); err == nil {
			sum += usec
		}
	}
	return sum
}

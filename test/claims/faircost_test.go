package claims

import (
	"fmt"
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
	all := rdb.PSubscribe(t.Context(), "*") // it reaches every waiter
	defer all.Close()
	require.NoError(t, testkit.Second(all.Receive(t.Context())))
	go func() {
		for range all.Channel() { // drop the messages
		}
	}()
	// times returns the times of an attempt and of a hand-off, in µs.
	times := func(n int) (attempt, handOff float64) {
		q := newFairQueue(t, rdb)
		waiters := names(testkit.Stranger, n)
		q.hold(waiters...)
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		for i := range 400 {
			require.Negative(t, q.ask(waiters[i*7919%n]))
		}
		attempt = scriptTime(t, rdb) / 400
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		last := "holder"
		for range 200 {
			q.release(last)
			require.Zero(t, q.ask(waiters[0]))
			require.Negative(t, q.ask(last))
			waiters, last = append(waiters[1:], last), waiters[0]
		}
		return attempt, scriptTime(t, rdb) / 200
	}
	times(10) // compiles the scripts
	few, fewHandOff := times(10)
	many, manyHandOff := times(1000)
	t.Logf("an attempt: %.0f µs with 10 waiters, %.0f µs with 1000; a hand-off and an arrival: %.0f µs and %.0f µs",
		few, many, fewHandOff, manyHandOff)
	require.Less(t, many, 2*few+20)
	require.Less(t, manyHandOff, 2*fewHandOff+50)
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

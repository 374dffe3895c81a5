package testkit

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// Holders returns the hash of a lock in Redis: its holders with their counts. It is empty if nobody holds the lock.
func Holders(tb testing.TB, rdb redis.UniversalClient, name string) map[string]string {
	tb.Helper()
	fields, err := rdb.HGetAll(context.Background(), name).Result()
	require.NoError(tb, err)
	return fields
}

// LeftIn reports whether a key of a lock is left that should be gone. A fencing token stays forever, and a tombstone for its
// lifetime.
func LeftIn(tb testing.TB, rdb redis.UniversalClient, keys []string) bool {
	tb.Helper()
	for _, key := range keys {
		ttl, err := rdb.PTTL(context.Background(), key).Result()
		require.NoError(tb, err)
		switch {
		case ttl == -2, strings.HasPrefix(key, "redisson_lock_token:"):
		case ttl > 0 && strings.HasPrefix(key, "redisson_unlock_latch:"):
		default:
			return true
		}
	}
	return false
}

// Queued returns the holder fields of the waiters in the queue of a fair lock, in order.
func Queued(tb testing.TB, rdb redis.UniversalClient, lock *rlock.Lock) []string {
	tb.Helper()
	var queue *redis.StringSliceCmd
	var deadlines *redis.IntCmd
	_, err := rdb.TxPipelined(context.Background(), func(tx redis.Pipeliner) error {
		queue = tx.LRange(context.Background(), Keys(lock)[1], 0, -1)
		deadlines = tx.ZCard(context.Background(), Keys(lock)[2])
		return nil
	})
	require.NoError(tb, err)
	require.EqualValues(tb, len(queue.Val()), deadlines.Val(), "each waiter has a deadline")
	return queue.Val()
}

// WatchAll subscribes to all channels until the test ends, as redis-cli and RedisInsight do for those who want to see what goes on.
// PUBLISH then counts one receiver of every message.
func WatchAll(tb testing.TB, rdb redis.UniversalClient) {
	tb.Helper()
	sub := rdb.PSubscribe(context.Background(), "*")
	tb.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(context.Background())
	require.NoError(tb, err)
	go func() {
		for range sub.Channel() { // Redis would end a connection that does not read
		}
	}()
}

// Replicated reports whether enough replicas have all writes of the master of a key. WAIT covers only the writes of its own
// connection, so Replicated writes a key first.
func Replicated(t *testing.T, master *redis.Client, key string, replicas int64) bool {
	t.Helper()
	conn := master.Conn()
	defer conn.Close()
	require.NoError(t, conn.Set(t.Context(), "{"+key+"}:replicated", "", time.Second).Err())
	return conn.Wait(t.Context(), int(replicas), time.Second).Val() >= replicas
}

// Stats returns how often each command ran on Redis. Commands that scripts call count too.
func Stats(tb testing.TB, rdb *redis.Client) map[string]int {
	tb.Helper()
	info, err := rdb.Info(context.Background(), "commandstats").Result()
	require.NoError(tb, err)
	calls := make(map[string]int)
	for _, m := range regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		calls[m[1]], err = strconv.Atoi(m[2])
		require.NoError(tb, err)
	}
	return calls
}

// Connections returns how many connections the server has received.
func Connections(tb testing.TB, rdb *redis.Client) int {
	tb.Helper()
	info := rdb.Info(context.Background(), "stats").Val()
	n, err := strconv.Atoi(regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(info)[1])
	require.NoError(tb, err)
	return n
}

// Stranger is the holder field of another owner, for example of a Java thread.
const Stranger = "71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:87"

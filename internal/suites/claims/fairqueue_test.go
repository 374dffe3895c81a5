package claims

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// fairQueue is the queue of a fair lock, whose waiters are names. They are woken, and ask when the test says so.
type fairQueue struct {
	*testing.T
	rdb     redis.UniversalClient
	lock    *rlock.Lock
	keys    []string
	wait    time.Duration // see [tune.FairWait]
	publish string
}

func newFairQueue(t *testing.T, rdb redis.UniversalClient) *fairQueue {
	t.Helper()
	lock := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
	return &fairQueue{T: t, rdb: rdb, lock: lock, keys: testkit.Keys(lock), wait: 10 * time.Second, publish: "PUBLISH"}
}

// ask makes an attempt. It returns zero, or the negative hint of a refusal.
func (q *fairQueue) ask(waiter string) int64 {
	q.Helper()
	source, _ := testkit.Script("fair", "acquire")
	reply := redis.NewScript(source).Run(q.Context(), q.rdb, q.keys, waiter, 30_000, 1,
		testkit.Channel(q.lock), q.publish, q.wait.Milliseconds(), waiter, 0)
	if list, err := reply.Int64Slice(); err == nil {
		return list[0]
	}
	return testkit.Must(reply.Int64())
}

// hold acquires the lock for "holder:-1", and has the waiters queue behind it.
func (q *fairQueue) hold(waiters ...string) {
	q.Helper()
	require.Zero(q, q.ask("holder:-1"))
	for _, waiter := range waiters {
		require.Negative(q, q.ask(waiter))
	}
}

// release frees the lock, or leaves the queue.
func (q *fairQueue) release(holder string) {
	q.Helper()
	source, _ := testkit.Script("fair", "release")
	require.NoError(q, redis.NewScript(source).Run(q.Context(), q.rdb, q.keys, holder, 0, 1, testkit.Channel(q.lock), q.publish, holder).Err())
}

// listen subscribes for a waiter.
func (q *fairQueue) listen(waiter string) *redis.PubSub {
	q.Helper()
	sub := q.rdb.Subscribe(q.Context(), testkit.Channel(q.lock)+":"+waiter)
	q.Cleanup(func() { _ = sub.Close() })
	require.NoError(q, testkit.Second(sub.Receive(q.Context())))
	return sub
}

// pass moves all deadlines as if time had passed, and a little more.
func (q *fairQueue) pass(d time.Duration) {
	q.Helper()
	for _, waiter := range q.waiters() {
		require.NoError(q, q.rdb.ZIncrBy(q.Context(), q.keys[2], -float64(d.Milliseconds()+1), waiter).Err())
	}
}

func (q *fairQueue) waiters() []string { return testkit.Queued(q, q.rdb, q.lock) }

// java runs a script of Redisson for a waiter, with its default wait of 5 min. Each of them begins with the removal of dead heads.
func (q *fairQueue) java(waiter, then string) any {
	q.Helper()
	const removeDead = `
while true do
  local head = redis.call('lindex', KEYS[2], 0)
  if head == false then break end
  local timeout = redis.call('zscore', KEYS[3], head)
  if timeout ~= false and tonumber(timeout) <= tonumber(ARGV[2]) then
    redis.call('zrem', KEYS[3], head)
    redis.call('lpop', KEYS[2])
  else
    break
  end
end
`
	now := testkit.Must(q.rdb.Time(q.Context()).Result()).UnixMilli()
	reply, err := q.rdb.Eval(q.Context(), removeDead+then, q.keys[:3], waiter, now, 300000).Result()
	if err != redis.Nil {
		require.NoError(q, err)
	}
	return reply
}

// The scripts of Redisson's fair lock, less what is about re-entry.
const (
	javaLock = `
if redis.call('exists', KEYS[1]) == 0
    and (redis.call('exists', KEYS[2]) == 0 or redis.call('lindex', KEYS[2], 0) == ARGV[1]) then
  redis.call('lpop', KEYS[2])
  redis.call('zrem', KEYS[3], ARGV[1])
  for _, waiter in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
    redis.call('zincrby', KEYS[3], -tonumber(ARGV[3]), waiter)
  end
  redis.call('hset', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], 30000)
  return nil
end
if redis.call('zscore', KEYS[3], ARGV[1]) ~= false then
  return redis.call('pttl', KEYS[1])
end
local last = redis.call('lindex', KEYS[2], -1)
local ttl
if last ~= false and last ~= ARGV[1] and redis.call('zscore', KEYS[3], last) ~= false then
  ttl = tonumber(redis.call('zscore', KEYS[3], last)) - tonumber(ARGV[2])
else
  ttl = redis.call('pttl', KEYS[1])
end
if redis.call('zadd', KEYS[3], ttl + tonumber(ARGV[3]) + tonumber(ARGV[2]), ARGV[1]) == 1 then
  redis.call('rpush', KEYS[2], ARGV[1])
end
return ttl
`
	javaUnlock = `redis.call('del', KEYS[1])`
	javaLeaves = `
local found = false
for _, waiter in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do
  if found then redis.call('zincrby', KEYS[3], -5000, waiter) end
  found = found or waiter == ARGV[1]
end
redis.call('zrem', KEYS[3], ARGV[1])
redis.call('lrem', KEYS[2], 0, ARGV[1])
`
)

// names returns the seats of n waiters of rlock, each of another client.
func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i+1, ":-1"))
	}
	return all
}

// A waiter whose process was killed costs the others a twentieth of a second, not the time until its deadline.
func TestKilledFairWaitersDoNotHoldUpTheNextOne(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		q := newFairQueue(t, rdb)
		require.NoError(t, q.lock.Lock(t.Context()))
		killed := names("killed:", 3)
		for _, waiter := range killed {
			require.Negative(t, q.ask(waiter))
		}
		next := testkit.NewClient(t, rdb, tune.PollInterval(time.Hour)).NewFairLock(q.lock.Name())
		waiting := testkit.Async(func() error { return next.Lock(t.Context()) })
		testkit.Eventually(t, "it queues", func() bool { return len(q.waiters()) == 4 })
		testkit.Eventually(t, "it listens", func() bool {
			n := rdb.PubSubNumSub(t.Context(), testkit.Channel(q.lock)+":"+q.waiters()[3]).Val()
			return n[testkit.Channel(q.lock)+":"+q.waiters()[3]] == 1
		})
		<-time.After(100 * time.Millisecond) // until it sleeps
		require.Equal(t, killed, q.waiters()[:3], "nobody is judged while the lock is held")
		passed := redistest.Stopwatch(t)
		require.NoError(t, q.lock.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the fourth acquires the lock", waiting))
		t.Logf("after %v", passed())
		require.Less(t, passed(), 2*time.Second)
		require.Equal(t, killed, q.waiters(), "they keep their places for 3 s")
		q.pass(3 * time.Second)
		require.NoError(t, next.Unlock(t.Context()))
		require.Empty(t, q.waiters())
	})
}

// A waiter that only its subscription's end keeps from being woken keeps its position for 3 s, but not the lock from others.
func TestAFairWaiterThatIsNotReachedIsPassedOver(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		var q *fairQueue
		testkit.OnceGood(t, func() bool { // the question must come within 50 ms
			q = newFairQueue(t, rdb)
			q.hold(names("", 4)...)
			q.release("holder:-1") // reaches nobody
			hint := -1 - q.ask("3:-1")
			require.LessOrEqual(t, hint, int64(50))
			return hint > 0 // the first ones have a moment to subscribe
		})
		q.pass(50 * time.Millisecond)
		require.Zero(t, q.ask("3:-1"))
		require.Equal(t, []string{"1:-1", "2:-1", "4:-1"}, q.waiters(), "they keep their places")

		second := q.listen("2:-1")
		require.Negative(t, q.ask("2:-1"), "it tries again as soon as it listens again")
		q.pass(3 * time.Second)
		q.release("3:-1")
		require.Equal(t, "0", testkit.Within(t, "the second is woken", second.Channel()).Payload)
		require.Equal(t, []string{"2:-1", "4:-1"}, q.waiters(), "the first did not listen for 3 s")
		require.Zero(t, q.ask("2:-1"))
		require.Negative(t, q.ask("1:-1"), "it lives, and queues again")
		require.Equal(t, []string{"4:-1", "1:-1"}, q.waiters())
	})
}

// A process that is stopped gets its messages, but does not come.
func TestAFairWaiterThatDoesNotComeLosesItsTurn(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		q := newFairQueue(t, rdb)
		require.Zero(t, q.ask("holder:-1"))
		for _, waiter := range names("", 2) {
			require.Negative(t, q.ask(waiter))
			q.listen(waiter)
		}
		q.release("holder:-1")
		require.InDelta(t, 3000, -1-q.ask("2:-1"), 900, "the first was woken")
		q.pass(2 * time.Second)
		require.InDelta(t, 1000, -1-q.ask("2:-1"), 900)
		q.pass(time.Second)
		require.Zero(t, q.ask("2:-1"))
		require.Empty(t, q.waiters())
		require.Negative(t, q.ask("1:-1"), "it queues again when it goes on")
	})
}

// Where Redis does not count who listens, the deadlines decide.
func TestFairWaitersAreJudgedByTheirDeadlinesWhereNobodyCountsListeners(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		q := newFairQueue(t, rdb)
		q.publish = "NODE"
		q.hold(names("", 3)...)
		q.release("holder:-1")
		require.InDelta(t, q.wait.Milliseconds(), -1-q.ask("2:-1"), 1000)
		q.pass(q.wait - time.Second)
		require.Negative(t, q.ask("2:-1"))
		require.Len(t, q.waiters(), 3)
		q.pass(time.Second)
		require.Zero(t, q.ask("2:-1"))
		require.Equal(t, []string{"3:-1"}, q.waiters())
	})
}

// Eight waiters are cut off for longer than they may be silent. Afterwards they come back in any order.
func TestFairWaitersKeepTheirOrderThroughAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	q := newFairQueue(t, server.Client(t))
	require.NoError(t, q.lock.Lock(t.Context(), rlock.Lease(time.Hour)))
	const n = 8
	var network testkit.Outage
	served := make(chan int, n)
	for i := range n {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: network.Dial, DialerRetries: 1, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		client := testkit.NewClient(t, rdb, tune.FairWait(10*time.Second), rlock.WithCommandTimeout(500*time.Millisecond))
		lock := client.NewFairLock(q.lock.Name())
		go func() {
			if lock.Lock(t.Context()) == nil {
				served <- i
				_ = lock.Unlock(t.Context())
			}
		}()
		testkit.Eventually(t, "it queues", func() bool { return len(q.waiters()) == i+1 })
	}
	<-time.After(100 * time.Millisecond) // until they sleep
	order := q.waiters()
	network.Down.Store(true)
	<-time.After(time.Second)
	q.pass(24 * time.Second)
	network.Down.Store(false)
	testkit.Eventually(t, "all have asked again", func() bool {
		for _, z := range q.rdb.ZRangeWithScores(t.Context(), q.keys[2], 0, -1).Val() {
			if int64(z.Score) < time.Now().UnixMilli() {
				return false
			}
		}
		return true
	})
	require.Equal(t, order, q.waiters())
	require.NoError(t, q.lock.Unlock(t.Context()))
	for i := range n {
		require.Equal(t, i, testkit.Within(t, "the next waiter acquires the lock", served))
	}
}

// Redisson takes its wait of 5 min off all deadlines when it acquires, and judges the head by what is left.
func TestFairWaitersKeepTheirOrderBehindAJavaWaiterThatHoldsOut(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		q := newFairQueue(t, rdb)
		q.wait = time.Minute // of which a slow machine may use some
		q.hold()
		require.NotNil(t, q.java("java:1", javaLock))
		for _, waiter := range names("", 4) {
			require.Negative(t, q.ask(waiter))
			q.listen(waiter)
		}
		require.NotNil(t, q.java("java:2", javaLock))
		require.Negative(t, q.ask("5:-1"))
		order := q.waiters()
		require.Len(t, order, 7)
		for range 8 { // 160 s, in which each asks every D/3
			q.pass(q.wait / 3)
			for _, waiter := range names("", 5) {
				require.Negative(t, q.ask(waiter))
			}
			require.NotNil(t, q.java("java:3", javaLock))
			require.Equal(t, append(order[:7:7], "java:3"), q.waiters())
		}
		q.release("holder:-1")
		require.Nil(t, q.java("java:1", javaLock))
		q.pass(q.wait * 3 / 5) // nobody asked meanwhile
		require.NotNil(t, q.java("java:3", javaLock))
		q.java("", javaUnlock)
		for i, waiter := range names("", 4) {
			require.Zero(t, q.ask(waiter))
			require.Equal(t, order[i+2:], q.waiters()[:len(order)-i-2])
			q.release(waiter)
		}
		require.Nil(t, q.java("java:2", javaLock), "it waited behind living ones of ours, and has its time")
		q.java("", javaUnlock)
		require.Zero(t, q.ask("5:-1"))
	})
}

// A Java waiter that leaves takes only its own wait off our deadlines, which are then too late.
func TestFairDeadlinesAreSetRightAfterAJavaWaiterLeft(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		q := newFairQueue(t, rdb)
		q.hold()
		require.NotNil(t, q.java("java:1", javaLock))
		require.Negative(t, q.ask("1:-1"))
		q.java("java:1", javaLeaves)
		left := func() float64 {
			return rdb.ZScore(t.Context(), q.keys[2], "1:-1").Val() - float64(time.Now().UnixMilli())
		}
		require.InDelta(t, 30_000+300_000+10_000-5_000, left(), 1000)
		require.Negative(t, q.ask("1:-1"))
		require.InDelta(t, 10_000, left(), 1000, "a waiter that dies now is not in the way of Java's for minutes")
		require.NotNil(t, q.java("java:2", javaLock))
		q.pass(10 * time.Second)
		q.java("", javaUnlock)
		require.Nil(t, q.java("java:2", javaLock))
	})
}

// A killed waiter of ours that is first when the lock becomes free is out of Java's way after 3 s.
func TestAKilledFairWaiterIsSoonOutOfJavasWay(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		q := newFairQueue(t, rdb)
		q.hold("killed:-1")
		require.NotNil(t, q.java("java:1", javaLock))
		woken := q.listen("java:1")
		q.release("holder:-1")
		require.Equal(t, "0", testkit.Within(t, "it is woken", woken.Channel()).Payload)
		require.NotNil(t, q.java("java:1", javaLock))
		q.pass(3 * time.Second)
		require.Nil(t, q.java("java:1", javaLock))
		require.Empty(t, q.waiters())
	})
}

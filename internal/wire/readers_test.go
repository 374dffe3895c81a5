package wire_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// onReaders runs a test on both servers, for releases that look at the line and for those that do not.
func onReaders(t *testing.T, test func(*readLock)) {
	t.Helper()
	for _, lined := range []bool{true, false} {
		t.Run(fmt.Sprintf("line %v", lined), func(t *testing.T) {
			onBothRW(t, func(l *line) { test(&readLock{line: l, lined: lined}) })
		})
	}
}

// readLock is a lock with readers: those of rlock, and those of Redisson, which have a key for each acquisition.
type readLock struct {
	*line
	lined bool
	last  int
}

// come has n readers of rlock read, each for a while. It returns the first one.
func (r *readLock) come(n int, lease time.Duration) string {
	r.Helper()
	first := r.last + 1
	for range n {
		r.last++
		require.True(r, r.reads(fmt.Sprintf("rA%d", r.last), "", lease))
	}
	return fmt.Sprintf("rA%d", first)
}

func (r *readLock) leaveCall(who string) wire.Call {
	r.Helper()
	h, n, _ := r.holder(who)
	if r.lined {
		return h.Give(n, 0, 0, nil)
	}
	return h.Release(n, 0)
}

func (r *readLock) leave(who string) {
	r.Helper()
	require.EqualValues(r, 1, r.run(r.leaveCall(who)).N)
}

// crowd has n readers read that are no clients, as Redisson's, with some acquisitions each. Their leases end soon, or are over.
func (r *readLock) crowd(n, count int, lease time.Duration) {
	r.Helper()
	ctx := context.Background()
	fields, prefix := []any{"mode", "read"}, "{"+r.name+"}:"
	_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range n {
			r.last++
			field := fmt.Sprintf("%s:%d", testkit.Stranger[:36], r.last)
			fields = append(fields, field, count)
			for entry := 1; entry <= count && lease > 0; entry++ {
				p.Set(ctx, fmt.Sprintf("%s%s:rwlock_timeout:%d", prefix, field, entry), 1, lease)
			}
		}
		p.HSet(ctx, r.name, fields...)
		return nil
	})
	require.NoError(r, err)
	if left := r.ttl(); left < lease {
		require.NoError(r, r.rdb.PExpire(ctx, r.name, lease).Err())
	}
}

func (r *readLock) ttl() time.Duration { return r.rdb.PTTL(context.Background(), r.name).Val() }

// lasts checks how long the lock lasts. Zero means that it is free.
func (r *readLock) lasts(want time.Duration) {
	r.Helper()
	if want == 0 {
		require.Zero(r, r.rdb.Exists(context.Background(), r.name).Val())
		return
	}
	require.InDelta(r, want.Seconds(), r.ttl().Seconds(), 5)
}

// TestTheLeaseOfALockWithReaders is that of its longest hold, as far as a release of a reader looks.
func TestTheLeaseOfALockWithReaders(t *testing.T) {
	t.Parallel()
	onReaders(t, func(r *readLock) {
		start := func() string {
			require.NoError(r, r.rdb.FlushAll(context.Background()).Err())
			return r.come(1, time.Minute)
		}
		first := start()
		r.crowd(16, 1, 10*time.Second)
		r.leave(first)
		r.lasts(10 * time.Second)

		first = start()
		r.crowd(16, 2, 0)
		r.leave(first)
		r.lasts(0)

		first = start()
		r.crowd(100, 2, 10*time.Second) // all are looked at, because none has half of the lease
		r.leave(first)
		r.lasts(10 * time.Second)

		first = start()
		r.crowd(150, 1, 0)
		r.leave(first)
		r.lasts(0)

		first = start()
		next := r.come(1, 50*time.Second)
		r.come(19, 40*time.Second)
		r.leave(first)
		r.lasts(time.Minute) // somebody has more than half of it
		r.leave(next)
		r.lasts(time.Minute)
		for i := range 3 {
			r.leave(fmt.Sprintf("rA%d", r.last-i))
		}
		r.lasts(40 * time.Second)

		first = start()
		r.come(20, 50*time.Second)
		require.NoError(r, r.rdb.PExpire(context.Background(), r.name, 5*time.Second).Err()) // Redisson's watchdog has its own lease
		r.leave(first)
		require.Greater(r, r.ttl(), 40*time.Second)

		first = start()
		r.crowd(10, 30, 10*time.Second)
		r.leave(first)
		r.lasts(time.Minute) // nobody looks at so many keys

		first = start()
		r.crowd(20, 1, 10*time.Second)
		require.NoError(r, r.rdb.Persist(context.Background(), r.name).Err())
		r.leave(first)
		require.Positive(r, r.ttl())
	})
}

// TestTheCostOfAReadReleaseDoesNotGrowWithTheReaders counts the commands of the scripts. Redis serves nobody else meanwhile.
func TestTheCostOfAReadReleaseDoesNotGrowWithTheReaders(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, lined := range []bool{true, false} {
		// cost returns what a pair costs beside n readers.
		cost := func(n, count int, lease time.Duration) (calls int) {
			r := &readLock{line: &line{t, rdb, testkit.NewName(), writeSort}, lined: lined}
			r.crowd(n, count, lease)
			require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
			r.leave(r.come(1, time.Minute))
			for command, n := range testkit.Stats(t, rdb) {
				if command != "config|resetstat" {
					calls += n
				}
			}
			require.Greater(t, r.ttl(), lease-5*time.Second)
			return calls
		}
		few := cost(10, 1, 50*time.Second)
		for _, n := range []int{16, 17, 100, 1000, 10_000} {
			require.LessOrEqual(t, cost(n, 1, 50*time.Second), 2*few, n)
		}
		const most = 300
		require.LessOrEqual(t, cost(10_000, 1, 10*time.Second), most, "all others have shorter leases")
		require.LessOrEqual(t, cost(10_000, 1, 0), most, "all others are dead")
		require.LessOrEqual(t, cost(10, 10_000, 5*time.Second), most, "they have been acquired very often")
	}
}

// TestAReadReleaseWithoutTheRightToScan leaves the lease as it is.
func TestAReadReleaseWithoutTheRightToScan(t *testing.T) {
	t.Parallel()
	for _, lined := range []bool{true, false} {
		l := onLine(t, writeSort)
		r := &readLock{line: l.without("hscan"), lined: lined}
		first := r.come(1, time.Minute)
		r.come(17, 10*time.Second)
		r.leave(first)
		r.lasts(time.Minute)
		r.leave(fmt.Sprintf("rA%d", r.last))
		r.lasts(10 * time.Second)
	}
}

// java has what Redisson's scripts do to the readers of a lock, less what is about writers.
var java = map[string]*redis.Script{
	"acquire": redis.NewScript(`
		redis.call('hset', KEYS[1], 'mode', 'read')
		local n = redis.call('hincrby', KEYS[1], ARGV[1], 1)
		redis.call('set', ARGV[2] .. ARGV[1] .. ':rwlock_timeout:' .. n, 1, 'px', ARGV[3])
		redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[3]))
		return 1`),
	"release": redis.NewScript(`
		if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
		local n = redis.call('hincrby', KEYS[1], ARGV[1], -1)
		if n == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
		redis.call('del', ARGV[2] .. ARGV[1] .. ':rwlock_timeout:' .. n + 1)
		local most = 0
		for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
			for i = tonumber(redis.call('hget', KEYS[1], field)) or 0, 1, -1 do
				most = math.max(most, redis.call('pttl', ARGV[2] .. field .. ':rwlock_timeout:' .. i))
			end
		end
		if most > 0 then redis.call('pexpire', KEYS[1], most) else redis.call('del', KEYS[1]) end
		return 1`),
	// how many readers there are, for how long the longest hold and the lock last
	"look": redis.NewScript(`
		local most = 0
		for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
			for i = tonumber(redis.call('hget', KEYS[1], field)) or 0, 1, -1 do
				most = math.max(most, redis.call('pttl', ARGV[2] .. field .. ':rwlock_timeout:' .. i))
			end
		end
		return {redis.call('hlen', KEYS[1]) - 1, most, redis.call('pttl', KEYS[1])}`),
}

// TestRandomReaders has readers of rlock and of Redisson come, leave, and die. The lock never ends before one of the holds. With up
// to 16 readers, it ends with the longest one.
func TestRandomReaders(t *testing.T) {
	t.Parallel()
	onReaders(t, func(r *readLock) {
		emptied := 0
		for seed := range uint64(6) {
			emptied += r.random(rand.New(rand.NewPCG(seed, 33)))
		}
		require.Positive(r, emptied, "no release left 16 of many")
	})
}

// random returns how many releases had to look at all holds because they left 16 of more.
func (r *readLock) random(random *rand.Rand) (emptied int) {
	r.Helper()
	ctx, prefix := context.Background(), "{"+r.name+"}:"
	require.NoError(r, r.rdb.FlushAll(ctx).Err())
	run := func(script, holder string, lease int64) []int64 {
		reply := java[script].Run(ctx, r.rdb, []string{r.name}, holder, prefix, lease)
		if n, err := reply.Int64(); err == nil {
			return []int64{n}
		}
		return testkit.Must(reply.Int64Slice())
	}
	var ours, theirs []string
	crowded := false // whether there were many since the last exact look
	for step := range 300 {
		lease := time.Duration(1+random.IntN(5)*random.IntN(5)*20) * time.Second
		grows := random.IntN(10) < 8-step/50%2*6
		switch at := random.IntN(10); {
		case grows && at < 6:
			ours = append(ours, r.come(1, lease))
		case grows && at < 8 && len(theirs) > 0: // once more
			holder := theirs[random.IntN(len(theirs))]
			run("acquire", holder, lease.Milliseconds())
			theirs = append(theirs, holder)
		case grows:
			holder := fmt.Sprintf("%s:%d", testkit.Stranger[:36], step)
			run("acquire", holder, lease.Milliseconds())
			theirs = append(theirs, holder)
		case at < 1: // it dies
			ours = append(ours, r.come(1, time.Millisecond))
			r.wait(2 * time.Millisecond)
		case at < 9 && len(ours) > 0:
			i := random.IntN(len(ours))
			before := run("look", "", 0)
			r.run(r.leaveCall(ours[i]))
			ours = append(ours[:i], ours[i+1:]...)
			after := run("look", "", 0)
			if after[0] > 16 {
				crowded = true
				require.LessOrEqual(r, after[2], before[2]+1)
			} else if crowded && after[0] == 16 {
				crowded = false
				emptied++
			}
		case len(theirs) > 0:
			i := random.IntN(len(theirs))
			run("release", theirs[i], 0)
			theirs = append(theirs[:i], theirs[i+1:]...)
			crowded = false
		}
		switch now := run("look", "", 0); {
		case now[0] < 1:
			require.EqualValues(r, -2, now[2])
		case !crowded && now[0] <= 16:
			require.InDelta(r, now[1], now[2], 900, "step %d: %d readers", step, now[0])
		default:
			require.GreaterOrEqual(r, now[2], now[1]-900, "step %d: %d readers", step, now[0])
		}
	}
	return emptied
}

package wire_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/wire"
)

// Fuzz targets. `make fuzz` runs each for a while. `make test` runs their seeds and the inputs in testdata/fuzz.

// tagOf returns the part of a key that Redis Cluster hashes to a slot, as the Redis documentation defines it.
func tagOf(key string) string {
	if m := regexp.MustCompile(`^[^{]*\{([^}]+)\}`).FindStringSubmatch(key); m != nil {
		return m[1]
	}
	return key
}

// redissonNames returns the names that Redisson gives to the keys and the channel of a lock. A ? stands for the number of a
// holder.
func redissonNames(kind, name, client string) (keys []string, channel string) {
	prefixed := func(prefix string) string {
		if strings.ContainsRune(name, '{') {
			return prefix + ":" + name
		}
		return prefix + ":{" + name + "}"
	}
	keys = []string{name}
	ending := "" // of what is rlock's
	if regexp.MustCompile(`(?s)^\{[^{]*\}$`).MatchString(name) {
		ending = "{}"
	}
	switch kind {
	case "fenced", "fenced write":
		keys = append(keys, prefixed("redisson_lock_token"))
	case "fair", "fenced fair":
		seats := prefixed("redisson_unlock_latch") + ":waiters" + ending
		keys = append(keys, prefixed("redisson_lock_queue"), prefixed("redisson_lock_timeout"), seats)
		if kind == "fenced fair" {
			keys = append(keys, prefixed("redisson_lock_token"))
		}
	case "read": // the key of the read hold
		keys = append(keys, strings.TrimPrefix(prefixed(""), ":")+":"+client+":?:rwlock_timeout:1")
	}
	keys = append(keys, prefixed("redisson_unlock_latch")+":"+client+ending)
	switch kind {
	case "read", "write", "fenced write":
		return keys, prefixed("redisson_rwlock")
	case "spin":
		return keys, ""
	case "fair", "fenced fair":
		return keys, prefixed("redisson_lock__channel") + ":" + client + ":?" + ending
	}
	return keys, prefixed("redisson_lock__channel")
}

// reserved are the names that are derived from others.
var reserved = regexp.MustCompile(`(?s)^redisson_(unlock_latch|lock_queue|lock_timeout|lock_token):.*\{|\{.*:rlock-twin(\{\})?$|^.*:rlock-twin\{\}$`)

func FuzzNames(f *testing.F) {
	connect.NeedsGoRedis(f) // it makes clients without a server
	for _, name := range []string{"order:7", "", "{", "}", "{}", "a{b", "a}b", "a{}b", "{a}b", "x{a}y", "a{b}c{d}", "}{a}", "\x00\xff", "Ω{€}"} {
		f.Add(name, "{"+name+"}")
		f.Add(name, name+":1")
		f.Add("redisson_lock_queue:{"+name+"}", name+":rlock-twin")
	}
	f.Add(strings.Repeat("n", 64<<10), strings.Repeat("n", 64<<10+1))
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	f.Cleanup(func() { _ = cluster.Close() })
	plain, sharded := testkit.NewClient(f, redistest.Open(f, &redis.Options{Addr: "127.0.0.1:1"})), testkit.NewClient(f, cluster)
	ended, cancel := context.WithCancel(context.Background())
	cancel() // nothing is ever sent
	f.Fuzz(func(t *testing.T, name, another string) {
		for _, kind := range []string{"lock", "fenced", "fair", "read", "write", "spin", "fenced fair", "fenced write"} {
			lock := testkit.Kinds[kind].Make(plain, name).(*rlock.Lock)
			invalid := name == "" || len(name) > 64<<10 || reserved.MatchString(name)
			require.Equal(t, invalid, errors.Is(lock.Lock(ended), rlock.ErrInvalidName))
			if invalid && strings.HasPrefix(kind, "fenced") {
				continue // a handle with an invalid name ignores its options
			}
			keys, channel := testkit.Possess(lock)
			number := regexp.MustCompile(regexp.QuoteMeta(plain.ID()) + `:-?\d+`)
			if kind == "read" {
				keys[1] = number.ReplaceAllLiteralString(keys[1], plain.ID()+":?")
			}
			channel = number.ReplaceAllLiteralString(channel, plain.ID()+":?")
			wantKeys, wantChannel := redissonNames(kind, name, plain.ID())
			require.Equal(t, wantKeys, keys, kind)
			require.Equal(t, wantChannel, channel, kind)
			checkOneSlot(t, ended, testkit.Kinds[kind].Make(sharded, name).(*rlock.Lock))
			// Redisson's rule cannot distinguish a name from the same name in braces.
			if another != name && another != "{"+name+"}" && name != "{"+another+"}" {
				others, otherChannel := testkit.Possess(testkit.Kinds[kind].Make(plain, another).(*rlock.Lock))
				for i, other := range others {
					require.NotEqual(t, other, keys[i], kind)
				}
				require.True(t, channel == "" || channel != otherChannel, kind)
			}
		}
	})
}

// checkOneSlot checks that a cluster client accepts a name if and only if all of its keys and its channel are in one slot.
func checkOneSlot(t *testing.T, ended context.Context, lock *rlock.Lock) {
	t.Helper()
	keys, channel := testkit.Possess(lock)
	if channel != "" {
		keys = append(keys, channel)
	}
	one := !slices.ContainsFunc(keys, func(key string) bool { return tagOf(key) != tagOf(keys[0]) })
	refused := errors.Is(lock.Lock(ended), rlock.ErrInvalidName)
	require.Equal(t, !one || lock.Name() == "" || len(lock.Name()) > 64<<10 || reserved.MatchString(lock.Name()), refused, "%q", keys)
	if !refused {
		for _, key := range keys {
			require.Equal(t, wire.Slot(keys[0]), wire.Slot(key), key)
		}
	}
}

func FuzzReplies(f *testing.F) {
	int64s := func(all ...int64) (in []byte) {
		in = []byte{byte(len(all)<<4) | 10}
		for _, n := range all {
			in = binary.LittleEndian.AppendUint64(append(in, 1), uint64(n))
		}
		return in
	}
	for _, in := range [][]byte{
		{},
		{0},
		int64s(0)[1:], int64s(-1)[1:], int64s(math.MaxInt64)[1:], int64s(math.MinInt64)[1:],
		{0x24, 'O', 'K'},
		{5, 7},
		{6, 1},
		{7},
		{0x17},
		{8},
		{0x18},
		{0x28},
		{0x38},
		{9, 9},
		{10},
		int64s(1000, 1, 1), int64s(-1, 1, 0), int64s(-2, 0, 0),
		int64s(math.MaxInt64, 1, 1), int64s(math.MinInt64, 1, 1), int64s(1, 1), int64s(1, 1, 1, 1),
		int64s(-1, 1, 1, 1), int64s(0, 1), int64s(1, 1, 1, 0, 1, 1), int64s(0, 1, 0, 0, 0, 1), int64s(2, 1, 258, 0, 0, 0),
		{0x3a, 5, 5, 5},
		{0x3a, 0x1a, 0, 0x1a, 0, 0x1a, 0},
	} {
		f.Add(in, false)
		f.Add(in, true)
	}
	f.Fuzz(func(t *testing.T, in []byte, replicated bool) {
		reply, rest := testkit.ReplyOf(in, 3)
		if reply == nil {
			reply = redis.Nil // go-redis returns this error for a nil reply
		}
		var opts []rlock.Option
		if replicated {
			opts = []rlock.Option{rlock.WithReplicaAcks(1, time.Millisecond)}
		}
		for _, kind := range []string{"lock", "fenced", "fair", "read", "fenced fair", "fenced write"} {
			lists := map[string]int{} // how many numbers a script may reply instead of one
			switch {
			case strings.HasSuffix(kind, "fair"):
				lists = map[string]int{"acquire": 4, "release": 5, "force": 2}
			case testkit.Lined(kind):
				lists = map[string]int{"acquire": 4, "release": 6, "force": 2}
				if !wire.Kinds[kind].Line.Stands() {
					lists["acquire"] = 0
				}
			}
			if testkit.Kinds[kind].Tokens {
				lists["tokens"] = 1
			}
			p, client := testkit.NewFakeServer(t, append(opts, rlock.WithCommandTimeout(testkit.ALongTime))...)
			p.Acks, _ = testkit.ReplyOf(rest, 3)
			lock := testkit.Kinds[kind].Make(client, "name").(*rlock.Lock)
			checkAcquire(t, p, lock, reply, lists, replicated)
			p.Acks = int64(1)
			checkQueries(t, p, lock, reply, lists)
			if _, failed := reply.(error); !failed {
				checkUnlock(t, p, lock, reply, lists)
			}
			p.Fake("", nil) // pending releases in the background succeed
			require.NoError(t, client.Close())
			if _, failed := reply.(error); failed { // an unlock tries again for as long as the command timeout
				p, client := testkit.NewFakeServer(t, opts...)
				p.Acks = int64(1)
				checkUnlock(t, p, testkit.Kinds[kind].Make(client, "name").(*rlock.Lock), reply, lists)
				p.Fake("", nil)
				require.NoError(t, client.Close())
			}
		}
	})
}

// firstOf returns the number that is a reply, or that begins one of so many numbers.
func firstOf(reply any, numbers int) (int64, bool) {
	if n, ok := reply.(int64); ok {
		return n, true
	}
	if list, err := redis.NewCmdResult(reply, nil).Int64Slice(); err == nil && numbers > 0 && len(list) == numbers {
		return list[0], true
	}
	return 0, false
}

// checkAcquire checks an acquire that gets an arbitrary reply. An invalid reply never acquires, and never counts as contention.
func checkAcquire(t *testing.T, p *testkit.FakeServer, lock *rlock.Lock, reply any, lists map[string]int, replicated bool) {
	t.Helper()
	n, isNumber := reply.(int64)
	refusal, mayRefuse := firstOf(reply, lists["acquire"])
	p.Fake("acquire", reply)
	hold, err := lock.TryAcquire(t.Context())
	switch {
	case err == nil:
		require.True(t, isNumber && n >= 0, "%#v", reply)
		if replicated {
			acks, ok := p.Acks.(int64)
			if text, isText := p.Acks.(string); isText {
				var wrong error
				acks, wrong = strconv.ParseInt(text, 10, 64)
				ok = wrong == nil
			}
			require.True(t, ok && acks >= 1, "%#v", p.Acks)
		}
		if lists["tokens"] == 0 {
			n = 0 // whatever the reply is
		}
		require.Equal(t, rlock.Token(n), hold.Token())
		require.NoError(t, hold.Unlock(t.Context()))
	case mayRefuse && refusal < 0:
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
	case isNumber:
		require.True(t, replicated, "%#v: %v", reply, err)
	default:
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		requireReplyError(t, err, reply)
	}
}

// checkQueries checks queries that get an arbitrary reply.
func checkQueries(t *testing.T, p *testkit.FakeServer, lock *rlock.Lock, reply any, lists map[string]int) {
	t.Helper()
	n, isNumber := firstOf(reply, lists["force"])
	p.Fake("force", reply)
	freed, err := lock.ForceUnlock(t.Context())
	require.Equal(t, isNumber && n == 1, freed, "%#v", reply)
	if isNumber {
		require.NoError(t, err)
	} else {
		requireReplyError(t, err, reply)
	}
	p.Fake("inspect", reply)
	left, err := lock.TTL(t.Context())
	if three, ok := reply.([]any); ok && len(three) == 3 {
		if ms, ok := three[0].(int64); ok && err == nil {
			require.Equal(t, ms > 0, left > 0, "%d ms are %v", ms, left)
			require.Equal(t, ms < 0 && ms != -2, left < 0, "%d ms are %v", ms, left)
		}
		return
	}
	requireReplyError(t, err, reply)
}

// checkUnlock checks a release that gets an arbitrary reply.
func checkUnlock(t *testing.T, p *testkit.FakeServer, lock *rlock.Lock, reply any, lists map[string]int) {
	t.Helper()
	n, isNumber := firstOf(reply, lists["release"])
	_, failed := reply.(error)
	p.Fake("release", reply)
	require.NoError(t, lock.Lock(t.Context()))
	err := lock.Unlock(t.Context())
	switch {
	case isNumber && n > 0:
		require.NoError(t, err)
	case isNumber:
		require.ErrorIs(t, err, rlock.ErrLost)
	case failed && strings.Contains(fmt.Sprint(err), "no answer"): // happens only if this machine was slow
		require.ErrorIs(t, err, rlock.ErrUnavailable)
	default:
		requireReplyError(t, err, reply)
	}
	require.ErrorIs(t, lock.Unlock(t.Context()), rlock.ErrNotHeld)
}

// requireReplyError checks the error for an invalid reply. It wraps a reply that is an error, and otherwise calls the reply
// unexpected.
func requireReplyError(t *testing.T, err error, reply any) {
	t.Helper()
	if failed, ok := reply.(error); ok {
		require.ErrorIs(t, err, failed)
		return
	}
	require.ErrorContains(t, err, "unexpected reply from Redis", "%#v", reply)
}

// margin returns how much earlier than Redis a holder considers its lease over. By design that is 1 % plus 2 ms, and at most a
// quarter of the lease.
func margin(lease time.Duration) time.Duration {
	return min(lease/100+2*time.Millisecond, lease/4)
}

const century = 100 * 365 * 24 * time.Hour

func FuzzLeases(f *testing.F) {
	for _, d := range []time.Duration{
		0, 1, -1, time.Millisecond - 1, time.Millisecond, time.Millisecond + 1, 8 * time.Millisecond, 9999999, time.Second,
		30 * time.Second, century, century + 1, math.MaxInt64, math.MinInt64,
	} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		lease := time.Duration(ns)
		p, client := testkit.NewFakeServer(t)
		p.Fake("acquire", int64(0))
		lock := client.NewLock("name")
		before := time.Now()
		hold, err := lock.TryAcquire(t.Context(), rlock.Lease(lease))
		if lease < time.Millisecond || lease > century {
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
			require.Nil(t, p.Last, "nothing is sent")
			return
		}
		if err != nil { // happens only if this machine was slow
			require.ErrorIs(t, err, rlock.ErrUnavailable)
			if !strings.Contains(err.Error(), "no answer") {
				require.ErrorContains(t, err, "too late")
				require.GreaterOrEqual(t, time.Since(before), lease-margin(lease)-lease/4, "a quarter must be left")
			}
			return
		}
		keys := testkit.Must(strconv.Atoi(p.Last[2]))
		sent := testkit.Must(strconv.ParseInt(p.Last[3+keys+1], 10, 64))
		require.Equal(t, (int64(lease)+999_999)/1_000_000, sent, "the lease in ms, rounded up")
		require.False(t, hold.Deadline().After(p.At.Add(lease-margin(lease))), "the hold ends before Redis can expire the lease")
		require.False(t, hold.Deadline().Before(before.Add(lease-margin(lease))), "the hold does not end too early")
		require.NoError(t, client.Close())
	})
}

package wire_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestScriptHeaders checks that the header of each script documents the KEYS and ARGV that the script uses.
func TestScriptHeaders(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	require.Greater(t, len(files), 1)
	argument := regexp.MustCompile(`(?:KEYS|ARGV)\[[^\]]+\]`)
	for _, file := range files {
		if strings.HasSuffix(file, "prelude.lua") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			header, body, ok := strings.Cut(string(source), "\n\n")
			require.True(t, ok)
			var documented []string
			for i, line := range strings.Split(header, "\n") {
				require.True(t, strings.HasPrefix(line, "--"), "the header is a comment")
				if found := argument.FindAllString(line, 1); found != nil && strings.HasPrefix(line, "-- "+found[0]) {
					documented = append(documented, found[0])
				}
				require.False(t, i == 0 && !strings.Contains(line, " "), "the header begins with a sentence")
			}
			require.Contains(t, header, "\n-- returns ")
			body = strings.NewReplacer("ipairs(KEYS)", "KEYS[i]", "[i + 1]", "[i+1]", "2 * i - 1", "2i-1", "2 * i", "2i").Replace(body)
			code := regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(body, "")
			used := argument.FindAllString(code, -1)
			slices.Sort(used)
			used = slices.Compact(used)
			require.ElementsMatch(t, used, documented)
			require.NotRegexp(t, `redis\.p?call\([^'"]`, code, "commands are literal")
		})
	}
}

// TestKindsOfScripts checks that the header of each script names the kinds that have it. What belongs to no kind of lock names whom it
// serves in words.
func TestKindsOfScripts(t *testing.T) {
	t.Parallel()
	kinds := make(map[any][]string) // of each digest
	for _, k := range wire.Kinds {
		line := k.Line
		if line == nil {
			line = new(wire.Line)
		}
		for _, s := range []*wire.Script{
			k.Acquire, k.Count, k.Release, k.Renew, k.Force, k.Inspect, k.HandOver, k.Park, k.HandOff,
			line.Acquire, line.Yield, line.Release, line.Force, line.Pump,
		} {
			if s != nil && !slices.Contains(kinds[s.Digest], k.Name()) {
				kinds[s.Digest] = append(kinds[s.Digest], k.Name())
			}
		}
	}
	files, err := filepath.Glob("../lua/sent/*.lua")
	require.NoError(t, err)
	for _, path := range files {
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		digest, _ := lua.Open(string(file))
		named := regexp.MustCompile(`(?m)^-- (?:with tokens )?for (.*)$`).FindSubmatch(file)
		require.NotNil(t, named, path)
		if has := kinds[digest]; has != nil {
			require.ElementsMatch(t, has, strings.Split(string(named[1]), ", "), path)
		}
		delete(kinds, digest)
	}
	require.Empty(t, kinds, "a kind has a script that is in no file")
}

// scriptState runs the scripts of one lock and reads its state in Redis.
type scriptState struct {
	*testing.T
	rdb     redis.UniversalClient
	keys    []string // lock, tombstones
	channel string
}

const me = "0f0e0d0c-0b0a-4908-8706-050403020100:1"

func (w *scriptState) run(script string, args ...any) any {
	w.Helper()
	source, n := testkit.Script("lock", script)
	keys := w.keys
	if script == "count" {
		keys = keys[:n] // it knows of no tombstones
	}
	reply, err := w.rdb.Eval(context.Background(), source, keys, args...).Result()
	require.NoError(w, err)
	return reply
}

func (w *scriptState) acquire(lease int, number int) any {
	w.Helper()
	return w.run("acquire", fmt.Sprintf("%s%d", me[:len(me)-1], number), lease, number, w.channel, "PUBLISH")
}

func (w *scriptState) release(number, lifetime int) any {
	w.Helper()
	return w.run("release", fmt.Sprintf("%s%d", me[:len(me)-1], number), lifetime, number, w.channel, "PUBLISH")
}

func (w *scriptState) lock() map[string]string {
	w.Helper()
	return testkit.Holders(w, w.rdb, w.keys[0])
}

func (w *scriptState) pttl() time.Duration {
	w.Helper()
	return w.rdb.PTTL(context.Background(), w.keys[0]).Val()
}

// TestScripts tests the scripts on their own: the state before, the call, the reply and the state after.
func TestScripts(t *testing.T) { // the subtests share a server
	t.Parallel()
	for server, start := range testkit.Servers {
		t.Run(server, func(t *testing.T) {
			rdb := start(t)
			ctx := t.Context()
			for _, c := range []struct {
				claim string
				test  func(*scriptState)
			}{
				{"a lock has Redisson's format", func(w *scriptState) {
					require.EqualValues(w, 0, w.acquire(30000, 1))
					require.Equal(w, map[string]string{me: "1"}, w.lock())
					require.InDelta(w, 30*time.Second, w.pttl(), float64(time.Second))
				}},
				{"a lock held by Redisson is respected", func(w *scriptState) {
					require.NoError(w, rdb.HSet(ctx, w.keys[0], testkit.Stranger, 2).Err())
					require.NoError(w, rdb.PExpire(ctx, w.keys[0], 10*time.Second).Err())
					hint := w.acquire(30000, 1).(int64)
					require.InDelta(w, 10000, -1-hint, 1000, "the remaining lease")
					require.EqualValues(w, 0, w.release(1, 0))
					require.EqualValues(w, 0, w.run("count", me, 30000, 1, w.channel, "PUBLISH", 2))
					require.Equal(w, []any{int64(0)}, w.renewal(me))
					require.Equal(w, map[string]string{testkit.Stranger: "2"}, w.lock())
					require.LessOrEqual(w, w.pttl(), 10*time.Second)
				}},
				{"a repeated acquire counts nothing and only extends the lease", func(w *scriptState) {
					require.EqualValues(w, 0, w.acquire(30000, 1))
					require.EqualValues(w, 0, w.acquire(60000, 1))
					require.EqualValues(w, 0, w.acquire(1000, 1))
					require.Equal(w, map[string]string{me: "1"}, w.lock())
					require.InDelta(w, time.Minute, w.pttl(), float64(time.Second))
				}},
				{"a number with a tombstone never becomes a holder", func(w *scriptState) {
					require.EqualValues(w, 0, w.release(1, 120000))
					require.Negative(w, w.acquire(30000, 1))
					require.Empty(w, w.lock())
					require.EqualValues(w, 0, w.acquire(30000, 2), "the next number becomes a holder")
					require.InDelta(w, 2*time.Minute, rdb.PTTL(ctx, w.keys[1]).Val(), float64(5*time.Second))
					require.EqualValues(w, 1, w.release(2, 0))
					require.EqualValues(w, 1, rdb.HLen(ctx, w.keys[1]).Val(), "a normal release leaves no tombstone")
				}},
				{"expired tombstones are removed", func(w *scriptState) {
					for number := range 1000 {
						w.release(number, 20)
						if number%100 == 0 {
							<-time.After(25 * time.Millisecond)
						}
					}
					require.Less(w, rdb.HLen(ctx, w.keys[1]).Val(), int64(600))
				}},
				{"a tombstone never shortens the lifetime of the others", func(w *scriptState) {
					w.release(1, 300000)
					w.release(2, 120000)
					require.InDelta(w, 5*time.Minute, rdb.PTTL(ctx, w.keys[1]).Val(), float64(5*time.Second))
				}},
				{"a count is stored, not computed", func(w *scriptState) {
					w.acquire(30000, 1)
					for range 2 {
						require.EqualValues(w, 1, w.run("count", me, 60000, 1, w.channel, "PUBLISH", 2))
						require.Equal(w, map[string]string{me: "2"}, w.lock())
					}
					require.EqualValues(w, 1, w.run("count", me, 1, 1, w.channel, "PUBLISH", 1))
					require.Equal(w, map[string]string{me: "1"}, w.lock())
					require.InDelta(w, time.Minute, w.pttl(), float64(time.Second), "the lease is never shortened")
				}},
				{"a count resurrects nothing", func(w *scriptState) {
					require.EqualValues(w, 0, w.run("count", me, 30000, 1, w.channel, "PUBLISH", 2))
					require.Empty(w, w.lock())
				}},
				{"a release ignores the count, frees once and publishes once", func(w *scriptState) {
					sub := rdb.Subscribe(ctx, w.channel)
					defer sub.Close()
					_, err := sub.Receive(ctx)
					require.NoError(w, err)
					w.acquire(30000, 1)
					w.run("count", me, 30000, 1, w.channel, "PUBLISH", 5)
					require.EqualValues(w, 2, w.release(1, 0), "freed, with one subscriber notified")
					require.EqualValues(w, 0, w.release(1, 0))
					require.Empty(w, w.lock())
					require.Equal(w, "0", testkit.Within(w, "the release is announced", sub.Channel()).Payload)
					require.NoError(w, rdb.Publish(ctx, w.channel, "end").Err())
					require.Equal(w, "end", testkit.Within(w, "nothing follows the release", sub.Channel()).Payload)
				}},
				{"a renewal needs the exact holder and only extends the lease", func(w *scriptState) {
					w.acquire(1000, 1)
					require.Equal(w, []any{int64(1)}, w.renewal(me))
					require.InDelta(w, 30*time.Second, w.pttl(), float64(time.Second))
					require.NoError(w, rdb.PExpire(ctx, w.keys[0], time.Hour).Err())
					require.Equal(w, []any{int64(1)}, w.renewal(me))
					require.Greater(w, w.pttl(), 59*time.Minute)
					require.Equal(w, []any{int64(0)}, w.renewal(testkit.Stranger))
					require.NoError(w, rdb.Persist(ctx, w.keys[0]).Err())
					require.Equal(w, []any{int64(1)}, w.renewal(me))
					require.InDelta(w, 30*time.Second, w.pttl(), float64(time.Second), "a renewal restores a missing lease")
				}},
				{"a forced release frees any holder's lock and publishes", func(w *scriptState) {
					require.EqualValues(w, 0, w.run("force", "", 0, 0, w.channel, "PUBLISH", "", ""))
					require.NoError(w, rdb.HSet(ctx, w.keys[0], testkit.Stranger, 1).Err())
					require.EqualValues(w, 1, w.run("force", "", 0, 0, w.channel, "PUBLISH", "", ""))
					require.Empty(w, w.lock())
				}},
				{"queries", func(w *scriptState) {
					require.Equal(w, []any{int64(-2), int64(0), int64(0)}, w.run("inspect", me))
					w.acquire(30000, 1)
					require.Equal(w, int64(1), w.run("inspect", me).([]any)[2])
					require.Equal(w, int64(0), w.run("inspect", testkit.Stranger).([]any)[2])
				}},
			} {
				t.Run(c.claim, func(t *testing.T) {
					name := testkit.NewName()
					c.test(&scriptState{T: t, rdb: rdb, keys: []string{name, "tombstones:{" + name + "}"}, channel: "channel:" + name})
				})
			}
		})
	}
}

func (w *scriptState) renewal(field string) any {
	w.Helper()
	source, _ := testkit.Script("lock", "renew")
	reply, err := w.rdb.Eval(context.Background(), source, w.keys[:1], 30000, field).Result()
	require.NoError(w, err)
	return reply
}

func TestKeysMatchRedisson(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	for name, want := range map[string][]string{
		"order:7": {"order:7", "redisson_unlock_latch:{order:7}:" + client.ID(), "redisson_lock__channel:{order:7}"},
		"a{b}c":   {"a{b}c", "redisson_unlock_latch:a{b}c:" + client.ID(), "redisson_lock__channel:a{b}c"},
		"a{b":     {"a{b", "redisson_unlock_latch:a{b:" + client.ID(), "redisson_lock__channel:a{b"},
		"a}b":     {"a}b", "redisson_unlock_latch:{a}b}:" + client.ID(), "redisson_lock__channel:{a}b}"},
	} {
		lock := client.NewLock(name)
		require.Equal(t, want, append(testkit.Keys(lock), testkit.Channel(lock)))
	}
}

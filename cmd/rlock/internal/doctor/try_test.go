package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// tried returns what the try of a report says of each act, by its name.
func tried(of []Finding) map[string]Finding {
	acts := make(map[string]Finding)
	for _, f := range of {
		name, _, _ := strings.Cut(f.Text, ": ")
		acts[name] = f
	}
	return acts
}

// requireNothing checks that a try has left no key on any node.
func requireNothing(t *testing.T, nodes ...*redis.Client) {
	t.Helper()
	for _, admin := range nodes {
		require.Empty(t, admin.Keys(context.Background(), "*"+tryPrefix+"*").Val())
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	needsRedis7(t, admin)
	require.NoError(t, admin.Set(t.Context(), "other", "kept", 0).Err())
	ca := redistest.NewCA(t)
	secured := ca.Start(t)
	for where, rdb := range map[string]*redis.Client{
		"direct":          admin,
		"through a proxy": redistest.Open(t, &redis.Options{Addr: redistest.NewProxy(t, server.Addr).Addr}),
		"TLS":             redistest.Open(t, &redis.Options{Addr: secured.TLSAddr, TLSConfig: ca.Config()}),
		"through a TLS tunnel": redistest.Open(t, &redis.Options{Addr: tunnel(t, func() (net.Conn, error) {
			return tls.Dial("tcp", secured.TLSAddr, ca.Config())
		})}),
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			opts, kinds := Options{Try: true, Prefix: "app:"}, Kinds()
			if where != "direct" {
				kinds = []string{"lock", "count-down latch"}
				opts.only = kinds
			}
			r, of := examine(t, rdb, opts, "try")
			acts := tried(of)
			for _, kind := range kinds {
				require.Equal(t, OK, acts[kind].Level, "%s: %v", kind, acts[kind])
			}
			require.Equal(t, OK, acts["removal"].Level, "%v", acts["removal"])
			if opts.only == nil {
				for _, name := range []string{"re-entry", "renewal", "expiry"} {
					require.Equal(t, OK, acts[name].Level, "%v", acts[name])
				}
				require.Equal(t, Note, acts[replicated].Level)
				require.Contains(t, acts[replicated].Text, "0 of 1 replicas")
			}
			require.NotContains(t, acts, "sharded pub/sub")
			require.Zero(t, r.ExitCode())
		})
	}
	t.Cleanup(func() {
		require.EqualValues(t, 1, admin.DBSize(context.Background()).Val(), "the key of others")
		require.Zero(t, secured.Client(t).DBSize(context.Background()).Val())
	})
}

// tunnel listens as stunnel does before a server with TLS, and returns the address.
func tunnel(t *testing.T, dial func() (net.Conn, error)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := dial()
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = in.Close()
					_ = out.Close()
				}()
			}
		}
	}()
	return listener.Addr().String()
}

// TestTryOnACluster: with the kinds that a service uses, only those are tried.
func TestTryOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	admins := testkit.Admins(t, cluster.Nodes...)
	needsRedis7(t, admins[0])
	makeReplicasKnown(t, cluster)
	_, of := examine(t, cluster.Client(t), Options{Try: true, Acks: 1, Kinds: []string{"lock", "read", "write", "semaphore"}}, "try")
	acts := tried(of)
	for _, name := range []string{"lock", "read", "write", "semaphore", "sharded pub/sub", replicated, "removal"} {
		require.Equal(t, OK, acts[name].Level, "%s: %v", name, acts[name])
	}
	require.NotContains(t, acts, "fair")
	requireNothing(t, admins...)

	alone, of := examine(t, admins[0], Options{Try: true, only: []string{"fair", "inspect", "count-down latch"}}, "try")
	require.NotZero(t, alone.ExitCode(), "one node of the cluster")
	for _, f := range of {
		require.Condition(t, func() bool { return f.Level == OK || strings.Contains(f.Text, "a node of a cluster: use") }, f.Text)
	}
}

func TestTryWithSentinel(t *testing.T) {
	t.Parallel()
	_, of := examine(t, redistest.StartSentinel(t).Client(t), Options{Try: true, Acks: 1, Kinds: []string{"lock"}}, "try")
	for name, f := range tried(of) {
		require.Equal(t, OK, f.Level, "%s: %v", name, f)
	}
}

// TestTryNamesTheMissingRight takes one right away from a user of locks, who may not ask Redis for its rights.
func TestTryNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	all := append(rulesOf(t, "lock"), "+info")
	for _, without := range []string{"+hdel", "+evalsha", "~app:*", "+publish", "+subscribe", "+zadd", "&redisson_lock__channel:{app:*"} {
		t.Run(without, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admins := testkit.Admins(t, server)
			needsRedis7(t, admins[0])
			user := testkit.NewUser(t, admins, slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == without })...)
			rdb := testkit.OpenAs(t, server)(user)
			r, of := examine(t, rdb, Options{Try: true, Prefix: testkit.AppPrefix, Timeout: time.Second, only: []string{"lock"}}, "try")
			acts := tried(of)
			require.Equal(t, Problem, acts["lock"].Level, "%v", of)
			_, line, _ := strings.Cut(acts["lock"].Text+" ", ": ACL SETUSER NAME ")
			require.Contains(t, line, without+" ", acts["lock"].Text)
			require.Equal(t, OK, acts["removal"].Level, "%v", of)
			require.Contains(t, []int{13, 26}, r.ExitCode())
			requireNothing(t, admins...)
		})
	}
}

// TestTryDoesNotWaitForEachRelease that fails: rlock tries each again for as long as the timeout.
func TestTryDoesNotWaitForEachRelease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admins := testkit.Admins(t, server)
	user := testkit.NewUser(t, admins, "~*", "&*", "+@all", "-hdel")
	const within = 10 * time.Second
	passed := redistest.Stopwatch(t)
	_, of := examine(t, testkit.OpenAs(t, server)(user), Options{
		Try: true, Prefix: testkit.AppPrefix, Timeout: within, only: []string{"lock", "fenced", "fair", "read", "write", "spin"},
	}, "try")
	require.Less(t, passed(), 4*within)
	require.Equal(t, Problem, tried(of)["lock"].Level, "%v", of)
	require.Equal(t, OK, tried(of)["removal"].Level, "%v", of)
	requireNothing(t, admins...)
}

// TestTryOfOtherKinds: a kind that nobody asked for, and that the user has no rights to, is worth a note.
func TestTryOfOtherKinds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admins := testkit.Admins(t, server)
	user := testkit.NewUser(t, admins, append(rulesOf(t, "lock"), "+info")...)
	_, of := examine(t, testkit.OpenAs(t, server)(user), Options{
		Try: true, Prefix: testkit.AppPrefix, only: []string{"lock", "fenced", "fair", "semaphore", "read"},
	}, "try")
	acts := tried(of)
	require.Equal(t, OK, acts["lock"].Level)
	for _, kind := range []string{"fenced", "fair", "semaphore", "read"} {
		require.Equal(t, Note, acts[kind].Level, "%v", acts[kind])
		require.Contains(t, acts[kind].Text, "Grant ")
	}
	requireNothing(t, admins...)
}

// TestAnInterruptedTryRemovesItsKeys ends the try at several moments.
func TestAnInterruptedTryRemovesItsKeys(t *testing.T) {
	t.Parallel()
	for _, act := range []string{"lock", "fenced-write", "count-down-latch"} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			admin := redistest.Start(t).Client(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := Examine(ctx, admin, Options{Try: true})
				done <- err
			}()
			redistest.EventuallyWithin(t, time.Minute, "it is under way", func() bool {
				keys := admin.Keys(t.Context(), "*:"+act).Val()
				return len(keys) > 0
			})
			cancel()
			require.ErrorIs(t, testkit.Within(t, "it ends", done), context.Canceled)
			require.Zero(t, admin.DBSize(t.Context()).Val())
		})
	}
}

func TestTryAsAnotherUser(t *testing.T) {
	t.Parallel()
	_, err := Examine(t.Context(), redistest.Embedded(t), Options{Try: true, User: "app"})
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
}

// TestTryOfServersBehindOneAddress has a proxy send each script to the server that has its first key. A script that renews several
// locks does not find most of them there.
func TestTryOfServersBehindOneAddress(t *testing.T) {
	t.Parallel()
	one, other := redistest.Start(t).Client(t), redistest.Start(t).Client(t)
	one.AddHook(divided{redistest.Open(t, one.Options()), other})
	r, of := examine(t, one, Options{Try: true, Timeout: time.Second, only: []string{"renewal", "expiry"}}, "try")
	acts := tried(of)
	require.Equal(t, Problem, acts["renewal"].Level, "%v", acts)
	require.Contains(t, acts["renewal"].Text, "Use a client for clusters")
	require.Equal(t, OK, acts["expiry"].Level, "%v", acts)
	require.Equal(t, 26, r.ExitCode())
	requireNothing(t, one, other)
}

// odd matches the keys of every other lock that is renewed together with others.
var odd = regexp.MustCompile(`:renewal:[1357]\b`)

// divided is a hook of go-redis that sends commands with an odd key to another server.
type divided struct{ server, other *redis.Client }

func (divided) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d divided) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 {
			key := args[1]
			if name := cmd.Name(); (name == "evalsha" || name == "eval") && len(args) > 3 {
				key = args[3]
			}
			if odd.MatchString(fmt.Sprint(key)) {
				return d.other.Process(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}

func (d divided) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (first error) {
		for _, cmd := range cmds {
			first = cmp.Or(first, d.ProcessHook(d.server.Process)(ctx, cmd))
		}
		return first
	}
}

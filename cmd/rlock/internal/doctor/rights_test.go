package doctor

import (
	"maps"
	"os"
	"path/filepath"
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
)

// TestTheRowsAreThoseOfTheDocument fails when SECURITY.md changes and the table here does not.
func TestTheRowsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		inDocument := strings.Replace(r.name, "Lock.Inspect", "Lock.Inspect`", 1)
		require.Equal(t, testkit.Rights(t, inDocument), strings.Fields(r.rules), r.name)
	}
	for _, name := range []string{"lock", "fair", "write", "fenced", "spin", "fenced fair", "fenced write"} {
		have, ok := rowsOf(name)
		require.True(t, ok)
		require.Equal(t, testkit.RowsOf[name], have)
	}
	document := strings.ReplaceAll(string(testkit.Must(os.ReadFile(filepath.Join(testkit.Repository(), "SECURITY.md")))), `\|`, "|")
	for _, k := range Kinds() {
		d := &deployment{opts: Options{Prefix: testkit.AppPrefix, Kinds: []string{k}}}
		if k != "inspect" { // not by itself
			require.Contains(t, document, " | `"+d.grants("app", k)+"` |\n", "the line for %s", k)
		}
	}
}

func TestEachRuleCanBeAsked(t *testing.T) {
	t.Parallel()
	asked := &trial{dry: true}
	for _, rule := range every() {
		require.NotEmpty(t, asked.callsFor(rule), rule)
	}
	admin := redistest.Start(t).Client(t)
	needsRedis7(t, admin)
	for _, call := range calls {
		args := []any{"acl", "dryrun", "default"}
		for arg := range strings.FieldsSeq(call) {
			args = append(args, arg)
		}
		text, err := admin.Do(t.Context(), args...).Text()
		require.NoError(t, err, call)
		require.Equal(t, "OK", text, call)
	}
}

// rulesOf returns the rules that a kind needs.
func rulesOf(t *testing.T, kind string) []string {
	t.Helper()
	names, ok := rowsOf(kind)
	require.True(t, ok)
	return testkit.Rights(t, names...)
}

// TestExactlyTheRightsOfAKindSuffice gives a user what SECURITY.md lists, and then all of it but one rule, which must be named.
func TestExactlyTheRightsOfAKindSuffice(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admins := testkit.Admins(t, server)
	needsRedis7(t, admins[0])
	for _, kind := range Kinds() {
		if kind == "inspect" { // not by itself
			continue
		}
		opts := Options{Prefix: testkit.AppPrefix, Kinds: []string{kind}}
		rules := rulesOf(t, kind)
		opts.User = testkit.NewUser(t, admins, rules...)
		_, of := examine(t, admins[0], opts, "rights")
		for _, f := range of {
			require.Contains(t, []Level{OK, Note}, f.Level, "%s: %v", kind, of)
		}
		for _, without := range unique(slices.Clone(rules)) {
			opts.User = testkit.NewUser(t, admins, slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == without })...)
			_, of := examine(t, admins[0], opts, "rights")
			require.Equal(t, Problem, of[0].Level, "%s without %s: %v", kind, without, of)
			require.Contains(t, of[0].Text, " lacks "+without, "%s without %s", kind, without)
		}
	}
}

func TestWhatDeniedRightsMean(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admins := testkit.Admins(t, server)
	needsRedis7(t, admins[0])
	rules := rulesOf(t, "lock")
	for _, without := range []string{"+publish", "&redisson_lock__channel:{app:*", "+zadd", "+evalsha", "~app:*"} {
		user := testkit.NewUser(t, admins, slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == without })...)
		r, of := examine(t, admins[0], Options{Prefix: testkit.AppPrefix, User: user}, "rights")
		require.Equal(t, Problem, of[0].Level, "%s: %v", without, of)
		require.Equal(t, 13, r.ExitCode())
		_, line, _ := strings.Cut(of[0].Text, ": ACL SETUSER "+user+" ")
		require.ElementsMatch(t, rules, strings.Fields(line), "the line to paste")
	}
	_, of := examine(t, admins[0], Options{User: testkit.NewUser(t, admins)}, "rights")
	require.Contains(t, of[0].Text, " and 10 more, without which these fail: lock. Grant it on every node, and check again, because")
	user := testkit.NewUser(t, admins, rules...)
	_, of = examine(t, admins[0], Options{Prefix: "other:", User: user}, "rights")
	require.Equal(t, Problem, of[0].Level)
	require.Contains(t, of[0].Text, "~other:*")
	r, of := examine(t, admins[0], Options{Prefix: testkit.AppPrefix, User: "nobody"}, "rights")
	requireOnly(t, of, Problem, `There is no user "nobody"`)
	require.Equal(t, 13, r.ExitCode())
}

// TestAUserThatMayNotAsk has only the rights of a plain lock, and then not even these.
func TestAUserThatMayNotAsk(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admins, open := testkit.Admins(t, server), testkit.OpenAs(t, server)
	rules := rulesOf(t, "lock")
	rdb := open(testkit.NewUser(t, admins, rules...))
	r, of := examine(t, rdb, Options{Prefix: testkit.AppPrefix}, "rights")
	require.Equal(t, Note, of[0].Level)
	require.Equal(t, Unknown, of[len(of)-1].Level)
	require.Contains(t, of[len(of)-1].Text, "NOPERM")
	require.Empty(t, levels(r, Problem), "%v", r.Findings)
	require.Subset(t, levels(r, Unknown), []string{"version", "eviction", "tokens", "leases"})

	for without, named := range map[string]string{"+hkeys": "+hkeys", "~rlock:{app:*": "~rlock:{app:*"} {
		rdb = open(testkit.NewUser(t, admins, slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == without })...))
		_, of = examine(t, rdb, Options{Prefix: testkit.AppPrefix}, "rights")
		require.Equal(t, Problem, of[0].Level)
		require.Contains(t, of[0].Text, named)
	}

	_, of = examine(t, rdb, Options{User: "somebody"}, "rights")
	requireOnly(t, of, Unknown, "NOPERM")
}

func TestRightsOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	needsRedis7(t, cluster.Nodes[0].Client(t))
	makeReplicasKnown(t, cluster)
	admins := testkit.Admins(t, cluster.Nodes...)
	rules := append(rulesOf(t, "lock"), testkit.Rights(t, testkit.ClusterRows...)...)
	opts := Options{Prefix: testkit.AppPrefix, User: testkit.NewUser(t, admins, rules...)}
	_, of := examine(t, cluster.Client(t), opts, "rights")
	requireOnly(t, of, Note, "cannot use")
	require.Empty(t, of[0].Node)

	require.NoError(t, admins[2].Do(t.Context(), "acl", "setuser", opts.User, "-spublish", "-hset").Err())
	_, of = examine(t, cluster.Client(t), opts, "rights")
	nodes := make(map[string]Level)
	for _, f := range of {
		if f.Level != Note {
			nodes[f.Node+" "+string(f.Level)] = f.Level
		}
	}
	at := cluster.Nodes[2].Addr
	require.Equal(t, []string{at + " problem"}, slices.Sorted(maps.Keys(nodes)))

	// A user who may not ask a node for sharded pub/sub.
	user := testkit.NewUser(t, admins, append(rules, "+info")...)
	rdb := testkit.OpenClusterAs(t, cluster)(user)
	r, of := examine(t, rdb, Options{Prefix: testkit.AppPrefix}, "sharded")
	require.Equal(t, Unknown, of[0].Level, "it may not see channels")
	require.Empty(t, levels(r, Problem), "%v", r.Findings)
	master, err := cluster.Client(t).MasterForKey(t.Context(), "x")
	require.NoError(t, err)
	require.NoError(t, master.Do(t.Context(), "acl", "setuser", user, "-pubsub|shardnumsub").Err())
	_, of = examine(t, rdb, Options{Prefix: testkit.AppPrefix}, "sharded")
	require.Equal(t, Unknown, of[0].Level)
	require.Contains(t, of[0].Text, "Whether there is sharded pub/sub")
}

// needsRedis7 skips a test on an older server, which has neither ACL DRYRUN nor sharded pub/sub.
func needsRedis7(t *testing.T, admin *redis.Client) {
	t.Helper()
	if major, _, _ := release(fields(admin.Info(t.Context(), "server").Val())["redis_version"]); major < 7 {
		t.Skip("needs Redis 7")
	}
}

func TestListenersThatDoNotAgree(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	needsRedis7(t, cluster.Nodes[0].Client(t))
	makeReplicasKnown(t, cluster)
	rdb := cluster.Client(t)
	wait := func(name string, opts ...rlock.Option) {
		locks, err := rlock.New(cluster.Client(t), append(opts, rlock.WithLogger(testkit.Discard))...)
		require.NoError(t, err)
		waiting := testkit.Async(func() error { return locks.NewLock(name).Lock(t.Context()) })
		t.Cleanup(func() {
			_ = locks.Close()
			<-waiting
		})
		redistest.Eventually(t, "it waits", func() bool { return locks.Stats().Waiting == 1 })
	}
	holder, err := rlock.New(rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = holder.Close() })
	for _, name := range []string{"a", "b"} {
		require.NoError(t, holder.NewLock(name).Lock(t.Context()))
	}
	wait("a")
	wait("b", rlock.WithClassicPubSub())
	require.Never(t, func() bool {
		_, of := examine(t, rdb, Options{}, "sharded")
		return of[0].Level != OK
	}, 300*time.Millisecond, 100*time.Millisecond, "they are about different locks")
	wait("a", rlock.WithClassicPubSub())
	redistest.Eventually(t, "it is noticed", func() bool {
		_, of := examine(t, rdb, Options{}, "sharded")
		return of[0].Level == Problem && strings.Contains(of[0].Text, `"redisson_lock__channel:{a}" has listeners`)
	})
	_, of := examine(t, rdb, Options{Prefix: "other:"}, "sharded")
	requireOnly(t, of, OK, "")
}

func TestSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	needsRedis7(t, cluster.Nodes[0].Client(t))
	makeReplicasKnown(t, cluster)
	ctx, rdb := t.Context(), cluster.Client(t)
	_, of := examine(t, rdb, Options{}, "slots")
	requireOnly(t, of, OK, "")

	from := cluster.MasterOf(t, "x")
	var to *redistest.Server
	for i := 0; to == nil || to == from; i++ {
		to = cluster.MasterOf(t, strconv.Itoa(i))
	}
	slot := rdb.ClusterKeySlot(ctx, "x").Val()
	id := to.Client(t).Do(ctx, "cluster", "myid").Val()
	require.NoError(t, from.Client(t).Do(ctx, "cluster", "setslot", slot, "migrating", id).Err())
	_, of = examine(t, rdb, Options{}, "slots")
	require.Equal(t, from.Addr, requireOnly(t, of, Warning, "1 slots move").Node)
	require.NoError(t, from.Client(t).Do(ctx, "cluster", "setslot", slot, "stable").Err())

	replica := cluster.ReplicaOf(t, to)
	replica.Kill()
	quick := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Options().Addrs, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = quick.Close() })
	_, of = examine(t, quick, Options{}, "reach")
	require.Equal(t, replica.Addr, requireOnly(t, of, Warning, "replica does not reply").Node)
	replica.Run()

	require.NoError(t, from.Client(t).Do(ctx, "cluster", "delslots", slot).Err())
	redistest.Eventually(t, "the slot is missed", func() bool {
		r, of := examine(t, rdb, Options{}, "slots")
		return slices.ContainsFunc(of, func(f Finding) bool { return f.Level == Problem && strings.Contains(f.Text, "1 slots are not served") }) &&
			r.ExitCode() == 16
	})
}

package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// These tests use Redis as users with few rights. They read the rights from SECURITY.md.

// appPrefix is the key prefix that the rights in SECURITY.md assume.
const appPrefix = "app:"

// secret is the password of every user.
const secret = "secret-password"

// rowsOf lists the rows of SECURITY.md for each kind. The rows of a group are those of its members' kind.
var rowsOf = map[string][]string{
	"lock":   {"every kind", "every kind but spin", "plain"},
	"multi":  {"every kind", "every kind but spin", "plain"},
	"red":    {"every kind", "every kind but spin", "plain"},
	"fenced": {"every kind", "every kind but spin", "fenced"},
	"fair":   {"every kind", "every kind but spin", "fair"},
	"read":   {"every kind", "every kind but spin", "read-write"},
	"write":  {"every kind", "every kind but spin", "read-write"},
	"spin":   {"every kind"},
}

// clusterRows lists the rows of SECURITY.md for clusters.
var clusterRows = []string{"a Cluster", "sharded pub/sub"}

// sentinelRow is the row of the user that connects to the sentinels.
const sentinelRow = "the user of the sentinels"

// rights returns the ACL rules in the given rows of SECURITY.md.
func rights(tb testing.TB, rows ...string) (rules []string) {
	tb.Helper()
	text := strings.ReplaceAll(string(must(os.ReadFile("SECURITY.md"))), `\|`, "\x00")
	found := make(map[string][]string)
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		name := strings.Trim(cells[1], " `")
		for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cells[2]+cells[3], -1) {
			found[name] = append(found[name], strings.Fields(strings.ReplaceAll(m[1], "\x00", "|"))...)
		}
	}
	for _, row := range rows {
		require.NotEmpty(tb, found[row], "SECURITY.md has no row %q", row)
		rules = append(rules, found[row]...)
	}
	return rules
}

// newUser creates a user with exactly these rights on all nodes, and returns its name.
func newUser(tb testing.TB, nodes []*redis.Client, rules ...string) string {
	tb.Helper()
	name := "u" + strings.ReplaceAll(newName(), ":", "")
	args := []any{"acl", "setuser", name, "on", ">" + secret, "resetkeys", "resetchannels", "-@all"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	for _, admin := range nodes {
		require.NoError(tb, admin.Do(context.Background(), args...).Err())
	}
	return name
}

// admins opens an unrestricted client of each node.
func admins(tb testing.TB, nodes ...*redistest.Server) (all []*redis.Client) {
	tb.Helper()
	for _, node := range nodes {
		all = append(all, node.Client(tb))
	}
	return all
}

// denied returns what the nodes refused to a user. It ignores CLIENT commands: go-redis sends CLIENT SETINFO on each new
// connection and works without it. Redis knows that command since 7.2.
func denied(nodes []*redis.Client, user string) (all []string) {
	for _, admin := range nodes {
		for _, entry := range must(admin.ACLLog(context.Background(), 1000).Result()) {
			if entry.Username == user && !strings.HasPrefix(entry.Object, "client") {
				all = append(all, entry.Reason+" "+entry.Object)
			}
		}
	}
	return all
}

// limited returns one client per kind of lock. Its user has exactly the rights that SECURITY.md lists for that kind. The test
// fails at its end if Redis denied any of these users anything.
func limited(
	t *testing.T, nodes []*redis.Client, open func(user string) redis.UniversalClient, rows ...string,
) func(kind string) redis.UniversalClient {
	t.Helper()
	users := make(map[string]string)
	clients := make(map[string]redis.UniversalClient)
	for kind := range kinds {
		users[kind] = newUser(t, nodes, rights(t, slices.Concat(rowsOf[kind], rows)...)...)
		clients[kind] = open(users[kind])
	}
	t.Cleanup(func() {
		for kind, user := range users {
			require.Empty(t, denied(nodes, user), kind)
		}
	})
	return func(kind string) redis.UniversalClient { return clients[kind] }
}

func openAs(tb testing.TB, server *redistest.Server) func(user string) redis.UniversalClient {
	tb.Helper()
	return func(user string) redis.UniversalClient {
		return redistest.Open(tb, &redis.Options{Addr: server.Addr, Username: user, Password: secret})
	}
}

func openClusterAs(tb testing.TB, cluster *redistest.Cluster) func(user string) redis.UniversalClient {
	tb.Helper()
	return func(user string) redis.UniversalClient {
		opt := cluster.Options()
		opt.Username, opt.Password = user, secret
		rdb := redis.NewClusterClient(opt)
		tb.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
}

// openSentinelAs opens a client that connects to the master as one user, and to the sentinels as another.
func openSentinelAs(tb testing.TB, sentinel *redistest.Sentinel, user, watching string) redis.UniversalClient {
	tb.Helper()
	opt := sentinel.Options()
	opt.Username, opt.Password = user, secret
	opt.SentinelUsername, opt.SentinelPassword = watching, secret
	rdb := redis.NewFailoverClient(opt)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// trial runs a lock as a user with limited rights. It is over as soon as Redis denies that user anything.
type trial struct {
	*testing.T
	nodes []*redis.Client // as a user with all rights
	user  string
	rdb   redis.UniversalClient
}

func (u *trial) over() bool { return len(denied(u.nodes, u.user)) > 0 }

// until waits for a condition, unless the trial is over.
func (u *trial) until(what string, condition func() bool) error {
	over := false
	eventually(u, what, func() bool {
		over = u.over()
		return over || condition()
	})
	if over {
		return fmt.Errorf("denied before %s", what)
	}
	return nil
}

// result waits for the error on a channel that async returned, unless the trial is over.
func (u *trial) result(what string, from <-chan error) error {
	if err := u.until(what, func() bool { return len(from) == 1 }); err != nil {
		return err
	}
	return <-from
}

// calls counts the calls of a command on all nodes.
func (u *trial) calls(command string) (n int) {
	for _, admin := range u.nodes {
		n += stats(u, admin)[command]
	}
	return n
}

func (u *trial) newClient(opts ...rlock.Option) *rlock.Client {
	return newClient(u, u.rdb, append([]rlock.Option{
		rlock.WithLogger(discard), rlock.WithKeyPrefix(appPrefix), rlock.WithWatchdogTimeout(600 * time.Millisecond),
		rlock.WithPollInterval(20 * time.Millisecond), rlock.WithHandOver(1, time.Hour),
		rlock.WithCommandTimeout(time.Second),
	}, opts...)...)
}

// all runs steps until one fails or Redis denies something.
func (u *trial) all(steps ...func() error) error {
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if u.over() {
			return fmt.Errorf("step %d: something was denied", i+1)
		}
	}
	return nil
}

// eachIsNeeded runs a trial with all of the rights, which must succeed. It then runs a trial without each tested right, in
// which Redis must deny something.
func eachIsNeeded(
	t *testing.T, nodes []*redis.Client, open func(user string) redis.UniversalClient, all, tested []string,
	run func(*trial) error,
) {
	t.Helper()
	for _, rule := range append([]string{""}, tested...) {
		t.Run("without "+rule, func(t *testing.T) {
			rules := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == rule })
			u := &trial{T: t, nodes: nodes, user: newUser(t, nodes, rules...)}
			u.rdb = open(u.user)
			err := run(u)
			if rule == "" {
				require.NoError(t, err, "denied: %q", denied(nodes, u.user))
				return
			}
			require.NotEmpty(t, denied(nodes, u.user), "nothing was denied without it; error: %v", err)
		})
	}
}

// TestTheRightsOfEachKindAreMinimal shows that each kind needs every right that SECURITY.md lists for it.
func TestTheRightsOfEachKindAreMinimal(t *testing.T) {
	t.Parallel()
	for name, sides := range map[string][]string{
		"lock": {"lock"}, "fenced": {"fenced"}, "spin": {"spin"}, "fair": {"fair"}, "read-write": {"read", "write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			all := rights(t, rowsOf[sides[0]]...)
			eachIsNeeded(t, admins(t, server), openAs(t, server), all, all, func(u *trial) error {
				for _, kind := range sides {
					if err := u.use(kind); err != nil {
						return fmt.Errorf("%s: %w", kind, err)
					}
				}
				return nil
			})
		})
	}
}

func TestTheRightToWaitForReplicasIsNeeded(t *testing.T) { //nolint:tparallel // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	tested := rights(t, "WithReplicaAcks")
	all := append(rights(t, rowsOf["lock"]...), tested...)
	eachIsNeeded(t, admins(t, server), openAs(t, server), all, tested, func(u *trial) error {
		err := u.newClient(rlock.WithReplicaAcks(1, 50*time.Millisecond)).NewLock(newName()).Lock(u.Context())
		if errors.Is(err, rlock.ErrNotReplicated) && strings.Contains(err.Error(), "0 of 1 replicas") {
			return nil // the user may call WAIT
		}
		return err
	})
}

// use exercises every feature of a kind of lock.
func (u *trial) use(kind string) error {
	ctx, cancel := context.WithTimeout(u.Context(), aLongTime)
	defer cancel()
	admin, client, name := u.nodes[0], u.newClient(), newName()
	require.NoError(u, admin.ScriptFlush(ctx).Err())
	lock := kinds[kind].make(client, name).(*rlock.Lock)
	rival := lock
	if kinds[kind].rival != nil {
		rival = kinds[kind].rival(client, name).(*rlock.Lock)
	}
	owner := rlock.WithOwner(ctx)
	var hold *rlock.Hold
	return u.all(
		func() (err error) { hold, err = lock.Acquire(owner); return err },
		func() error { return lock.Lock(owner) },
		func() error { return lock.Unlock(owner) },
		func() error {
			before := hold.Deadline()
			return u.until("the hold is renewed", func() bool { return hold.Deadline().After(before) })
		},
		func() error { return u.waits(ctx, rival, hold) },
		func() error { return second(rival.IsLocked(ctx)) },
		func() error { return second(rival.HoldCount(ctx)) },
		func() error { return second(rival.ForceUnlock(ctx)) },
		func() error { return u.queues(ctx, admin, kind, name) },
		func() error { // a lock without a lease gets one
			require.NoError(u, admin.HSet(ctx, appPrefix+name, other, 1).Err())
			return second(lock.TryLock(ctx))
		},
		func() error { return u.leavesTombstone(ctx, admin, kind, lock) },
		func() error { return u.listens(ctx, admin, client, kind) },
	)
}

// waits has three callers wait for a held lock. The wait of one ends first. Of the other two, one gets the lock by a
// hand-over and one by a message.
func (u *trial) waits(ctx context.Context, rival *rlock.Lock, hold *rlock.Hold) error {
	job := func(context.Context) error { return nil }
	waiting := []<-chan error{
		async(func() error { return rival.Do(ctx, job) }),
		async(func() error { return rival.Do(ctx, job) }),
	}
	if err := u.until("two callers wait", func() bool { return rival.Waiting() == 2 }); err != nil {
		return err
	}
	if ok, err := rival.TryLock(ctx, rlock.Wait(20*time.Millisecond)); ok || err != nil {
		return fmt.Errorf("got the lock: %v, %w", ok, err)
	}
	if err := hold.Unlock(ctx); err != nil {
		return err
	}
	for _, waiter := range waiting {
		if err := u.result("a waiter acquires the lock", waiter); err != nil {
			return err
		}
	}
	return rival.Lock(ctx)
}

// queues has a fair lock evict a dead waiter from the head of its queue while another waits.
func (u *trial) queues(ctx context.Context, admin *redis.Client, kind, name string) error {
	if kind != "fair" {
		return nil
	}
	lock := u.newClient().NewFairLock(name)
	require.NoError(u, admin.RPush(ctx, lock.Keys()[1], other, other+"1").Err())
	require.NoError(u, admin.ZAdd(ctx, lock.Keys()[2], redis.Z{Score: 1, Member: other}).Err())
	return lock.Do(ctx, func(context.Context) error { return nil })
}

// listens waits until the library pings its subscription connection. It then waits until no channel is subscribed.
func (u *trial) listens(ctx context.Context, admin *redis.Client, client *rlock.Client, kind string) error {
	if kind == "spin" {
		return nil
	}
	lock := kinds[kind].make(client, newName())
	rival := lock
	if kinds[kind].rival != nil {
		rival = kinds[kind].rival(client, lock.(*rlock.Lock).Name())
	}
	before := u.calls("ping")
	var waiting <-chan error
	return u.all(
		func() error { return lock.Lock(ctx) },
		func() error {
			waiting = async(func() error { return rival.Lock(ctx, rlock.Lease(time.Second)) })
			return u.until("the connection is pinged", func() bool { return u.calls("ping") > before })
		},
		func() error { return lock.Unlock(ctx) },
		func() error { return u.result("the waiter gets the lock", waiting) },
		func() error {
			return u.until("nothing is subscribed", func() bool { return len(admin.PubSubChannels(ctx, "*").Val()) == 0 })
		},
	)
}

// leavesTombstone has a release write a tombstone where there are many, so that the script also removes expired ones.
func (u *trial) leavesTombstone(ctx context.Context, admin *redis.Client, kind string, lock *rlock.Lock) error {
	release, n := rlock.Script(kind, "release")
	keys := lock.Keys()
	if kind == "read" {
		keys = []string{keys[0], "{" + keys[0] + "}:x:rwlock_timeout:1", keys[1]}
	}
	keys = append(keys[:n:n], keys[len(keys)-1])
	for i := range 127 {
		require.NoError(u, admin.HSet(ctx, keys[n], -i, 1).Err())
	}
	return u.rdb.Eval(ctx, release, keys, "x", 1000, 87, lock.Channel(), "PUBLISH", 300000).Err()
}

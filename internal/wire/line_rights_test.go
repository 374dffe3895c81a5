package wire_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/lua/assemble"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// cannotRun matches what servers say of a command inside a script that the user has no right to: Redis 7.0, and all since 7.2.
const cannotRun = "^ERR (The user executing the script can't run this command or subcommand|ACL failure in script: User user has no permissions to run the '[a-z|]+' command)"

// TestWhatServersCallAMissingRight checks that scripts know it by each of its texts.
func TestWhatServersCallAMissingRight(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	sources, err := assemble.Read("../lua", nil)
	require.NoError(t, err)
	for text, want := range map[string]bool{
		"@user_script: 10: The user executing the script can't run this command or subcommand":                       true, // 6.2
		"ERR The user executing the script can't run this command or subcommand script: 6267, on @user_script:1.":    true, // 7.0
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments": true,
		"ERR ACL failure in script: User app has no permissions to run the 'zrem' command":                           true, // since 7.2
		"ERR ACL failure in script: No permissions to access a key":                                                  true,
		"NOPERM no permissions to run the 'zrem' command":                                                            true,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                    false,
		"ERR Script attempted to access a non local key in a cluster node":                                           false,
	} {
		for _, as := range []string{"ARGV[1]", "{err = ARGV[1]}"} {
			script, err := sources.Complete("return denied("+as+") and 1 or 0", false)
			require.NoError(t, err)
			got, err := rdb.Eval(t.Context(), script, nil, text).Int()
			require.NoError(t, err)
			require.Equal(t, want, got == 1, text)
		}
	}
}

// without returns the lock as a user sees it who may not run a command.
func (l *line) without(command string) *line {
	l.Helper()
	require.NoError(l, l.rdb.ACLSetUser(context.Background(), "user", "reset", "on", "nopass", "~*", "&*", "+@all", "-"+command).Err())
	opt := *l.rdb.(*redis.Client).Options()
	opt.Username, opt.Password = "user", "any"
	return &line{l.T, redistest.Open(l, &opt), l.name, l.sort}
}

// TestAReleaseWithoutARight checks that a release frees the lock whatever else Redis refuses, and that the error says so.
func TestAReleaseWithoutARight(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testAReleaseWithoutARight)
}

func testAReleaseWithoutARight(t *testing.T, sort sort) {
	t.Helper()
	l := onLine(t, sort)
	for _, command := range []string{"publish", "pubsub|numsub", "time", "zadd", "zcount", "zrange", "zrem", "zrevrangebyscore", "zscore"} {
		user, refused := l.without(command), 0
		for _, others := range []bool{false, true} {
			for _, next := range []string{"", "A9"} {
				for _, tombstone := range []time.Duration{0, time.Minute} {
					if l.releaseWithout(user, command, next, tombstone, others) {
						refused++
					}
				}
			}
		}
		require.Positive(t, refused, "nothing shows that %s is needed", command)
	}
}

// releaseWithout has a user release the lock, for which one waits that is not reached, and one that is. It reports whether
// Redis refused something.
func (l *line) releaseWithout(user *line, command, next string, tombstone time.Duration, others bool) bool {
	l.Helper()
	what := fmt.Sprint("without ", command, ", others listen: ", others, ", next: ", next, ", tombstone: ", tombstone)
	ctx, names := context.Background(), l.names(l.sort.plain, "A")
	require.NoError(l, l.rdb.FlushAll(ctx).Err())
	for _, who := range []string{"A1", "B2", "C3"} {
		l.stand(who)
	}
	base, c := l.subscribe(names.Base()), l.listen("C")
	defer func() { require.NoError(l, c.Close()) }()
	defer func() { require.NoError(l, base.Close()) }()
	if !others {
		defer func(twin *redis.PubSub) { require.NoError(l, twin.Close()) }(l.subscribe(names.Twin()))
	}
	r, err := testkit.RunCall(user.rdb, user.giveCall("A1", tombstone, next))
	l.hasNoGhost()
	h, _, _ := l.holder("A1")
	require.NotContains(l, l.rdb.HKeys(ctx, l.name).Val(), h.Field, what)
	if err == nil {
		require.True(l, r.Gave().Freed, what)
		return false
	}
	require.Regexp(l, cannotRun, err.Error(), what)
	return true
}

// hasNoGhost checks that the holder of the lock does not stand in the line.
func (l *line) hasNoGhost() {
	l.Helper()
	ctx := context.Background()
	members := strings.Join(l.rdb.ZRange(ctx, l.key(), 0, -1).Val(), " ")
	for _, holder := range l.rdb.HKeys(ctx, l.name).Val() {
		require.NotContains(l, members, holder)
	}
}

// TestNobodyIsPutIntoTheLineOrLeftThereWithoutTheRightToRemove checks every script, for a user who may add waiters and give them
// the lock, but not remove them. A waiter that nobody removes would get the lock when it has long left.
func TestNobodyIsPutIntoTheLineOrLeftThereWithoutTheRightToRemove(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testNobodyIsPutIntoTheLineOrLeftThere)
}

func testNobodyIsPutIntoTheLineOrLeftThere(t *testing.T, sort sort) {
	t.Helper()
	l := onLine(t, sort)
	ctx := context.Background()
	user := l.without("zrem")
	l.stand("A1")
	_, err := testkit.RunCall(user.rdb, user.standCall("B2", term))
	require.Error(t, err)
	require.Regexp(t, cannotRun, err.Error())
	l.stands("")

	defer func(b, c *redis.PubSub) {
		require.NoError(t, b.Close())
		require.NoError(t, c.Close())
	}(l.listen("B"), l.listen("C"))
	for what, test := range map[string]struct {
		call wire.Call
		free bool // whether the lock is, before that
	}{
		"unlock by force":       {user.about(sort.plain).force(), false},
		"pump":                  {user.about(sort.plain).pump(), true},
		"newcomer":              {user.standCall("D4", term), true},
		"attempt":               {user.standCall("D4", 0), true},
		"release by a reader":   {user.giveCall("rA1", 0, ""), false},
		"release by a newcomer": {user.newcomersGiveCall("A1", ""), false},
		"release with a next":   {user.newcomersGiveCall("A1", "A9"), false},
		"release after a wait":  {user.giveCall("A1", 0, ""), false},
		"force, free":           {user.about(sort.plain).force(), true},
	} {
		holder := "A1"
		if what == "release by a reader" {
			if sort.plain != wire.Write {
				continue
			}
			holder = "rA1"
		}
		require.NoError(t, l.rdb.FlushAll(ctx).Err())
		if holder == "rA1" {
			h, n, _ := l.holder(holder)
			l.run(h.Acquire(n, time.Minute, nil))
		} else {
			l.stand(holder)
		}
		l.stand("B2")
		l.stand("C3")
		if test.free {
			require.NoError(t, l.rdb.Del(ctx, l.name).Err())
		}
		_, _ = testkit.RunCall(user.rdb, test.call)
		l.hasNoGhost()
		h, _, _ := l.holder(holder)
		require.NotContains(t, l.rdb.HKeys(ctx, l.name).Val(), h.Field, what)
		for _, member := range l.rdb.ZRangeByScore(ctx, l.key(), &redis.ZRangeBy{Min: "0", Max: "3e15"}).Val() {
			require.Contains(t, []string{l.member("B2"), l.member("C3")}, member, what)
		}
	}
}

// newcomersGiveCall is giveCall for a holder that never stood in the line.
func (l *line) newcomersGiveCall(who, next string) wire.Call {
	h, n, _ := l.holder(who)
	if next == "" {
		return h.Give(n, 0, 0, nil)
	}
	behind, _, _ := l.holder(next)
	return h.Give(n, 0, 0, &wire.Next{Holder: &behind, Lease: time.Minute, Term: term})
}

package wire_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestAWaiterThatIsNotReachedIsPassedOver(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		require.Zero(l, l.stand("A1").N)
		for _, who := range []string{"B2", "C3", "D4", "E5"} {
			r := l.stand(who)
			place, ok := r.Position()
			require.True(l, ok)
			require.EqualValues(l, who[1]-'2', place.Ahead)
		}
		l.stands("B2 C3 D4 E5 #w")
		d := l.listen("D")
		require.Equal(l, wire.ToWaiter, l.give("A1", "").What)
		l.hears(d, "granted 4")
		l.holds("D4")
		l.stands("B2 C3 E5 #w !B2 !C3")

		r := l.stand("B2") // it is alive
		place, _ := r.Position()
		require.Zero(l, place.Ahead, "and keeps its place")
		l.stands("B2 C3 E5 #w !C3")

		l.age("!"+l.member("C3"), 2800)
		l.listen("E")
		require.Equal(l, wire.ToWaiter, l.give("D4", "").What)
		l.holds("E5")
		l.stands("B2 C3 #w !C3 !B2")

		b := l.listen("B")
		l.age("!"+l.member("C3"), 200)
		require.Equal(l, wire.ToWaiter, l.give("E5", "").What)
		l.hears(b, "granted 2")
		l.stands("C3 #w !C3")

		base := l.subscribe(l.names(l.sort.plain, "A").Base(), l.names(l.sort.plain, "A").Twin())
		require.Equal(l, wire.ToNobody, l.give("B2", "").What)
		l.hearsFree(base)
		l.holds("")
		l.stands("") // after 3 s it is no longer in the line
	})
}

func TestALineThatNobodyReachesKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.stand("B2")
		require.Equal(l, wire.ToNobody, l.give("A1", "").What)
		l.stands("B2 #w !B2")
		require.Zero(l, l.try("C3").N, "a living asker gets the lock")
		require.Equal(l, wire.ToNext, l.give("C3", "C4").What, "and so does a living next holder")
		l.holds("C4")
		l.stands("B2 #w !B2")
		require.Equal(l, wire.ToNobody, l.give("C4", "").What)
		require.Zero(l, l.run(l.about(l.sort.plain).pump()).N)
		require.Zero(l, l.stand("B2").N, "and so does the waiter itself")
		l.stands("")
	})
}

func TestMoreWaitersThanABatch(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		for number := range 250 {
			l.run(l.standCall(fmt.Sprintf("B%d", number+2), term))
		}
		l.stand("C300")
		c := l.listen("C")
		require.Equal(l, wire.ToWaiter, l.give("A1", "").What)
		l.hears(c, "granted 300")
		require.EqualValues(l, 250+250+1, l.rdb.ZCard(context.Background(), l.key()).Val())
		for number := range 250 {
			l.age("!"+l.member(fmt.Sprintf("B%d", number+2)), 3001)
		}
		require.Equal(l, wire.ToNobody, l.give("C300", "").What)
		l.stands("")
	})
}

func TestAFencedWaiterMustAskWithinThreeSeconds(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		l.stand("A1")
		l.stand("fB2")
		l.stand("C3")
		b, c := l.listen("B"), l.listen("C")
		require.Equal(l, wire.ToWaiter, l.give("A1", "A4").What)
		l.hears(b, "8")
		l.stands("fB2 C3 A4 #w !fB2")
		l.age("!"+l.member("fB2"), 3001)
		require.EqualValues(l, 1, l.run(l.about(l.sort.plain).pump()).N)
		l.hears(b, "8")
		l.hears(c, "granted 3")
		l.stands("A4 #w")
	})
}

// TestTheOthersAreNeverLeftUnwatched checks that a process is asked to watch when the lock is left to the others, however recently
// somebody was: that one may be gone.
func TestTheOthersAreNeverLeftUnwatched(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		base, twin := l.names(l.sort.plain, "A").Base(), l.names(l.sort.plain, "A").Twin()
		l.stand("A1")
		l.stand("B2") // is asked
		l.stand("C3")
		b := l.listen("B")
		l.others(2) // so it is their turn
		require.Equal(l, wire.ToPublic, l.give("A1", "").What)
		l.hears(b, "7") // C is not reached
		java, names, _ := l.holder("J9")
		taken := l.run(java.Acquire(names, time.Minute, nil))
		require.True(l, taken.Acquired())
		c := l.listen("C")
		require.Zero(l, l.run(l.about(l.sort.plain).pump()).N)
		l.hears(c, "7") // nobody watches yet
		l.hearsNothing(b)

		watcher := l.subscribe(base, twin)
		require.Zero(l, l.run(l.about(l.sort.plain).pump()).N)
		l.hearsNothing(c)
		require.NoError(l, watcher.Close())
		require.Eventually(l, func() bool {
			require.Zero(l, l.run(l.about(l.sort.plain).pump()).N)
			_, err := c.ReceiveTimeout(context.Background(), 20*time.Millisecond)
			return err == nil
		}, 5*time.Second, time.Millisecond, "it watches no more")
	})
}

// TestALockWithoutALineNeedsNoSortedSets checks it for a user that has the rights of a spin lock.
func TestALockWithoutALineNeedsNoSortedSets(t *testing.T) {
	t.Parallel()
	l := onLine(t, plainSort)
	require.NoError(t, l.rdb.ACLSetUser(context.Background(), "user", "on", "nopass", "~*", "&*", "+@all", "-@sortedset").Err())
	opt := *l.rdb.(*redis.Client).Options()
	opt.Username, opt.Password = "user", "any"
	user := redistest.Open(t, &opt)
	for _, c := range []wire.Call{l.about(wire.Spin).pump(), l.about(wire.Spin).force()} {
		_, err := testkit.RunCall(user, c)
		require.NoError(t, err)
	}
}

// TestRights checks what a user who lacks a right sees. One who may not stand in the line learns it from the first refused
// attempt, which changes nothing. Redis 7.0 does not say NOPERM of a command in a script.
func TestRights(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testRights)
}

func testRights(t *testing.T, sort sort) {
	t.Helper()
	l := onLine(t, sort)
	ctx := context.Background()
	l.stand("A1")
	for name, c := range map[string]struct {
		rules []string
		want  string // in the error
	}{
		"all rights":          {[]string{}, ""},
		"no sorted sets":      {[]string{"-@sortedset"}, "The user executing the script can't run this command or subcommand"},
		"no keys of the line": {[]string{"resetkeys", "~" + l.name, "~redisson_unlock_latch*:" + clientID("C")}, "NOPERM"},
		"no pubsub":           {[]string{"-pubsub"}, "The user executing the script can't run this command or subcommand"},
		"no channels":         {[]string{"resetchannels"}, ""},
	} {
		rules := append([]string{"reset", "on", "nopass", "~*", "&*", "+@all"}, c.rules...)
		require.NoError(t, l.rdb.ACLSetUser(ctx, "user", rules...).Err())
		opt := *l.rdb.(*redis.Client).Options()
		opt.Username, opt.Password = "user", "any"
		user := &line{t, redistest.Open(t, &opt), l.name, sort}
		r, err := testkit.RunCall(user.rdb, user.standCall("C3", term))
		if c.want != "" {
			require.ErrorContains(t, err, c.want, name)
			l.stands("")
			continue
		}
		require.NoError(t, err, name)
		place, ok := r.Position()
		require.True(t, ok, name)
		require.Zero(t, place.Ahead, name)
		require.True(t, place.Watch, name)
		user.give("C3", "")
	}
}

// TestAnAcquireFindsItsChannelByTheKeyOfTheLine checks that a script, which is not told Redisson's channel, knows where a waiter
// listens, whatever the name is.
func TestAnAcquireFindsItsChannelByTheKeyOfTheLine(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		unique := l.name
		for _, form := range []string{"x", "{x}", "a{b}x", "{x", "x}", "{a}x", "{a}{x}", "x:waiters", "{x:waiters}", "x:waiters{}", "redisson_unlock_latchx"} {
			l.name = strings.ReplaceAll(form, "x", unique)
			for i, kind := range []string{"", "f"} {
				client := string(rune('B' + i))
				require.Zero(l, l.try("A1").List, l.name)
				r := l.stand(kind + client + "2")
				place, ok := r.Position()
				require.True(l, ok && place.Unheard, l.name)
				sub := l.listen(client)
				r = l.stand(kind + client + "2")
				place, ok = r.Position()
				require.True(l, ok && place.Heard, l.name)
				require.Equal(l, wire.ToWaiter, l.give("A1", "").What, l.name)
				if kind == "" {
					l.hears(sub, "granted 2")
				} else {
					l.hears(sub, "8")
				}
				l.give(kind+client+"2", "")
			}
		}
	})
}

package torture

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sec returns a moment, n seconds from the start of a history.
func sec(n int64) Moment { return Moment(n * int64(time.Second)) }

// use returns a turn: asked, granted and over at these moments, in seconds.
func use(id int64, kind, name string, asked, answered, over int64) *Turn {
	return &Turn{
		ID: id, Site: "site1", Kind: kind, Names: []string{name}, Permits: 1, Asked: sec(asked), Answered: sec(answered), Got: true,
		First: sec(answered), Last: sec(over - 1), Over: sec(over),
	}
}

// with changes the turn and returns it.
func (t *Turn) with(change func(*Turn)) *Turn {
	change(t)
	return t
}

// token gives the turn a token.
func token(n uint64) func(*Turn) { return func(t *Turn) { t.Token = n } }

// TestJudgesBite gives each judge a history that keeps its promise, and one that breaks it.
func TestJudgesBite(t *testing.T) {
	limit := func(at int64) func(*Turn) { return func(t *Turn) { t.Limit = sec(at) } }
	for _, c := range []struct {
		promise    string
		good, evil []*Turn
	}{
		{
			"exclusion:",
			[]*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 10, 20)},
			[]*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 9, 20)},
		},
		{
			"exclusion:", // an owner that does not believe in its hold any more is none
			[]*Turn{use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) { t.Last = sec(8) }), use(2, kindLock, "a", 3, 9, 20)},
			[]*Turn{
				use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "b", 3, 9, 20),
				use(3, kindMulti, "a", 3, 9, 20).with(func(t *Turn) { t.Names = []string{"b", "c"} }),
			},
		},
		{
			"exclusion:",
			[]*Turn{use(1, kindRead, "rw0", 1, 2, 10), use(2, kindYieldingRead, "rw0", 3, 9, 20)},
			[]*Turn{use(1, kindRead, "rw0", 1, 2, 10), use(2, kindWrite, "rw0", 3, 9, 20)},
		},
		{
			"permits:",
			[]*Turn{use(1, kindSemaphore, "sem0", 1, 2, 10), use(2, kindSemaphore, "sem0", 3, 9, 20)},
			[]*Turn{
				use(1, kindSemaphore, "sem0", 1, 2, 10).with(func(t *Turn) { t.Permits = 3 }), use(2, kindSemaphore, "sem0", 3, 9, 20),
			},
		},
		{
			"token:",
			[]*Turn{use(1, kindFenced, "fenced0", 1, 2, 10).with(token(7)), use(2, kindFenced, "fenced0", 3, 11, 20).with(token(8))},
			[]*Turn{use(1, kindFenced, "fenced0", 1, 2, 10).with(token(7)), use(2, kindFenced, "fenced0", 3, 11, 20).with(token(7))},
		},
		{
			"late:", // a stop of its process and a slow machine included
			[]*Turn{use(1, kindLock, "a", 1, 20, 30).with(limit(2))},
			[]*Turn{use(1, kindLock, "a", 1, 22, 30).with(limit(2))},
		},
		{
			"nobody got a lock",
			[]*Turn{use(1, kindLock, "a", 1, 2, 3)},
			[]*Turn{use(1, kindLock, "a", 1, 2, 3).with(func(t *Turn) { t.Got, t.First = false, 0 })},
		},
	} {
		h := History{Scene: Scene{Safe: true}, Turns: c.good}
		require.Empty(t, Check(&h), c.promise)
		h.Turns = c.evil
		require.Len(t, Check(&h), 1, c.promise)
		require.Contains(t, Check(&h)[0], c.promise)
		h.Scene.Safe = false
		require.Equal(t, c.promise == "late:" || c.promise == "nobody got a lock", len(Check(&h)) > 0, "%s where Redis forgets", c.promise)
	}
	require.Equal(t, []string{"site1: left"}, Check(&History{Found: []string{"site1: left"}, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 3)}}))
}

// TestStuckTurnsAreFound checks who hangs a minute and a bit after all trouble, at 100 s.
func TestStuckTurnsAreFound(t *testing.T) {
	waits := func(id int64) *Turn {
		return &Turn{ID: id, Site: "site2", Kind: kindLock, Names: []string{"a"}, Asked: sec(20)}
	}
	holds := func(last int64) *Turn {
		return use(1, kindLock, "a", 1, 2, 3).with(func(t *Turn) { t.Last, t.Over = sec(last), 0 })
	}
	for _, c := range []struct {
		what  string
		turns []*Turn
		at    int64
		stuck []int64
	}{
		{"the lock is free for long", []*Turn{use(1, kindLock, "a", 1, 2, 50), waits(2)}, 170, []int64{2}},
		{"the lock has not been free for long", []*Turn{use(1, kindLock, "a", 1, 2, 120), waits(2)}, 170, nil},
		{"there was trouble", []*Turn{use(1, kindLock, "a", 1, 2, 50), waits(2)}, 160, nil},
		{"another lock is in use", []*Turn{use(1, kindLock, "b", 1, 2, 120), waits(2)}, 170, []int64{2}},
		{"a holder is at work", []*Turn{holds(169), waits(2)}, 170, nil},
		{"an unlock hangs", []*Turn{holds(50), waits(2)}, 170, []int64{1, 2}},
		{"who waits is dead", []*Turn{waits(2).with(func(t *Turn) { t.Site = "dead" })}, 170, nil},
		{"all turns are over", []*Turn{use(1, kindLock, "a", 1, 2, 50)}, 170, nil},
	} {
		h := History{Calm: sec(100), Turns: c.turns, Dead: map[string]bool{"dead": true}}
		var ids []int64
		for _, turn := range h.stuck(sec(c.at)) {
			ids = append(ids, turn.ID)
		}
		require.Equal(t, c.stuck, ids, c.what)
		h.Calm = 0
		require.Empty(t, h.stuck(sec(c.at)), "trouble goes on")
	}
}

// TestLeftoversAreFound checks that a key, a channel, a hold and a goroutine are seen.
func TestLeftoversAreFound(t *testing.T) {
	t.Parallel()
	a := newArena(t, Scene{Topology: topologySingle})
	node, admin := a.master(rand.New(rand.NewPCG(1, 1)))
	require.Empty(t, a.left())
	require.NoError(t, admin.HSet(t.Context(), "a", "owner:1", 1).Err())
	sub := a.admins[node].Subscribe(t.Context(), "redisson_lock__channel:{a}")
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "channel redisson_lock__channel:{a}"}, a.left())
	require.NoError(t, sub.Close())

	site, err := a.site(formPlain, 0).start(nil)
	require.NoError(t, err)
	require.Zero(t, site.counted())
	hold, err := site.client.NewLock("b").Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, site.counted())
	require.NoError(t, hold.Unlock(t.Context()))
	require.Error(t, leaks(100*time.Millisecond), "the client is at work")
	require.NoError(t, site.close())
}

// TestProcessesEndInOrder checks that a process that ends by itself is a fault, that one that is made to end is none, and that nothing of the
// workload is left.
func TestProcessesEndInOrder(t *testing.T) {
	t.Parallel()
	a := newArena(t, Scene{Topology: topologySingle})
	for range 3 {
		a.spawn(formPlain, 4)
	}
	busy := func(c *child) func() bool {
		return func() bool {
			return slices.ContainsFunc(a.collector.history().Turns, func(t *Turn) bool { return t.Site == c.site.Name && t.Got })
		}
	}
	for _, c := range a.children {
		a.eventually("the process works", busy(c))
	}
	a.collector.died(a.children[0].site.Name)
	a.children[0].kill()
	a.children[1].signal(syscall.SIGTERM)
	<-a.children[1].ended
	found := a.collector.history().Found
	require.Len(t, found, 1)
	require.True(t, strings.HasPrefix(found[0], a.children[1].site.Name+": the process ended by itself"))

	a.collector.died(a.children[1].site.Name)
	a.collector.calm()
	none := make(chan struct{})
	close(none)
	a.dismiss(none)
	a.probe()
	a.clean()
	require.Equal(t, found, a.collector.history().Found)
}

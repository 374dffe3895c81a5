package trouble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// These tests cover what a wait that ends says of the lock. It does not depend on the question that is under way at that moment:
// each Redis has said something before, and that stands until it has been silent for long, or has said something else.

// class is what an error says: that another owner has the lock, that nobody could say, or neither.
type class string

const (
	isRefused     class = "refused"
	isUnavailable class = "unavailable"
	isNeither     class = "neither"
)

func classOf(t *testing.T, err error) class {
	t.Helper()
	require.Error(t, err)
	refused, unavailable := errors.Is(err, rlock.ErrNotAcquired), errors.Is(err, rlock.ErrUnavailable)
	require.False(t, refused && unavailable, "both: %v", err)
	switch {
	case refused:
		return isRefused
	case unavailable:
		return isUnavailable
	}
	return isNeither
}

// site is one Redis of a story: whether another client has the lock there, and what that Redis does at first and at the end.
type site struct {
	held        bool
	first, then mood
}

var (
	siteHeld  = site{held: true}
	siteFree  = site{}
	siteHangs = site{first: hangs, then: hangs}
	siteFails = site{first: fails, then: fails}
)

// later returns the site that changes.
func (s site) later(m mood) site {
	s.then = m
	return s
}

// story is a wait, and what it must say. What its sites do changes before the wait ends: by late, which is less than a silence that
// counts, or early, which is more.
type story struct {
	what   string
	sites  []site
	before time.Duration // the end that the sites change; zero means that they do not
	waits  time.Duration // zero means storyLength
	polls  time.Duration // zero means often
	want   class
	cancel class // what a cancellation says; empty means the same
}

const (
	late        = 300 * time.Millisecond
	early       = 2500 * time.Millisecond
	storyLength = 4 * time.Second
	floor       = time.Second // of the default command timeout
)

// object is something to wait for, on one or more servers.
type object struct {
	kind string
	// take makes the call of a client for each site. hold has another client take what is at one site.
	take  func(clients []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error
	hold  func(ctx context.Context, rival *rlock.Client) error
	noEnd []ending // which it does not have
}

const storyName = "story"

func acquires(lock interface {
	Acquire(context.Context, ...rlock.AcquireOption) (*rlock.Hold, error)
},
) func(context.Context, ...rlock.AcquireOption) error {
	return func(ctx context.Context, opts ...rlock.AcquireOption) error {
		return testkit.Second(lock.Acquire(ctx, opts...))
	}
}

func holdsLock(ctx context.Context, rival *rlock.Client) error {
	return testkit.Second(rival.NewLock(storyName).Acquire(ctx, rlock.Lease(time.Hour)))
}

// locks returns one lock of each client.
func locks(clients []*rlock.Client, newLock func(c *rlock.Client) *rlock.Lock) (all []*rlock.Lock) {
	for _, c := range clients {
		all = append(all, newLock(c))
	}
	return all
}

func newPlain(c *rlock.Client) *rlock.Lock { return c.NewLock(storyName) }
func newSpin(c *rlock.Client) *rlock.Lock  { return c.NewSpinLock(storyName) }

// ofOneRedis lists what one Redis has.
var ofOneRedis = []object{
	{kind: "lock", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(newPlain(c[0]))
	}},
	{kind: "spin lock", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(newSpin(c[0]))
	}},
	{kind: "fair lock", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(c[0].NewFairLock(storyName))
	}},
	{
		kind: "read lock",
		hold: func(ctx context.Context, rival *rlock.Client) error {
			return testkit.Second(rival.NewRWLock(storyName).Writer().Acquire(ctx, rlock.Lease(time.Hour)))
		},
		take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
			return acquires(c[0].NewRWLock(storyName).Reader())
		},
	},
	{
		kind: "semaphore", hold: holdsPermit,
		take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
			return acquires(c[0].NewSemaphore(storyName))
		},
	},
	{
		kind: "semaphore with Total", hold: holdsPermit,
		take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
			return acquires(c[0].NewSemaphore(storyName, rlock.Total(1)))
		},
	},
	{
		kind: "latch", hold: func(ctx context.Context, rival *rlock.Client) error {
			return testkit.Second(rival.NewCountDownLatch(storyName).TrySetCount(ctx, 1))
		},
		take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
			return c[0].NewCountDownLatch(storyName).Await
		},
	},
	{
		kind: "election", noEnd: []ending{byWait}, hold: func(ctx context.Context, rival *rlock.Client) error {
			return testkit.Second(rival.NewLock(storyName, rlock.Fenced()).Acquire(ctx, rlock.Lease(time.Hour)))
		},
		take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
			return func(ctx context.Context, _ ...rlock.AcquireOption) error {
				return c[0].NewElection(storyName).Run(ctx, func(context.Context, rlock.Token) error { return nil })
			}
		},
	},
	{kind: "multi lock of one", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(rlock.NewMultiLock(newPlain(c[0])))
	}},
	{kind: "red lock of one", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(rlock.NewRedLock(newPlain(c[0])))
	}},
}

func holdsPermit(ctx context.Context, rival *rlock.Client) error {
	s := rival.NewSemaphore(storyName)
	if err := testkit.Second(s.TrySetPermits(ctx, 1)); err != nil {
		return err
	}
	return testkit.Second(s.Acquire(ctx, rlock.Lease(time.Hour)))
}

// groups lists what several have.
var groups = []object{
	{kind: "red lock", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(rlock.NewRedLock(locks(c, newPlain)...))
	}},
	{kind: "red lock of spin locks", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(rlock.NewRedLock(locks(c, newSpin)...))
	}},
	{kind: "red lock of both", hold: holdsLock, take: func(c []*rlock.Client) func(context.Context, ...rlock.AcquireOption) error {
		return acquires(rlock.NewRedLock(append(locks(c[:2], newSpin), locks(c[2:], newPlain)...)...))
	}},
}

// tell carries out a story, and returns how the wait ended.
func (s *story) tell(t *testing.T, o *object, by ending) (err error) {
	t.Helper()
	length := s.waits
	if length == 0 {
		length = storyLength
	}
	polls := s.polls
	if polls == 0 {
		polls = 100 * time.Millisecond
	}
	inBubble(t, func(t *testing.T) {
		t.Helper()
		clients, paths := make([]*rlock.Client, len(s.sites)), make([]*virtualPath, len(s.sites))
		for i, site := range s.sites {
			server := newVirtualRedis(t)
			if site.held {
				rival, _ := server.client(t)
				require.NoError(t, o.hold(t.Context(), rival))
			}
			clients[i], paths[i] = server.client(t, tune.PollInterval(polls))
			paths[i].set(site.first)
		}
		if s.before > 0 {
			defer time.AfterFunc(length-s.before, func() {
				for i, site := range s.sites {
					paths[i].set(site.then)
				}
			}).Stop()
		}
		start := time.Now()
		err = by.wait(t.Context(), length, o.take(clients))
		require.WithinRange(t, time.Now(), start.Add(length), start.Add(max(length, floor)), "%v", err)
	})
	return err
}

// check tells a story of an object with each end of the wait.
func (s *story) check(t *testing.T, o *object) {
	t.Helper()
	for _, by := range []ending{byWait, byDeadline, byCancel} {
		if slices.Contains(o.noEnd, by) {
			continue
		}
		want := s.want
		if by == byCancel && s.cancel != "" {
			want = s.cancel
		}
		t.Run(fmt.Sprintf("%s/%s/%s", o.kind, s.what, by), func(t *testing.T) {
			t.Parallel()
			err := s.tell(t, o, by)
			require.Equal(t, want, classOf(t, err), "%v", err)
			require.Equal(t, by == byDeadline, errors.Is(err, context.DeadlineExceeded), "%v", err)
			require.Equal(t, by == byCancel, errors.Is(err, context.Canceled), "%v", err)
		})
	}
}

// TestAVerdictIsWhatRedisSaidLast has all that one Redis can say last, and all that can be under way.
func TestAVerdictIsWhatRedisSaidLast(t *testing.T) {
	t.Parallel()
	for _, s := range []story{
		{what: "refused", sites: []site{siteHeld}, want: isRefused},
		{what: "refused, asked just now", sites: []site{siteHeld.later(hangs)}, before: late, want: isRefused},
		{what: "refused, silent for long", sites: []site{siteHeld.later(hangs)}, before: early, want: isUnavailable},
		{what: "refused, failed since", sites: []site{siteHeld.later(fails)}, before: early, want: isUnavailable},
		{what: "failed", sites: []site{siteFails}, want: isUnavailable},
		{what: "failed, soon", sites: []site{siteFails}, waits: late, want: isUnavailable},
		{what: "failed, asked just now", sites: []site{siteFails.later(hangs)}, before: late, want: isUnavailable},
		{what: "failed, soon, asked just now", sites: []site{siteFails.later(hangs)}, before: late, waits: 2 * late, want: isUnavailable},
		{what: "failed, silent for long", sites: []site{siteFails.later(hangs)}, before: early, want: isUnavailable},
		{what: "failed, refused since", sites: []site{{held: true, first: fails}}, before: early, want: isRefused},
		{what: "never answered", sites: []site{siteHangs}, want: isUnavailable},
		{what: "never answered, soon", sites: []site{siteHangs}, waits: late, want: isUnavailable, cancel: isNeither},
		{what: "never answered, refused at last", sites: []site{{held: true, first: hangs}}, before: 6 * time.Second, waits: 14 * time.Second, want: isRefused},
	} {
		for _, o := range ofOneRedis {
			s.check(t, &o)
		}
	}
}

// TestAVerdictOfAGroupIsWhatItsMembersSaidLast has groups of five, whose rounds the end of the wait cuts off.
func TestAVerdictOfAGroupIsWhatItsMembersSaidLast(t *testing.T) {
	t.Parallel()
	stories := []story{
		{what: "all refuse", sites: five(5, siteHeld), want: isRefused},
		{what: "all refuse, asked just now", sites: five(5, siteHeld.later(hangs)), before: late, want: isRefused},
		{what: "all refuse, silent for long", sites: five(5, siteHeld.later(hangs)), before: early, want: isUnavailable},
		{what: "all refuse, a majority fails since", sites: five(3, siteHeld.later(fails), siteHeld, siteHeld), before: early, want: isUnavailable},
		{what: "three refuse, two fail", sites: five(3, siteHeld, siteFails, siteFails), want: isRefused},
		{what: "three refuse, two are free", sites: five(3, siteHeld, siteFree, siteFree), want: isRefused},
		{what: "three refuse and hang at last, two are free", sites: five(3, siteHeld.later(hangs), siteFree, siteFree), before: late, want: isRefused},
		{what: "two refuse, two are free, one hangs", sites: five(2, siteHeld, siteFree, siteFree, siteHangs), want: isUnavailable},
		{what: "two refuse, three hang", sites: five(3, siteHangs, siteHeld, siteHeld), want: isUnavailable},
		{what: "two refuse, three fail", sites: five(3, siteFails, siteHeld, siteHeld), want: isUnavailable},
		{what: "three hang, two are free", sites: five(3, siteHangs, siteFree, siteFree), want: isUnavailable},
		{what: "all hang", sites: five(5, siteHangs), want: isUnavailable},
		{what: "all hang, soon", sites: five(5, siteHangs), waits: late, want: isUnavailable, cancel: isNeither},
	}
	for i := range 4 { // at any moment of a round
		waits := 2*time.Second + time.Duration(i)*470*time.Millisecond
		stories = append(stories,
			story{what: fmt.Sprint("three refuse, two hang, ", waits), sites: five(3, siteHeld, siteHangs, siteHangs), waits: waits, want: isRefused},
			story{
				what: fmt.Sprint("three refuse and hang at last, two hang, ", waits), waits: waits,
				sites: five(3, siteHeld.later(hangs), siteHangs, siteHangs), before: late, want: isRefused,
			})
	}
	for _, s := range stories {
		for _, o := range groups {
			s.check(t, &o)
		}
	}
}

// TestAVerdictOfARedLockThatHasJustComeFirst has a request wait behind another of its process, and come first just before its wait ends.
// The Redis servers hang by then. What the one before has said stands.
func TestAVerdictOfARedLockThatHasJustComeFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		clients, paths := make([]*rlock.Client, 3), make([]*virtualPath, 3)
		for i := range clients {
			server := newVirtualRedis(t)
			rival, _ := server.client(t)
			require.NoError(t, holdsLock(t.Context(), rival))
			clients[i], paths[i] = server.client(t)
		}
		defer time.AfterFunc(storyLength-late, func() {
			for _, p := range paths {
				p.set(hangs)
			}
		}).Stop()
		red := rlock.NewRedLock(locks(clients, newPlain)...)
		var all sync.WaitGroup
		for _, more := range []time.Duration{0, late / 3} {
			all.Go(func() {
				_, err := red.Acquire(t.Context(), rlock.Wait(storyLength+more))
				if !errors.Is(err, rlock.ErrNotAcquired) {
					t.Errorf("%v more: %v", more, err)
				}
			})
			synctest.Wait() // the second one queues behind the first
		}
		all.Wait()
	})
}

// five returns five sites: n of the first one, and the others.
func five(n int, first site, others ...site) []site {
	return append(slices.Repeat([]site{first}, n), others...)
}

// TestARefusedRedLockWithTwoHangingServers is on real servers: three members are held by another client, and two servers are stopped.
func TestARefusedRedLockWithTwoHangingServers(t *testing.T) {
	t.Parallel()
	name := testkit.NewName()
	var mine, others []*rlock.Lock
	var hang []*redistest.Server
	for i := range 5 {
		server := redistest.Start(t)
		mine = append(mine, testkit.NewClient(t, server.Client(t)).NewLock(name))
		if i < 2 {
			hang = append(hang, server)
		} else {
			others = append(others, testkit.NewClient(t, server.Client(t)).NewLock(name))
		}
	}
	hold := testkit.Must(rlock.NewMultiLock(others...).Acquire(t.Context()))
	for _, server := range hang {
		server.Pause()
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := rlock.NewRedLock(mine...).Acquire(t.Context(), rlock.Wait(2*time.Second+time.Duration(i)*50*time.Millisecond))
			if !errors.Is(err, rlock.ErrNotAcquired) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	all.Wait()
	require.NoError(t, hold.Unlock(t.Context()))
}

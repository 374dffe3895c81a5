package group

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// These tests cover members whose waiters stand in a queue in Redis: an attempt that does not wait never overtakes them.

// queued is a fake member that exclusive holders take in the order of arrival.
type queued struct {
	lock *client.Lock
	turn chan struct{} // has a token while nobody holds it
}

// newLined returns a lock whose waiters stand in a line in Redis.
func newLined(c *client.Client, name string) *client.Lock {
	l := new(client.Lock)
	l.Init(c, wire.Plain, name, name)
	return l
}

func newQueued(c *client.Client, name string) *queued {
	q := &queued{newLined(c, name), make(chan struct{}, 1)}
	q.turn <- struct{}{}
	return q
}

func (q *queued) Locks() []*client.Lock { return []*client.Lock{q.lock} }
func (q *queued) Queues() bool          { return q.lock.Queues() }

func (q *queued) Take(ctx context.Context, t client.Terms) (client.Held, error) {
	var over <-chan time.Time
	if t.Limited {
		over = time.After(t.Wait)
	}
	select {
	case <-q.turn:
		h := &held{member: &member{lock: q.lock, log: new(journal)}, owner: ownerOf(t), deadline: time.Now().Add(leaseTime)}
		return &turn{h, q}, nil
	case <-over:
		return nil, fault.ErrRefused
	case <-ctx.Done():
		if t.Detached {
			return nil, fault.ErrRefused
		}
		return nil, client.EndOf(ctx)
	}
}

// turn is an acquisition of a [queued].
type turn struct {
	*held
	of *queued
}

func (t *turn) Unlock(ctx context.Context) error {
	err := t.held.Unlock(ctx)
	if err == nil {
		t.of.turn <- struct{}{}
	}
	return err
}

func TestAGroupStandsInTheQueueOfEachMember(t *testing.T) {
	t.Parallel()
	for what, of := range map[string]func(m ...client.Member) *Group{"multi": multi, "red": red} {
		testStanding(t, what, of)
	}
}

func multi(m ...client.Member) *Group { return NewMulti(m) }
func red(m ...client.Member) *Group   { return NewRed(m, newTestQuorum) }

func testStanding(t *testing.T, what string, of func(m ...client.Member) *Group) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		t.Helper()
		own := newClient(t)
		a, b := newQueued(own, "a"), newQueued(own, "b")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		busy := func(q *queued) { // there is always somebody who waits
			for {
				select {
				case <-q.turn:
				case <-ctx.Done():
					return
				}
				<-time.After(time.Millisecond)
				q.turn <- struct{}{}
			}
		}
		for range 50 {
			go busy(a)
			go busy(b)
		}
		synctest.Wait()
		start := time.Now()
		for range 20 {
			h, err := of(a, b).Take(t.Context(), forever)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
			_, err = of(a, b).Take(t.Context(), single)
			require.ErrorIs(t, err, fault.ErrRefused, "a single attempt does not overtake those that wait")
		}
		require.Less(t, time.Since(start), 20*10*50*time.Millisecond, what)
	})
}

// The groups of other libraries may take their members in another order.
func TestGroupsThatTakeTheirMembersInOppositeOrdersGoOn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		own := newClient(t)
		a, b := newQueued(own, "a"), newQueued(own, "b")
		takeEach(t, multi(a, b), multi(b, a), multi(a, b), newGroup("another", []client.Member{b, a}))
	})
}

// Each of these red locks may be granted one member, and needs another one.
func TestRedLocksThatHoldWhatTheOtherNeedsGoOn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		own := newClient(t)
		a, b, c := newQueued(own, "a"), newQueued(own, "b"), newQueued(own, "c")
		takeEach(t, red(a, b, c), red(a, b, c), red(c, b, a), red(b, a, c))
	})
}

// takeEach has groups take turns. On average, a turn takes little time.
func takeEach(t *testing.T, groups ...*Group) {
	t.Helper()
	start := time.Now()
	const turns = 50
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			for range turns {
				h, err := g.Take(t.Context(), forever)
				if err != nil {
					t.Error(err)
					return
				}
				<-time.After(time.Millisecond)
				if err := h.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Less(t, time.Since(start), time.Duration(turns*len(groups))*50*time.Millisecond)
}

func TestAMultiLockHoldsAMemberForAMomentWhileItWaitsForAnother(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		queued time.Duration // for the first member
		lease  time.Duration
		most   time.Duration
	}{
		"the first is free":   {most: 20 * time.Millisecond},
		"the first is queued": {queued: 30 * time.Millisecond, most: 60 * time.Millisecond},
		"a long queue":        {queued: 4 * time.Second, most: 500 * time.Millisecond},
		"a short lease":       {queued: 4 * time.Second, lease: time.Second, most: 100 * time.Millisecond},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 2)
			fakes[0].lock, fakes[1].lock = newLined(fakes[0].lock.Client(), "a"), newLined(fakes[0].lock.Client(), "b")
			fakes[0].delay = c.queued
			fakes[1].set(fault.ErrRefused)
			ctx, cancel := context.WithCancel(t.Context())
			fakes[1].reached = cancel
			_, err := NewMulti(members).Take(ctx, client.Terms{Op: "acquire", ByHold: true, Lease: c.lease})
			require.Error(t, err)
			asked := fakes[1].asked()
			require.True(t, asked.Limited, what)
			require.Positive(t, asked.Wait, what)
			require.LessOrEqual(t, asked.Wait, c.most, what)
		})
	}
}

func TestARedLockThatStandsInQueuesHoldsNothing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		wait, deadline, cancel time.Duration
		want                   error // also matched
	}{
		"a wait":         {wait: 4 * floor, want: fault.ErrRefused},
		"a deadline":     {deadline: 4 * floor, want: context.DeadlineExceeded},
		"a cancellation": {cancel: 4 * floor, want: context.Canceled},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			own := newClient(t)
			a, b, free := newQueued(own, "a"), newQueued(own, "b"), newQueued(own, "c")
			<-a.turn
			<-b.turn
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			start := time.Now()
			result := take(ctx, red(a, b, free), client.Terms{Op: "acquire", ByHold: true, Limited: c.wait > 0, Wait: c.wait})
			for range 10 {
				<-time.After(floor / 4)
				require.Len(t, free.turn, 1, "%s: nobody holds it", what)
			}
			if c.cancel > 0 {
				<-time.After(c.cancel - time.Since(start))
				cancel()
			}
			err := <-result
			checkClass(t, err, fault.ErrNotAcquired, what)
			require.ErrorIs(t, err, c.want, what)
			require.LessOrEqual(t, time.Since(start), 4*floor+minTimeout, what)
			for _, q := range []*queued{a, b} {
				q.turn <- struct{}{}
			}
			synctest.Wait()
			require.Len(t, a.turn, 1, "%s: it does not stand in the queue any more", what)
		})
	}
}

// short is a member whose first grant is for a short time only.
type short struct {
	*member

	grants int
}

func (s *short) Take(ctx context.Context, t client.Terms) (client.Held, error) {
	h, err := s.member.Take(ctx, t)
	if s.grants++; err == nil && s.grants == 1 {
		s.grant().lasts(time.Millisecond)
	}
	return h, err
}

// slowQueued refuses late.
type slowQueued struct{ *queued }

func (q slowQueued) Take(ctx context.Context, t client.Terms) (client.Held, error) {
	<-time.After(10 * time.Millisecond)
	return q.queued.Take(ctx, t)
}

// A member is refused, and the lease of another one runs out in the first round. The second round stands in the queue of the
// first, and asks nobody else.
func TestARoundThatLostAMemberGoesOn(t *testing.T) {
	t.Parallel()
	for _, free := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			own := newClient(t)
			fakes, _, _ := newMembersOf(own, 3)
			fakes[2].delay = 5 * time.Millisecond // the lease of b is over by then
			a := newQueued(own, "a")
			<-a.turn
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := take(ctx, red(slowQueued{a}, &short{member: fakes[1]}, fakes[2]), forever)
			<-time.After(10 * time.Second)
			if free {
				a.turn <- struct{}{}
			}
			<-time.After(time.Hour)
			synctest.Wait()
			require.Len(t, got, 1, "two of three members are free; a is free: %v", free)
			require.NoError(t, <-got)
		})
	}
}

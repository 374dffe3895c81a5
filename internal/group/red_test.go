package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/owner"
)

func TestARedLockIsRefusedOnlyByAMajority(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		errs    [3]error
		held    bool
		refused bool
	}{
		"all grant":                 {held: true},
		"one refuses":               {errs: [3]error{fault.ErrRefused}, held: true},
		"one is in trouble":         {errs: [3]error{nil, errBroken}, held: true},
		"two refuse":                {errs: [3]error{fault.ErrRefused, nil, fault.ErrRefused}, refused: true},
		"two refuse, one is broken": {errs: [3]error{fault.ErrRefused, errBroken, fault.ErrRefused}, refused: true},
		"one refuses, one is broken, which could have decided": {errs: [3]error{fault.ErrRefused, errBroken}},
		"two are broken": {errs: [3]error{errBroken, errBroken}},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 3)
			for i, err := range c.errs {
				fakes[i].set(err)
				if errors.Is(err, errBroken) { // it replies last: the request ends with the reply that decides
					fakes[i].delay = time.Millisecond
				}
			}
			h, err := NewRed(members, newTestQuorum).Take(t.Context(), single)
			if c.held {
				require.NoError(t, err, what)
				require.NoError(t, h.Err(), what)
				require.NoError(t, h.Unlock(t.Context()), what)
				return
			}
			require.Nil(t, h)
			require.Equal(t, c.refused, errors.Is(err, fault.ErrNotAcquired), "%s: %v", what, err)
			require.Equal(t, c.refused, errors.Is(err, fault.ErrRefused), "%s: %v", what, err)
			var quorum *quorumError
			require.ErrorAs(t, err, &quorum, what)
			require.Equal(t, 2, quorum.need)
			for i, err := range c.errs {
				if !c.refused {
					require.Equal(t, err == nil, quorum.errs[i] == nil, what)
				}
				if errors.Is(err, fault.ErrRefused) && !c.refused {
					require.ErrorContains(t, quorum.errs[i], "held by another owner")
				}
			}
			synctest.Wait()           // a member that grants after the decision is released in the background
			for _, f := range fakes { // what was granted is released
				if h := f.grant(); h != nil {
					require.ErrorIs(t, h.Err(), fault.ErrNotHeld)
				}
			}
		})
	}
}

func TestAMemberThatGrantsTooLateIsReleased(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		red := NewRed(members, newTestQuorum)
		fakes[0].delay = time.Hour
		fakes[1].set(errBroken)
		start := time.Now()
		_, err := red.Take(t.Context(), single)
		require.NotErrorIs(t, err, fault.ErrNotAcquired)
		require.ErrorContains(t, err, errBroken.Error())
		require.ErrorIs(t, err, fault.ErrNoAnswer)
		require.Equal(t, leaseTime/30, time.Since(start), "a member gets a thirtieth of a lease")
		fakes[2].set(errBroken)
		start = time.Now()
		_, err = red.Take(t.Context(), single)
		require.ErrorContains(t, err, errBroken.Error())
		require.Zero(t, time.Since(start), "the two others decide")

		fakes[1].set(nil)
		fakes[1].delay = 10 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, err = red.Take(ctx, forever)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		<-time.After(time.Second)
		require.ErrorIs(t, fakes[1].grant().Err(), fault.ErrNotHeld, "it is released when it replies")
	})
}

func TestALateMemberJoinsAndAMissingOneIsAskedAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		fakes[1].delay = 10 * time.Millisecond
		fakes[2].set(errBroken)
		h, err := NewRed(members, newTestQuorum).Take(t.Context(), forever)
		require.NoError(t, err)
		log.take()
		fakes[2].set(nil)
		<-time.After(leaseTime/3 + time.Second)
		require.Equal(t, []string{"try c"}, log.take())
		require.NoError(t, fakes[2].grant().Err())
		synctest.Wait()
		require.Equal(t, 1, fakes[0].grant().renewals(), "the others are renewed soon after a member joined")

		lost := fakes[0].grant()
		lost.lose(lease.Loss{Early: true, Since: clock.Now()})
		synctest.Wait()
		require.NoError(t, h.Err())
		require.Equal(t, []string{"unlock a", "try a"}, log.take(), "a member that lost the lock is asked again at once")
		require.NotSame(t, lost, fakes[0].grant())
		require.NoError(t, h.Unlock(t.Context()))
		<-time.After(time.Minute)
		require.Len(t, log.take(), 3, "nobody is asked after the unlock")
	})
}

// A late member of the first acquisition may be granted to the second one.
func TestARedLockIsReenteredIfAMajorityIs(t *testing.T) {
	t.Parallel()
	for reentered, want := range []bool{false, false, true, true} {
		fakes, members, _ := newMembers(t, 3)
		a := acquisitionOf(t, fakes, members)
		for i, f := range fakes {
			f.grant().reentered = i < reentered
		}
		require.Equal(t, want, a.Reentered(), "%d members", reentered)
	}
}

func TestAnUnlockWaitsForNoMemberThatKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		h, err := NewRed(members, newTestQuorum).Take(t.Context(), forever)
		require.NoError(t, err)
		synctest.Wait()
		fakes[1].hangs = time.Hour
		log.take()
		start := time.Now()
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, minTimeout, time.Since(start), "it gets a moment, and goes on in the background")
		require.Len(t, log.take(), 3)
		<-time.After(2 * time.Hour)
	})
}

func TestTheUnlockOfARedLockNeedsAMajority(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		red := NewRed(members, newTestQuorum)
		h, err := red.Take(t.Context(), forever)
		require.NoError(t, err)
		synctest.Wait()
		fakes[0].unlock = errBroken
		require.NoError(t, h.Unlock(t.Context()))

		h, err = red.Take(t.Context(), forever)
		require.NoError(t, err)
		synctest.Wait()
		fakes[1].unlock = errBroken
		var quorum *quorumError
		require.ErrorAs(t, h.Unlock(t.Context()), &quorum)
		require.NoError(t, quorum.errs[2])
		require.ErrorContains(t, quorum.errs[1], "member 2")
	})
}

func TestRequestsForOneRedLockContendOneAtATime(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		red, other := NewRed(members, newTestQuorum), NewRed(members, newTestQuorum)
		for _, f := range fakes[1:] {
			f.set(fault.ErrRefused)
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := take(ctx, red, forever), take(t.Context(), other, forever)
		synctest.Wait()
		require.Equal(t, 2, red.Waiting())
		require.Equal(t, 2, other.Waiting())
		require.Equal(t, 1, LocalQueues(clientOf(red)))

		err := <-take(t.Context(), red, client.Terms{Op: "lock", Limited: true, Wait: time.Second})
		require.ErrorIs(t, err, fault.ErrRefused, "as the head was")
		for _, f := range fakes[1:] {
			f.set(errBroken)
		}
		err = <-take(t.Context(), red, client.Terms{Op: "lock", Limited: true, Wait: 10 * time.Second})
		require.ErrorIs(t, err, errBroken, "trouble is no refusal")
		require.NotErrorIs(t, err, fault.ErrNotAcquired)

		log.take()
		require.ErrorIs(t, <-take(t.Context(), red, single), errBroken)
		require.NotEmpty(t, log.take(), "a single attempt does not queue")

		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		synctest.Wait()
		require.Equal(t, 1, red.Waiting())
		for _, f := range fakes[1:] {
			f.set(nil)
		}
		require.NoError(t, <-second)
		require.Zero(t, red.Waiting())
		require.Zero(t, LocalQueues(clientOf(red)))
	})
}

// take acquires and releases in the background.
func take(ctx context.Context, g *Group, t client.Terms) <-chan error {
	result := make(chan error, 1)
	go func() {
		h, err := g.Take(ctx, t)
		if err == nil {
			err = h.Unlock(ctx)
		}
		result <- err
	}()
	return result
}

func TestAGroupInAGroupEndsWithIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 4)
		red := NewRed(members[1:], newTestQuorum)
		g := NewMulti([]client.Member{members[0], red})
		h, err := g.Take(t.Context(), forever)
		require.NoError(t, err)
		require.Len(t, h.Locks(), 4)
		require.NotNil(t, h.OwnerOf(h.Locks()[3].ID().Key))
		synctest.Wait()
		for _, f := range fakes[1:3] {
			f.grant().lose(f.grant().confirmed(time.Now()))
		}
		<-h.Done()
		require.ErrorIs(t, h.Err(), fault.ErrLost)
		log.take()
		require.ErrorIs(t, h.Unlock(t.Context()), fault.ErrLost)
		synctest.Wait()
		require.Len(t, log.take(), 4)
	})
}

func TestADroppedAcquisitionDropsItsMembers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		h, err := NewMulti(members).Take(t.Context(), forever)
		require.NoError(t, err)
		h.Leak()
		for _, f := range fakes {
			require.Error(t, f.grant().Err())
		}
		require.ErrorIs(t, h.Unlock(t.Context()), fault.ErrNotHeld)
	})
}

// The client of the inner group is closed, and nobody carries out anything in its background any more. The outer group is
// the first to look, and finds that the inner one is lost.
func TestAGroupFindsALostGroupOfAClosedClient(t *testing.T) {
	t.Parallel()
	fakes, members, _ := newMembers(t, 3)
	inner := NewRed(members, newTestQuorum)
	outer := NewMulti([]client.Member{inner})
	h, err := outer.Take(t.Context(), single)
	require.NoError(t, err)
	clientOf(inner).Close()
	for _, f := range fakes {
		grant := f.grant()
		grant.mu.Lock()
		grant.deadline = time.Now() // its client has not noticed yet
		grant.mu.Unlock()
	}
	found := make(chan error, 1)
	go func() { found <- h.Err() }()
	select {
	case err := <-found:
		require.ErrorIs(t, err, fault.ErrLost)
	case <-time.After(10 * time.Second):
		t.Fatal("the group waits for itself")
	}
}

// TestAMemberIsReacquiredForItsOwner has EnsureOwner add an owner beside a hold of one member. So the members have different
// owners, and each is asked again for its own.
func TestAMemberIsReacquiredForItsOwner(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		mine := new(owner.Owner)
		ctx := client.EnsureOwner(holdOf(t, &held{member: fakes[0], owner: mine, deadline: time.Now().Add(time.Hour)}).Context())
		fakes[1].set(fault.ErrRefused)
		taken, err := NewRed(members, newTestQuorum).Take(ctx, forever)
		require.NoError(t, err)
		fakes[1].set(nil)
		<-time.After(leaseTime/3 + time.Second)
		require.Same(t, mine, ownerOf(fakes[0].asked()))
		require.Same(t, client.OwnerOf(ctx), ownerOf(fakes[1].asked()))
		require.NoError(t, taken.Unlock(ctx))
	})
}

// TestEachLockOfAGroupInAGroupIsReacquiredForItsOwner has a red lock ask again for a group, of one of whose locks the context carries a hold. The
// owner of this hold counts for that lock alone.
func TestEachLockOfAGroupInAGroupIsReacquiredForItsOwner(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 4)
		mine := new(owner.Owner)
		ctx := holdOf(t, &held{member: fakes[1], owner: mine, deadline: time.Now().Add(time.Hour)}).Context()
		inner := NewMulti(members[:2])
		fakes[0].set(fault.ErrRefused)
		taken, err := NewRed([]client.Member{inner, members[2], members[3]}, newTestQuorum).Take(ctx, forever)
		require.NoError(t, err)
		rest := ownerOf(fakes[2].asked())
		require.NotSame(t, mine, rest)
		fakes[0].set(nil)
		<-time.After(leaseTime/3 + time.Second)
		require.Same(t, rest, ownerOf(fakes[0].asked()))
		require.Same(t, mine, ownerOf(fakes[1].asked()))
		require.Same(t, mine, taken.OwnerOf(fakes[1].Locks()[0].ID().Key))
		require.NoError(t, taken.Unlock(ctx))
	})
}

// quorumError is the error of a red lock in these tests.
type quorumError struct {
	need int
	errs []error
}

func newTestQuorum(need int, errs []error) error { return &quorumError{need, errs} }

func (e *quorumError) Error() string   { return fmt.Sprint(e.need, e.errs) }
func (e *quorumError) Unwrap() []error { return slices.DeleteFunc(slices.Clone(e.errs), isNil) }

func isNil(err error) bool { return err == nil }

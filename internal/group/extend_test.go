package group

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

// takeFakes takes a group of fakes.
func takeFakes(t *testing.T, g *Group) client.Held {
	t.Helper()
	h, err := g.Take(t.Context(), single)
	require.NoError(t, err)
	return h
}

func TestAMultiLockExtendsAllMembersSideBySide(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		h := takeFakes(t, NewMulti(members))
		for _, m := range fakes {
			m.hangs = time.Second
		}
		began := time.Now()
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, began.Add(time.Hour), h.Deadline())

		fakes[1].extend = fault.Unavailable(errBroken)
		err := h.Extend(t.Context(), 2*time.Hour)
		require.ErrorIs(t, err, fault.ErrUnavailable)
		require.ErrorIs(t, err, errBroken)
		require.NoError(t, h.Err(), "the group goes on")
		require.Equal(t, began.Add(time.Hour), h.Deadline(), "with the earliest deadline")

		fakes[1].grant().lose(lease.Loss{})
		log := fakes[0].log
		log.take()
		require.ErrorIs(t, h.Extend(t.Context(), time.Hour), fault.ErrLost)
		require.Empty(t, log.take(), "no member is asked")
		require.ErrorIs(t, h.Unlock(t.Context()), fault.ErrLost)
		require.ErrorIs(t, h.Extend(t.Context(), time.Hour), fault.ErrLost)
	})
}

func TestARedLockExtendsAMajority(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		h := takeFakes(t, NewRed(members))
		synctest.Wait()
		began := time.Now()
		fakes[0].hangs, fakes[1].hangs, fakes[2].hangs = time.Hour, time.Second, 2*time.Second
		require.NoError(t, h.Extend(t.Context(), 2*time.Hour))
		require.Equal(t, 2*time.Second, time.Since(began), "it waits for a majority only")
		require.Equal(t, began.Add(2*time.Hour), h.Deadline(), "the second latest")

		ctx, cancel := context.WithCancelCause(t.Context())
		because := errors.New("because")
		time.AfterFunc(time.Minute, func() { cancel(because) })
		synctest.Wait()
		fakes[1].hangs = time.Hour
		err := h.Extend(ctx, 3*time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, because)
		require.NotErrorIs(t, err, fault.ErrUnavailable)
		require.Equal(t, began.Add(2*time.Hour), h.Deadline())
		require.NoError(t, h.Err())

		ended, end := context.WithTimeout(t.Context(), floor)
		defer end()
		err = h.Extend(ended, 3*time.Hour) // two members have no reply
		require.ErrorIs(t, err, fault.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		synctest.Wait() // the members that were extended in vain
		fakes[0].hangs, fakes[1].hangs, fakes[2].hangs = 0, 0, 0
		fakes[0].extend, fakes[1].extend = fault.ErrLost, fault.Unavailable(errBroken)
		err = h.Extend(t.Context(), 3*time.Hour)
		require.ErrorContains(t, err, "2 of 3 members failed, 2 are needed: member 1 (\"a\"): ")
		require.ErrorIs(t, err, fault.ErrUnavailable)
		require.NotErrorIs(t, err, fault.ErrNotHeld, "a member is lost, and the group is not")
		require.NoError(t, h.Err())

		require.NoError(t, h.Unlock(t.Context()))
		err = h.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, fault.ErrNotHeld)
		require.NotErrorIs(t, err, fault.ErrLost)
	})
}

func TestAMemberThatIsMissingIsNotExtended(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		fakes[2].set(errBroken)
		h := takeFakes(t, NewRed(members))
		synctest.Wait() // the third member replies last
		log.take()
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		require.ElementsMatch(t, []string{"extend a", "extend b"}, log.take())
		synctest.Wait()
		fakes[0].extend = fault.Unavailable(errBroken)
		err := h.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, fault.ErrUnavailable)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// Extend must not say that the lease lasts on the word of a member that is lost by then. Its error names that member, too.
func TestExtendCountsOnlyMembersThatAreHeld(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		h := takeFakes(t, NewRed(members))
		synctest.Wait()
		fakes[1].hangs, fakes[2].hangs = time.Second, 2*time.Second
		fakes[2].extend = errBroken
		time.AfterFunc(time.Second/2, func() { fakes[0].grant().lose(lease.Loss{Early: true, Since: clock.Now()}) })
		err := h.Extend(t.Context(), time.Hour)
		require.ErrorContains(t, err, "member 1")
		require.ErrorContains(t, err, "member 3")
		require.NoError(t, h.Err())
		require.Less(t, time.Until(h.Deadline()), time.Hour/2)
	})
}

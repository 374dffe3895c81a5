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
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestGroupsRefuseWhatCannotWork(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	good := newLock(c, "a")
	for what, g := range map[string]*Group{
		"nil":                    nil,
		"no lock":                NewMulti(nil),
		"a nil member":           NewMulti([]client.Member{good, nil}),
		"a nil lock":             NewMulti([]client.Member{(*client.Lock)(nil), good}),
		"a zero lock":            NewMulti([]client.Member{new(client.Lock), good}),
		"a nil group":            NewMulti([]client.Member{good, (*Group)(nil)}),
		"no lock for red":        NewRed(nil, newTestQuorum),
		"a red lock of no locks": NewRed([]client.Member{good, NewMulti(nil)}, newTestQuorum),
		"one lock twice for red": NewRed([]client.Member{good, newLock(c, "a")}, newTestQuorum),
		"a bad group in a group": NewMulti([]client.Member{NewRed([]client.Member{good, nil}, newTestQuorum)}),
	} {
		require.ErrorIs(t, g.Check("lock"), fault.ErrInvalidOption, what)
		require.ErrorIs(t, g.Unlock(t.Context()), fault.ErrInvalidOption, what)
		h, err := g.Take(t.Context(), forever)
		require.ErrorIs(t, err, fault.ErrInvalidOption, what)
		require.Nil(t, h, what)
	}
	var none *Group
	require.Empty(t, none.Locks())
	require.Empty(t, none.Members())
}

func TestAMultiLockHasEachLockOnceAndInOrder(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	a, b, again := newLock(c, "a"), newLock(c, "b"), newLock(c, "a")
	reader, writer := new(client.Lock), new(client.Lock)
	reader.Init(c, wire.Read, "rw", "rw")
	writer.Init(c, wire.Write, "rw", "rw")
	red := NewRed([]client.Member{newLock(c, "aa")}, newTestQuorum)
	g := NewMulti([]client.Member{b, reader, NewMulti([]client.Member{a, b}), again, writer, red})
	require.NoError(t, g.Check("lock"))
	require.Equal(t, []client.Member{a, red, b, writer, reader}, g.Members())
	require.True(t, g.same(NewMulti([]client.Member{writer, reader, red, b, again})))
	require.False(t, g.same(NewMulti([]client.Member{a, red, b, writer})))
}

func TestAMultiLockWaitsForOneMemberAndHoldsNoOtherMeanwhile(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		g := NewMulti(members)
		fakes[1].set(fault.ErrRefused)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			h, err := g.Take(t.Context(), forever)
			if err == nil {
				err = h.Unlock(t.Context())
			}
			require.ErrorIs(t, err, fault.ErrRefused, "a wait that fails is the last one")
		})
		waiting.Wait()
		require.Equal(t, []string{"wait for a", "try b", "unlock a", "wait for b"}, log.take())

		_, err := g.Take(t.Context(), single)
		require.ErrorIs(t, err, fault.ErrRefused)
		require.Equal(t, []string{"try a", "try b", "unlock a"}, log.take())
	})
}

func TestAMultiLockIsUnlockedOnceAndItsFirstMemberLast(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		g := NewMulti(members)
		h, err := g.Take(t.Context(), forever)
		require.NoError(t, err)
		require.NoError(t, h.Err())
		log.take()
		fakes[2].hangs = time.Second
		require.NoError(t, h.Unlock(t.Context()))
		lines := log.take()
		require.ElementsMatch(t, []string{"unlock a", "unlock b", "unlock c"}, lines)
		require.Equal(t, "unlock a", lines[2])
		require.ErrorIs(t, h.Err(), fault.ErrNotHeld)
		err = h.Unlock(t.Context())
		require.ErrorIs(t, err, fault.ErrNotHeld)
		require.NotErrorIs(t, err, fault.ErrLost)
		require.Empty(t, log.take())
	})
}

func TestAMultiLockIsLostWithAnyMember(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 2)
		h, err := NewMulti(members).Take(t.Context(), forever)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		require.NoError(t, h.Notify(cancel, true))
		now := time.Now()
		fakes[1].grant().lose(fakes[1].grant().confirmed(now))
		<-h.Done()
		require.ErrorIs(t, h.Err(), fault.ErrLost)
		require.ErrorIs(t, context.Cause(ctx), fault.ErrLost)
		log.take()
		require.ErrorIs(t, h.Unlock(t.Context()), fault.ErrLost)
		synctest.Wait()
		require.Len(t, log.take(), 2, "all members are unlocked")
	})
}

func TestUnlockChoosesByOwnerAndByHandle(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		_, members, _ := newMembers(t, 2)
		g, other := NewMulti(members), NewMulti(members)
		plain := client.Terms{Op: "lock"}
		owner := client.WithOwner(t.Context())
		require.ErrorIs(t, g.Unlock(t.Context()), fault.ErrNotHeld)
		for _, ctx := range []context.Context{owner, t.Context()} {
			_, err := g.Take(ctx, plain)
			require.NoError(t, err)
		}
		require.NoError(t, g.Unlock(t.Context()), "the one without an owner comes first")
		require.ErrorIs(t, other.Unlock(t.Context()), fault.ErrNotHeld, "it was locked through another handle")
		require.NoError(t, other.Unlock(owner), "an owner may use any handle")
		require.ErrorIs(t, g.Unlock(owner), fault.ErrNotHeld)
		require.ErrorIs(t, g.Unlock(t.Context()), fault.ErrNotHeld)
	})
}

func TestAnUnlockEndsALostAcquisitionBeforeOneThatIsHeld(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 2)
		g := NewMulti(members)
		for range owner.MaxLost + 2 { // the handle does not keep them all
			_, err := g.Take(t.Context(), client.Terms{Op: "lock"})
			require.NoError(t, err)
			fakes[0].grant().lose(fakes[0].grant().confirmed(time.Now()))
		}
		require.Len(t, g.open.All(), owner.MaxLost)
		_, err := g.Take(t.Context(), client.Terms{Op: "lock"})
		require.NoError(t, err)
		for range owner.MaxLost - 1 {
			require.ErrorIs(t, g.Unlock(t.Context()), fault.ErrLost)
		}
		require.NoError(t, g.Unlock(t.Context()))
		require.ErrorIs(t, g.Unlock(t.Context()), fault.ErrNotHeld)
	})
}

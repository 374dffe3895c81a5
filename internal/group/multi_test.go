package group

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestGroupsRefuseWhatCannotWork(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	good := newLock(c, "a")
	for what, g := range map[string]*Group{
		"nil":                    nil,
		"no lock":                NewMulti(nil),
		"a nil lock":             NewMulti([]client.Member{(*client.Lock)(nil), good}),
		"a zero lock":            NewMulti([]client.Member{new(client.Lock), good}),
		"no lock for red":        NewRed(nil),
		"one lock twice for red": NewRed([]client.Member{good, newLock(c, "a")}),
	} {
		h, err := g.Take(t.Context(), forever)
		require.ErrorIs(t, err, fault.ErrInvalidOption, what)
		require.Nil(t, h, what)
	}
	var none *Group
	require.Empty(t, none.Locks())
}

func TestAMultiLockHasEachLockOnceAndInOrder(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	a, b, again := newLock(c, "a"), newLock(c, "b"), newLock(c, "a")
	reader, writer := new(client.Lock), new(client.Lock)
	reader.Init(c, wire.Read, "rw", "rw")
	writer.Init(c, wire.Write, "rw", "rw")
	g := NewMulti([]client.Member{b, reader, a, b, again, writer})
	require.NoError(t, g.err)
	require.Equal(t, []client.Member{a, b, writer, reader}, g.members)
	require.True(t, g.same(NewMulti([]client.Member{writer, reader, b, again})))
	require.False(t, g.same(NewMulti([]client.Member{a, b, writer})))
	require.False(t, g.same(NewRed([]client.Member{a, b, writer, reader})))
}

// TestAMultiLockKeepsForAMomentWhatComesBefore the member that refuses, and nothing after it. Then it waits for that one alone.
func TestAMultiLockKeepsForAMomentWhatComesBefore(t *testing.T) {
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
		synctest.Wait()
		all := log.take()
		require.ElementsMatch(t, []string{"try a", "try b", "try c", "unlock c", "wait for b", "unlock a", "wait for b"}, all)
		waits := slices.DeleteFunc(all, func(what string) bool { return what == "unlock c" })
		require.Equal(t, []string{"wait for b", "unlock a", "wait for b"}, waits[len(waits)-3:], "in the end it holds nothing meanwhile")

		_, err := g.Take(t.Context(), single)
		require.ErrorIs(t, err, fault.ErrRefused)
		require.ElementsMatch(t, []string{"try a", "try b", "try c", "unlock a", "unlock c"}, log.take())
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
		require.NoError(t, h.Notify(cancel))
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

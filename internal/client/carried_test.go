package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// borrow returns the hold of a lock that a context carries, on loan, or nil.
func borrow(ctx context.Context, l *Lock) *Hold {
	h := new(Hold)
	if !h.Borrow(ctx, l) {
		return nil
	}
	return h
}

func TestABorrowedHoldSendsNothing(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(), wire.Fenced)
		h := f.hold(f.Context(), l, Terms{})
		f.took()
		b := borrow(h.Context(), l)
		require.Equal(f, h.Token(), b.Token())
		require.Equal(f, h.Deadline(), b.Deadline())
		require.Same(f, h.Context(), b.Context())
		err := b.Unlock(f.Context())
		require.ErrorIs(f, err, fault.ErrNotHeld)
		require.ErrorContains(f, err, `rlock: unlock "`+name+`": `)
		require.ErrorContains(f, err, "the hold is borrowed")
		require.Empty(f, f.took())
		require.NoError(f, b.Err())
		f.drop()
		f.until(watchdogTimeout)
		requireOver(f, b, fault.ErrLost)
		require.Equal(f, f.token(), b.Token(), "a stale holder can present its token")
		require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
		require.NotErrorIs(f, b.Unlock(f.Context()), fault.ErrLost)
	})
}

func TestWithOwnerHidesHoldsAndEnsureOwnerDoesNot(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		plain, owner := EnsureOwner(h.Context()), WithOwner(h.Context())
		require.Same(f, plain, EnsureOwner(plain))
		require.Same(f, owner, EnsureOwner(owner))
		require.NotSame(f, OwnerOf(plain), OwnerOf(EnsureOwner(h.Context())), "each call makes an owner")
		require.NotNil(f, borrow(plain, l))
		require.Nil(f, borrow(owner, l))
		require.Nil(f, borrow(WithOwner(plain), l))
		require.NotNil(f, borrow(EnsureOwner(plain), l))

		for i, ctx := range []context.Context{plain, f.Context()} {
			again := f.hold(EnsureOwner(ctx), f.lock(l.client, wire.Plain), Terms{})
			require.Equal(f, 2-i, f.held().count)
			require.NoError(f, acquireWithin(again.Context(), l, 0), "a hold that was taken with the new owner re-enters")
			require.ErrorIs(f, acquireWithin(WithOwner(again.Context()), l, 0), fault.ErrRefused)
			require.NoError(f, l.Unlock(again.Context()))
			require.NoError(f, again.Unlock(f.Context()))
			if i == 0 {
				require.NoError(f, h.Unlock(f.Context()))
			}
		}
	})
}

func TestNothingIsBorrowedOfNothing(t *testing.T) {
	run(t, func(f *fixture) {
		h := f.hold(f.Context(), f.newLock(), Terms{})
		for _, l := range []*Lock{nil, {}} {
			require.Nil(f, borrow(h.Context(), l))
		}
		require.NoError(f, h.Unlock(f.Context()))
	})
}

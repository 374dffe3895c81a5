package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
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
			h, err := NewRed(members).Take(t.Context(), single)
			if c.held {
				require.NoError(t, err, what)
				require.NoError(t, h.Err(), what)
				require.NoError(t, h.Unlock(t.Context()), what)
				return
			}
			require.Nil(t, h)
			require.Equal(t, c.refused, errors.Is(err, fault.ErrNotAcquired), "%s: %v", what, err)
			require.Equal(t, c.refused, errors.Is(err, fault.ErrRefused), "%s: %v", what, err)
			require.ErrorContains(t, err, "2 are needed", what)
			for i, of := range c.errs {
				member := fmt.Sprintf("member %d", i+1)
				if !c.refused {
					require.Equal(t, of != nil, strings.Contains(err.Error(), member), "%s: %v", what, err)
				}
				if errors.Is(of, fault.ErrRefused) && !c.refused {
					require.ErrorContains(t, err, fmt.Sprintf("%s (\"%c\"): held by another owner", member, 'a'+i))
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
		red := NewRed(members)
		fakes[0].delay = time.Hour
		fakes[1].set(errBroken)
		start := time.Now()
		_, err := red.Take(t.Context(), single)
		require.NotErrorIs(t, err, fault.ErrNotAcquired)
		require.ErrorContains(t, err, errBroken.Error())
		require.ErrorIs(t, err, fault.ErrNoAnswer)
		require.Equal(t, leaseTime/30, time.Since(start), "a member gets a thirtieth of a lease")
		fakes[1].set(fault.ErrRefused)
		fakes[2].set(fault.ErrRefused)
		start = time.Now()
		_, err = red.Take(t.Context(), single)
		require.ErrorIs(t, err, fault.ErrRefused)
		require.Zero(t, time.Since(start), "the two others decide")
		fakes[2].set(errBroken)

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

func TestAnUnlockWaitsForNoMemberThatKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		h, err := NewRed(members).Take(t.Context(), forever)
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
		red := NewRed(members)
		h, err := red.Take(t.Context(), forever)
		require.NoError(t, err)
		synctest.Wait()
		fakes[0].unlock = errBroken
		require.NoError(t, h.Unlock(t.Context()))

		h, err = red.Take(t.Context(), forever)
		require.NoError(t, err)
		synctest.Wait()
		fakes[1].unlock = errBroken
		err = h.Unlock(t.Context())
		require.ErrorContains(t, err, "2 of 3 members failed, 2 are needed")
		require.ErrorContains(t, err, "member 2")
		require.NotContains(t, err.Error(), "member 3")
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

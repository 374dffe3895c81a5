package group

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// These tests cover when a call ends, whatever its members do.

func TestACallOfAGroupIsBounded(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		wait     time.Duration // negative means none
		deadline time.Duration
		want     time.Duration
	}{
		"a short wait":              {wait: 300 * time.Millisecond, want: floor},
		"a long wait":               {wait: 3 * time.Second, want: 3 * time.Second},
		"one attempt":               {want: floor},
		"one attempt, a deadline":   {deadline: 2 * floor, want: 2 * floor},
		"one attempt, far deadline": {deadline: time.Hour, want: commandTimeout},
		"a deadline":                {wait: -1, deadline: floor / 2, want: floor / 2},
		"a wait and a deadline":     {wait: floor * 2, deadline: floor / 2, want: floor / 2},
	} {
		for red := range variants {
			bubble(t, func(t *testing.T) {
				t.Helper()
				what := fmt.Sprintf("%s, %v", what, red)
				fakes, members, _ := newMembers(t, 3)
				g := red.group(fakes, members)
				for _, f := range fakes { // together, they take longer than the bound
					f.delay = c.want * 7 / 10
					f.hangs = time.Hour
				}
				fakes[2].delay = time.Hour
				if red.red {
					fakes[1].delay = time.Hour
				}
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if c.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
				}
				defer cancel()
				start := time.Now()
				_, err := g.Take(ctx, client.Terms{Op: "acquire", Limited: c.wait >= 0, Wait: max(c.wait, 0)})
				checkClass(t, err, fault.ErrUnavailable, what)
				require.Equal(t, c.want, time.Since(start), what)
			})
		}
	}
}

// The first member of a multi lock is unlocked last. If the others took the whole command timeout, it has only a moment.
func TestTheUnlockOfAMultiLockHasOneBound(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		hangs [3]time.Duration
		want  error
		most  time.Duration
	}{
		"an outage":        {hangs: [3]time.Duration{commandTimeout, commandTimeout, commandTimeout}, want: fault.ErrUnavailable, most: commandTimeout + 2*minTimeout},
		"the others first": {hangs: [3]time.Duration{commandTimeout, floor, floor}, want: fault.ErrUnavailable, most: commandTimeout + minTimeout},
		"all in time":      {hangs: [3]time.Duration{3 * floor, floor, floor}, most: 4 * floor},
		"the others late":  {hangs: [3]time.Duration{minTimeout / 2, commandTimeout, 0}, most: commandTimeout + minTimeout},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, log := newMembers(t, 3)
			h, err := NewMulti(members).Take(t.Context(), forever)
			require.NoError(t, err)
			for i, f := range fakes {
				f.hangs = c.hangs[i]
				if c.hangs[i] == commandTimeout {
					f.unlock = errBroken
				}
			}
			if what == "the others late" {
				fakes[1].unlock = nil
			}
			log.take()
			start := time.Now()
			if err := h.Unlock(t.Context()); c.want == nil {
				require.NoError(t, err, what)
			} else {
				checkClass(t, err, c.want, what)
			}
			require.LessOrEqual(t, time.Since(start), c.most, what)
			require.Len(t, log.take(), 3, "all are released, perhaps in the background")
		})
	}
}

// A member that has granted may be slow to release. The call that gives it up does not wait for that.
func TestAReleaseDoesNotProlongTheCall(t *testing.T) {
	t.Parallel()
	for _, red := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 3)
			g := NewMulti(members)
			if red {
				g = NewRed(members)
			}
			fakes[0].hangs = time.Hour
			fakes[1].set(errDenied)
			fakes[2].set(errDenied)
			for _, terms := range []client.Terms{
				single, forever, {Op: "acquire", Limited: true, Wait: time.Millisecond},
			} {
				start := time.Now()
				_, err := g.Take(t.Context(), terms)
				require.ErrorIs(t, err, errDenied)
				require.LessOrEqual(t, time.Since(start), floor, "%+v", terms)
			}
			<-time.After(24 * time.Hour)
			require.ErrorIs(t, fakes[0].grant().Err(), fault.ErrNotHeld, "it is released nevertheless")
		})
	}
}

func TestEachAttemptOfAnUnlimitedCallIsBounded(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 2)
		fakes[1].delay = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		result := take(ctx, NewMulti(members), forever)
		<-time.After(commandTimeout - time.Millisecond)
		require.ElementsMatch(t, []string{"try a", "try b"}, log.take())
		<-time.After(2 * time.Millisecond)
		require.Equal(t, []string{"unlock a", "wait for b"}, log.take())
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
	})
}

// The client of one member is closed, and its server hangs. The unlock waits only for a majority.
func TestAnUnlockDoesNotWaitForTheMemberOfAClosedClient(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 3)
			own := newClient(t)
			fakes[0].lock = newLock(own, "a")
			h := takeFakes(t, NewRed(members))
			synctest.Wait()
			if closed {
				own.Close()
			}
			fakes[0].hangs = commandTimeout
			start := time.Now()
			require.NoError(t, h.Unlock(t.Context()))
			require.LessOrEqual(t, time.Since(start), 2*minTimeout, "closed %v", closed)
		})
	}
}

// The first client is closed. A call does not outlast its bound because a release hangs.
func TestAReleaseDoesNotProlongACallOfAClosedClient(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 4)
			own := newClient(t)
			fakes[0].lock = newLock(own, "a")
			fakes[0].set(fault.ErrClosed)
			fakes[1].hangs, fakes[2].hangs = commandTimeout, commandTimeout
			fakes[3].set(fault.ErrRefused)
			fakes[3].delay = time.Millisecond
			if closed {
				own.Close()
			}
			start := time.Now()
			_, err := NewRed(members).Take(t.Context(), single)
			require.Error(t, err)
			require.LessOrEqual(t, time.Since(start), floor, "closed %v", closed)
		})
	}
}

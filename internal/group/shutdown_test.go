package group

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

// stop tells a member's holder that its client shuts down. The member stays held.
func (h *held) stop() {
	h.mu.Lock()
	h.stopping = true
	tell := h.tell
	h.mu.Unlock()
	if tell != nil {
		tell(fault.ErrClosed)
	}
}

// holdOf makes the hold of an acquisition, as the root does.
func holdOf(t *testing.T, taken client.Held) *client.Hold {
	t.Helper()
	h := new(client.Hold)
	h.Init(t.Context(), taken)
	return h
}

// TestAShutdownEndsTheContextsOfGroups has one member's client shut down: the context ends, and the group is held until it is
// unlocked, or lost.
func TestAShutdownEndsTheContextsOfGroups(t *testing.T) {
	t.Parallel()
	groups := map[string]func([]client.Member) *Group{
		"multi": NewMulti,
		"red":   NewRed,
	}
	for what, newGroup := range groups {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				t.Helper()
				fakes, members, _ := newMembers(t, 3)
				taken, err := newGroup(members).Take(t.Context(), forever)
				require.NoError(t, err)
				synctest.Wait() // for the last member of a red lock
				h := holdOf(t, taken)
				before, done := h.Context(), h.Done()
				fakes[1].grant().stop()
				<-before.Done()
				require.Equal(t, fault.ErrClosed, context.Cause(before))
				require.NoError(t, h.Err())
				select {
				case <-done:
					t.Error("Done is closed")
				default:
				}
				late := holdOf(t, taken).Context()
				require.Equal(t, fault.ErrClosed, context.Cause(late), "a context that is asked for later has ended")

				fakes[0].grant().lose(lease.Loss{Early: true})
				fakes[2].grant().lose(lease.Loss{Early: true})
				<-done
				require.ErrorIs(t, h.Err(), fault.ErrLost, "a loss is still noticed")
				require.ErrorIs(t, h.Unlock(t.Context()), fault.ErrLost)
			})
		})
	}
}

// TestAWaitingRedLockIsCounted has one request for a red lock be refused, and another one queue behind it.
func TestAWaitingRedLockIsCounted(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		for _, m := range fakes {
			m.set(fault.ErrRefused)
		}
		client := lockOf(members[0]).Client()
		ctx, cancel := context.WithCancel(t.Context())
		g := NewRed(members)
		head, behind := take(ctx, g, forever), take(ctx, g, forever)
		<-time.After(time.Minute)
		require.Equal(t, 2, client.Table().Counts().Waiting)
		cancel()
		require.ErrorIs(t, <-head, context.Canceled)
		require.ErrorIs(t, <-behind, context.Canceled)
		require.Zero(t, client.Table().Counts().Waiting)
	})
}

// TestARedLockSurvivesTheCloseOfAMember has the client of a minority be closed, which ends nothing.
func TestARedLockSurvivesTheCloseOfAMember(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		taken, err := NewRed(members).Take(t.Context(), forever)
		require.NoError(t, err)
		synctest.Wait() // for the last member
		h := holdOf(t, taken)
		ctx := h.Context()
		member := fakes[1].grant()
		member.mu.Lock()
		member.err = fault.ErrClosed
		tell := member.tell
		member.mu.Unlock()
		tell(fault.ErrClosed)
		require.NoError(t, ctx.Err())
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock(t.Context()))
	})
}

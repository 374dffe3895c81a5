package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

// lasts sets for how long the hold lasts from now on.
func (h *held) lasts(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = time.Now().Add(d)
}

// close ends the hold of the member as its client does.
func (h *held) close() {
	h.mu.Lock()
	h.err = fault.ErrClosed
	tell := h.tell
	h.mu.Unlock()
	tell(fault.ErrClosed)
}

// The client of one member was closed long ago. Then the hold is lost for another reason.
func TestALossAfterACloseIsALoss(t *testing.T) {
	t.Parallel()
	for n, loss := range map[int]lease.Loss{3: {}, 5: {Early: true}} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, n)
			h := takeFakes(t, NewRed(members))
			synctest.Wait()
			h.(*acquisition).members[n-1].since = clock.Now() // it joined late
			fakes[0].grant().close()
			<-time.After(time.Second)
			require.NoError(t, h.Err())
			fakes[1].grant().lose(loss)
			require.ErrorIs(t, h.Err(), fault.ErrLost, "%d members", n)
			require.Equal(t, h.Err(), h.Unlock(t.Context()))
		})
	}
}

// A member was lost since its last confirmation, and all others were held by then.
func TestALateMemberDoesNotMakeUpForAnEarlyLoss(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 3)
			h := takeFakes(t, NewRed(members))
			<-time.After(2 * time.Second)
			l := fakes[0].grant().confirmed(time.Now().Add(-time.Second)) // all have been renewed since they joined
			if late {
				h.(*acquisition).members[2].since = clock.Now()
			}
			fakes[0].grant().lose(l)
			synctest.Wait()
			require.Equal(t, late, h.Err() != nil, "a member came after the loss %v: %v", late, h.Err())
		})
	}
}

// A member whose client is closed is no loss.
func TestAClosedMemberIsNoLoss(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		h := takeFakes(t, NewRed(members))
		synctest.Wait()
		for _, f := range fakes {
			f.grant().lasts(time.Hour)
		}
		fakes[0].grant().close()
		synctest.Wait()
		require.NoError(t, h.Err(), "two of three members are held")
	})
}

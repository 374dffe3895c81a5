package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
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
	for n, loss := range map[int]lease.Loss{3: {}, 5: {Early: true, Final: true}} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, n)
			h := takeFakes(t, NewRed(members, newTestQuorum))
			synctest.Wait()
			fakes[0].grant().close()
			<-time.After(time.Second)
			require.NoError(t, h.Err())
			fakes[1].grant().lose(loss)
			require.ErrorIs(t, h.Err(), fault.ErrLost, "%d members", n)
			require.Equal(t, h.Err(), h.Unlock(t.Context()))
		})
	}
}

// A member that is a group was lost since its last confirmation, and all others were held by then.
func TestTheLossOfAnInnerGroupIsThatOfItsMember(t *testing.T) {
	t.Parallel()
	for _, nested := range []bool{false, true} {
		for _, forced := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				t.Helper()
				fakes, members, _ := newMembers(t, 3)
				first := members[0]
				if nested {
					first = NewMulti(members[:1])
				}
				h := takeFakes(t, NewRed([]client.Member{first, members[1], members[2]}, newTestQuorum))
				<-time.After(2 * time.Second)
				l := fakes[0].grant().confirmed(time.Now().Add(-time.Second)) // all have been renewed since they joined
				l.Final = forced
				fakes[0].grant().lose(l)
				synctest.Wait()
				require.Equal(t, forced, h.Err() != nil, "nested %v, by force %v: %v", nested, forced, h.Err())
			})
		}
	}
}

// A member that is a group is closed: that is no loss.
func TestAClosedInnerGroupIsNoLoss(t *testing.T) {
	t.Parallel()
	for _, nested := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 3)
			first := members[0]
			if nested {
				first = NewMulti(members[:1])
			}
			fakes[2].set(errBroken)
			h := takeFakes(t, NewRed([]client.Member{first, members[1], members[2]}, newTestQuorum))
			<-time.After(time.Second)
			fakes[2].set(nil)
			<-time.After(leaseTime / 2) // the third has joined
			require.NotNil(t, fakes[2].grant())
			for _, f := range fakes {
				f.grant().lasts(time.Hour)
			}
			fakes[0].grant().close()
			synctest.Wait()
			require.NoError(t, h.Err(), "nested %v: two of three members are held", nested)
		})
	}
}

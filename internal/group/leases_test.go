package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAGroupPassesItsLeaseOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease   time.Duration
		renewed bool
	}{{0, false}, {3 * time.Second, false}, {3 * time.Second, true}} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			terms := single
			terms.Lease, terms.Renewed = c.lease, c.renewed
			for _, red := range []bool{false, true} {
				fakes, members, _ := newMembers(t, 3)
				g := NewMulti(members)
				if red {
					g = NewRed(members)
				}
				h, err := g.Take(t.Context(), terms)
				require.NoError(t, err)
				synctest.Wait()
				for _, m := range fakes {
					asked := m.asked()
					require.Equal(t, c.lease, asked.Lease)
					require.Equal(t, terms.Renews(), asked.Renews())
				}
				require.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
}

func TestTheLeaseSetsTheTimesOfARedLock(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		fakes[2].delay = time.Hour
		terms := single
		terms.Lease, terms.Renewed = 9*time.Second, true
		h, err := NewRed(members).Take(t.Context(), terms)
		require.NoError(t, err)
		<-time.After(299 * time.Millisecond)
		synctest.Wait()
		fakes[2].delay = 0
		log.take()
		<-time.After(2 * time.Millisecond)
		require.Empty(t, log.take(), "a thirtieth of the lease is over")
		require.Equal(t, 9*time.Second, fakes[2].asked().Lease)
		require.True(t, fakes[2].asked().Renewed)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

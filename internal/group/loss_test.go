package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

func TestARedLockThatLostItsMajorityIsLostForGood(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, log := newMembers(t, 3)
		h := takeFakes(t, NewRed(members, newTestQuorum))
		synctest.Wait()
		for _, f := range fakes[1:] {
			f.grant().lose(f.grant().confirmed(time.Now()))
		}
		require.ErrorIs(t, h.Err(), fault.ErrLost)
		synctest.Wait()
		log.take()
		<-time.After(time.Minute)
		require.Empty(t, log.take(), "no member is asked again")
		require.Equal(t, h.Err(), h.Unlock(t.Context()), "the loss, whatever became of the members")
	})
}

// acquisitionOf returns an acquisition of a red lock that all members have joined, and that has not begun.
func acquisitionOf(t *testing.T, fakes []*member, members []client.Member) *acquisition {
	t.Helper()
	r := &request{Terms: forever, group: NewRed(members, newTestQuorum)}
	r.asks(t.Context())
	a := r.newAcquisition()
	for i, f := range fakes {
		h, err := f.Take(t.Context(), single)
		require.NoError(t, err)
		require.True(t, a.add(i, h))
	}
	return a
}

func TestAMemberThatReplacedAnotherDoesNotHideALostMajority(t *testing.T) {
	t.Parallel()
	now := clock.Instant(100)
	for what, c := range map[string]struct {
		since [3]clock.Instant // when the members joined; zero means at the beginning
		loss  lease.Loss       // of the first member
		held  bool
	}{
		"all others were held":             {loss: lease.Loss{Early: true, Since: now}, held: true},
		"one joined before the loss":       {since: [3]clock.Instant{0, 0, 90}, loss: lease.Loss{Early: true, Since: now}, held: true},
		"one joined after the loss":        {since: [3]clock.Instant{0, 0, 110}, loss: lease.Loss{Early: true, Since: now}},
		"its lease ended, as it should":    {since: [3]clock.Instant{0, 0, 110}, held: true},
		"it was lost on purpose":           {loss: lease.Loss{Final: true}},
		"lost at an unknown moment":        {loss: lease.Loss{Early: true}, held: true},
		"the same, and one joined later":   {since: [3]clock.Instant{0, 1, 0}, loss: lease.Loss{Early: true}},
		"both others joined, after a loss": {since: [3]clock.Instant{0, 101, 102}, loss: lease.Loss{Early: true, Since: now}},
	} {
		fakes, members, _ := newMembers(t, 3)
		a := acquisitionOf(t, fakes, members)
		require.True(t, a.begin())
		for i, since := range c.since {
			a.members[i].since = since
		}
		fakes[0].grant().lose(c.loss)
		require.Equal(t, c.held, a.Err() == nil, what)
	}
}

// A red lock asks a member again only after it has weighed that member's loss. The second loss comes at each moment of this in turn.
func TestALossIsWeighedBeforeTheMemberIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		for calls := 1; calls < 40; calls++ {
			bubble(t, func(t *testing.T) {
				t.Helper()
				fakes, members, _ := newMembers(t, n)
				h := takeFakes(t, NewRed(members, newTestQuorum))
				synctest.Wait()
				end := time.Now().Add(time.Second)
				for _, f := range fakes[:2] {
					f.set(errBroken)
					f.grant().lasts(time.Second)
				}
				forced := lease.Loss{Early: true, Final: true}
				fakes[1].grant().calls, fakes[1].grant().loss = calls, forced
				fakes[0].grant().lose(lease.Loss{})
				synctest.Wait()
				fakes[1].grant().lose(forced)
				require.ErrorIs(t, h.Err(), fault.ErrLost, "%d members, lost in call %d", n, calls)
				if n == 3 {
					require.Equal(t, end, h.Deadline(), "that of the majority; lost in call %d", calls)
				}
			})
		}
	}
}

func TestTheDeadlineIsThatOfTheLastMemberNeeded(t *testing.T) {
	t.Parallel()
	fakes, members, _ := newMembers(t, 3)
	r := &request{group: NewRed(members, newTestQuorum)}
	r.asks(t.Context())
	require.Zero(t, r.newAcquisition().Deadline())
	a := acquisitionOf(t, fakes, members)
	now := time.Now()
	for i, f := range fakes {
		f.grant().deadline = now.Add(time.Duration(i+1) * time.Hour)
	}
	require.True(t, a.begin())
	require.Equal(t, now.Add(2*time.Hour), a.Deadline(), "until then two of three are held")
	fakes[2].grant().lose(lease.Loss{Early: true, Since: clock.Now()})
	require.Equal(t, now.Add(time.Hour), a.Deadline())
	fakes[1].grant().lose(lease.Loss{Early: true, Since: clock.Now()})
	require.Equal(t, now.Add(2*time.Hour), a.Deadline(), "once it is lost, the deadline that it had")
}

// A member was lost before the majority was there.
func TestALossBeforeTheBeginningDoesNotMatter(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 3)
		fakes[1].delay, fakes[2].delay = 20*time.Millisecond, 30*time.Millisecond
		got := make(chan client.Held, 1)
		go func() {
			h, err := NewRed(members, newTestQuorum).Take(t.Context(), forever)
			require.NoError(t, err)
			got <- h
		}()
		<-time.After(10 * time.Millisecond)
		fakes[0].grant().lose(lease.Loss{Early: true, Final: true})
		h := <-got
		require.NoError(t, h.Err(), "it was just acquired, with b and c")
	})
}

// The first loss leaves a majority that was held all the time. So does the second one, which comes after a renewal.
func TestALossIsWeighedOnce(t *testing.T) {
	t.Parallel()
	for _, terms := range []client.Terms{forever, {Op: "acquire", ByHold: true, Lease: time.Hour}} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 5)
			fakes[4].delay = 40 * time.Millisecond // it joins late
			h, err := NewRed(members, newTestQuorum).Take(t.Context(), terms)
			require.NoError(t, err)
			began := time.Now()
			<-time.After(time.Second)
			require.NotNil(t, fakes[4].grant())
			fakes[0].set(errBroken)
			fakes[0].grant().lose(fakes[0].grant().confirmed(began))
			require.NoError(t, h.Err())
			<-time.After(time.Second)
			require.NoError(t, h.Err())
			// all others are confirmed now
			confirmed := time.Now()
			<-time.After(time.Second)
			fakes[3].grant().lose(fakes[3].grant().confirmed(confirmed))
			require.NoError(t, h.Err(), "lease %v: b and c were held always, d until 1 s ago, and e since the first second", terms.Lease)
		})
	}
}

// The deadline of a hold that is lost does not move any more.
func TestTheDeadlineOfALostHoldStays(t *testing.T) {
	t.Parallel()
	for _, red := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 3)
			h := takeFakes(t, variant{red: red}.group(fakes, members))
			synctest.Wait()
			for i, f := range fakes {
				f.grant().lasts(time.Duration(i+1) * time.Second)
			}
			fakes[2].grant().lose(lease.Loss{Early: true, Final: true}) // by force
			require.ErrorIs(t, h.Err(), fault.ErrLost)
			before := h.Deadline()
			for _, f := range fakes[:2] { // renewed, until the caller unlocks
				require.NoError(t, f.grant().Extend(t.Context(), time.Hour))
			}
			require.Equal(t, before, h.Deadline(), "red %v", red)
		})
	}
}

// The unlock of a member is under way, so nothing is known of its loss. Then it turns out that it was lost before another one joined.
func TestALossThatIsNotKnownYetIsWeighedLater(t *testing.T) {
	t.Parallel()
	fakes, members, _ := newMembers(t, 3)
	a := acquisitionOf(t, fakes, members)
	require.True(t, a.begin())
	a.members[1].since = 110
	require.True(t, a.hadQuorum(func(i int) bool { return i != 2 }), "as far as the first two say")
	fakes[2].grant().lose(lease.Loss{Early: true, Since: 100})
	require.ErrorIs(t, a.Err(), fault.ErrLost)
}

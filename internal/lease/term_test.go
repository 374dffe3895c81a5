package lease

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

const (
	start = clock.Instant(time.Hour)
	lease = 30 * time.Second
)

func TestALeaseIsTrustedLessThanItLasts(t *testing.T) {
	t.Parallel()
	require.Equal(t, 302*time.Millisecond, Margin(lease))
	require.Equal(t, 250*time.Microsecond, Margin(time.Millisecond), "at most a quarter")
}

// TestTheGuideHasTheTimesOfALease compares the drawing of a loss with the deadlines by which rlock decides.
func TestTheGuideHasTheTimesOfALease(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide/losing.md")
	require.NoError(t, err)
	var term Term
	for n, what := range []string{"acquire", "renew", "renew"} {
		sent := clock.Instant(time.Duration(n) * 10 * time.Second)
		term.Confirm(sent, lease)
		require.Equal(t, sent.Add(10*time.Second), term.Renewal(lease, lease))
		seconds := func(at clock.Instant) float64 { return time.Duration(at).Seconds() }
		require.Contains(t, string(guide), fmt.Sprintf("%v s: %s, until %v s\n", seconds(sent), what, seconds(term.Ends())))
		if n == 2 {
			require.Contains(t, string(guide), fmt.Sprintf("%v s: the context of the hold ends", seconds(term.Deadline)))
		}
	}
}

func TestALeaseCountsFromBeforeItsCommand(t *testing.T) {
	t.Parallel()
	var term Term
	require.True(t, term.Past(start), "nothing is confirmed")
	term.Confirm(start, lease)
	deadline := start.Add(lease - Margin(lease))
	require.Equal(t, deadline, term.Deadline)
	require.Equal(t, start.Add(lease), term.Ends())
	require.False(t, term.Past(deadline-1))
	require.True(t, term.Past(deadline))
}

func TestAShorterLeaseMovesNoDeadline(t *testing.T) {
	t.Parallel()
	var term Term
	term.Confirm(start, lease)
	deadline := term.Deadline
	term.Confirm(start.Add(time.Second), time.Second)
	require.Equal(t, deadline, term.Deadline)
	require.Equal(t, start.Add(lease), term.Ends(), "the margin stays that of the longer lease")
	require.Equal(t, start.Add(time.Second), term.Confirmed)
	term.Confirm(start, lease)
	require.Equal(t, start.Add(time.Second), term.Confirmed, "the reply to an older command came later")
}

func TestARenewalIsDueAfterTheConfirmation(t *testing.T) {
	t.Parallel()
	var term Term
	term.Confirm(start, lease)
	require.Equal(t, start.Add(lease/3), term.Renewal(lease, lease))
	require.Equal(t, start.Add(lease/9), term.Renewal(lease, lease/3), "by the shortest lease")
	term.Confirm(start.Add(time.Second), time.Hour)
	require.Equal(t, start.Add(time.Second+lease/3), term.Renewal(lease, lease), "wherever the deadline is")
}

func TestARenewalIsDueBeforeTheLeaseIsShort(t *testing.T) {
	t.Parallel()
	var term Term
	term.Confirm(start, lease)
	term.Confirm(start.Add(lease/4), time.Second)
	require.Equal(t, start.Add(lease/3), term.Renewal(lease, lease), "the second lease is no longer than the first")
}

func TestAReplyIsLateWhenLittleOfTheLeaseIsLeft(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{lease, time.Millisecond} {
		deadline := start.Add(lease - Margin(lease))
		require.False(t, Late(start, lease, deadline.Add(-lease/4)))
		require.True(t, Late(start, lease, deadline.Add(-lease/4+1)))
		require.True(t, Late(start, lease, deadline))
		require.False(t, Late(start, lease, start.Add(lease/4)), "a quick reply is never late")
	}
}

func TestRedisMayKeepTheHolderForAsLongAsAnyCommandSaid(t *testing.T) {
	t.Parallel()
	var term Term
	term.Sending(lease, time.Second, start)
	require.Equal(t, start.Add(lease+time.Second), term.LatestExpiry)
	term.Sending(time.Second, time.Second, start)
	require.Equal(t, start.Add(lease+time.Second), term.LatestExpiry)
}

func TestALeaseIsDueAtWhatComesFirst(t *testing.T) {
	t.Parallel()
	var term Term
	term.Confirm(start, lease)
	require.Equal(t, term.Deadline, term.Due(false))
	term.RenewAt = start.Add(lease / 3)
	require.Equal(t, term.RenewAt, term.Due(true))
	term.MaxHold = start.Add(time.Second)
	require.Equal(t, term.MaxHold, term.Due(false))
	require.Equal(t, term.MaxHold, term.Due(true))
}

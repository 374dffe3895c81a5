package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// checkStay checks the shortest and the longest stay, and what the default source makes of it.
func checkStay(t *testing.T, lease, shortest, longest time.Duration, stay func(stays) time.Duration, what string) {
	t.Helper()
	require.Equal(t, shortest, stay(stays{lease, func(time.Duration) time.Duration { return 0 }}), what)
	require.Equal(t, longest, stay(stays{lease, func(below time.Duration) time.Duration { return below - 1 }}), what)
	for range 10 {
		d := stay(stays{lease: lease})
		require.True(t, shortest <= d && d <= longest, "%s: %v", what, d)
	}
}

func TestAMultiLockStaysForAMoment(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		round    int
		waited   time.Duration
		lease    time.Duration
		shortest time.Duration
	}{
		"the first member was free":       {round: 1, shortest: 10 * ms},
		"a short wait":                    {round: 1, waited: 4 * ms, shortest: 10 * ms},
		"about as long as the first line": {round: 1, waited: 40 * ms, shortest: 40 * ms},
		"a long first line":               {round: 1, waited: time.Hour, shortest: 250 * ms},
		"longer in each round":            {round: 4, waited: 40 * ms, shortest: 80 * ms},
		"for 3 s at most":                 {round: 9, shortest: 1500 * ms},
		"however many rounds":             {round: 1000, shortest: 1500 * ms},
		"for a tenth of the lease":        {round: 9, waited: time.Hour, lease: time.Second, shortest: 50 * ms},
	} {
		if c.lease == 0 {
			c.lease = time.Minute
		}
		checkStay(t, c.lease, c.shortest, 2*c.shortest, func(r stays) time.Duration { return r.behind(c.round, c.waited) }, what)
	}
	checkStay(t, time.Minute, 10*ms, 20*ms, stays.before, "a member before the first one")
	checkStay(t, 100*ms, 5*ms, 10*ms, stays.before, "a member before the first one, with a short lease")
}

func TestARedLockStaysForAMajorityForAMoment(t *testing.T) {
	t.Parallel()
	for round, shortest := range map[int]time.Duration{2: 10 * ms, 3: 20 * ms, 6: 160 * ms, 1000: time.Second} {
		checkStay(t, time.Minute, shortest, 2*shortest, func(r stays) time.Duration { return r.forMajority(round) }, "a majority")
	}
	checkStay(t, 300*ms, 5*ms, 10*ms, func(r stays) time.Duration { return r.forMajority(9) }, "a short lease")
}

func TestARedLockThatHoldsNothingStaysForLong(t *testing.T) {
	t.Parallel()
	for _, round := range []int{2, 1000} {
		checkStay(t, 30*ms, 3*time.Second, 3*time.Second, func(r stays) time.Duration { return r.forAny(round, false) }, "all queue")
	}
	for round, most := range map[int]time.Duration{2: 20 * ms, 1000: time.Second} {
		d := stays{lease: time.Minute}.forAny(round, true)
		require.True(t, most/2 <= d && d <= most, "some do not queue: %v", d)
	}
}

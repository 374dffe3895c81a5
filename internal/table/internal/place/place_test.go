package place

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

const (
	start  = clock.Instant(time.Hour)
	micros = 1_700_000_000_000_000 // of Redis at start
	lease  = 3 * time.Second
)

// grant returns the message of a grant a second after start, which comes 1 ms later.
func grant() GrantMessage {
	return GrantMessage{Micros: micros + 1_000_000, Term: lease, Token: 7, Heard: start.Add(1001 * time.Millisecond)}
}

// standing returns a place in the line since start.
func standing() *Place {
	p := new(Place)
	p.Join(1, start)
	p.Stand(Reading{start, micros}, start.Add(lease))
	return p
}

// soon is when the grant is taken, unless a test says otherwise.
const soon = start + clock.Instant(1002*time.Millisecond)

// taken takes a grant, which must be there, and from which a little less than a second has passed since start.
func taken(t *testing.T, p *Place) {
	t.Helper()
	g, at, ok := p.Take(lease, soon)
	require.True(t, ok)
	require.EqualValues(t, 7, g.Token)
	require.InDelta(t, time.Second, at.Sub(start), float64(10*time.Millisecond))
	require.LessOrEqual(t, at.Sub(start), time.Second, "not after the grant")
	require.False(t, p.Unsure)
	_, _, ok = p.Take(lease, soon)
	require.False(t, ok, "once")
}

func refused(t *testing.T, p *Place, least time.Duration) {
	t.Helper()
	_, _, ok := p.Take(least, soon.Add(time.Second))
	require.False(t, ok)
}

func TestAGrantIsTaken(t *testing.T) {
	t.Parallel()
	p := standing()
	refused(t, p, 0)
	require.False(t, p.Unsure, "there is none yet")
	p.OnGranted(grant())
	taken(t, p)
}

// A grant that comes before the reply waits for it. Only the reply shows Redis's clock.
func TestAGrantThatComesBeforeTheReply(t *testing.T) {
	t.Parallel()
	for _, stood := range [2]bool{false, true} {
		for _, answered := range [2]bool{false, true} {
			p := new(Place)
			if stood {
				p = standing()
			}
			p.Join(1, start)
			require.True(t, p.Asks)
			p.OnGranted(grant())
			refused(t, p, lease)
			require.False(t, p.Unsure)
			if answered {
				p.Stand(Reading{start, micros}, start.Add(lease))
			} else {
				require.True(t, p.Unanswered())
				require.False(t, p.Unanswered(), "it is no longer under way")
			}
			if stood || answered {
				taken(t, p)
				continue
			}
			refused(t, p, lease)
			require.True(t, p.Unsure, "it has to ask")
		}
	}
}

// A grant waits for the reply to a question. Its age is that at the end of this wait.
func TestAGrantThatWaitedForTooLong(t *testing.T) {
	t.Parallel()
	for _, answered := range [2]bool{false, true} {
		for waited, ok := range map[time.Duration]bool{lease / 8: true, lease / 2: false, lease: false} {
			p := standing()
			p.Join(1, start)
			p.OnGranted(grant())
			refused(t, p, lease)
			if answered {
				p.Stand(Reading{start, micros}, start.Add(lease))
			} else {
				p.Unanswered()
			}
			_, _, taken := p.Take(lease, soon.Add(waited))
			require.Equal(t, ok, taken, "%v", waited)
			require.Equal(t, !ok, p.Unsure, "%v: it has to ask", waited)
		}
	}
}

// A grant that cannot be relied on makes the waiter ask. Its next question starts afresh.
func TestAGrantThatCannotBeReliedOn(t *testing.T) {
	t.Parallel()
	late := grant()
	late.Heard = late.Heard.Add(time.Second)
	for what, test := range map[string]struct {
		grant GrantMessage
		least time.Duration
	}{"too late": {late, 0}, "too short": {grant(), lease + 1}} {
		p := standing()
		p.OnGranted(test.grant)
		refused(t, p, test.least)
		require.True(t, p.Unsure, what)
		require.EqualValues(t, test.grant.Micros, p.Given)
		p.OnGranted(grant())
		refused(t, p, 0)
		p.Join(2, start)
		require.False(t, p.Unsure, what)
		require.EqualValues(t, 2, p.Epoch)
		p.Stand(Reading{start, micros}, start.Add(lease))
		refused(t, p, 0) // those before the question are void
		require.False(t, p.Unsure, what)
	}
}

func TestWhenToAsk(t *testing.T) {
	t.Parallel()
	p := standing()
	require.True(t, p.May)
	require.True(t, p.Stands)
	require.Equal(t, start.Add(lease), p.AskAt)
	p.AskBy(start.Add(2 * lease))
	require.Equal(t, start.Add(lease), p.AskAt, "never later")
	p.EndsAt(start.Add(time.Second))
	require.Equal(t, start.Add(time.Second), p.AskAt)
	require.False(t, p.Unsure)
	p.Join(1, start.Add(time.Second))
	require.Equal(t, time.Second, start.Add(time.Second).Sub(p.Since), "since the first question")
	p.EndsAt(start.Add(2 * time.Second))
	require.True(t, p.Unsure, "the reply on its way may be about the holder before")
}

// A reply may say that a waiter has the lock, after the message said when that was given to it. Then the moment is known, so an unlock by
// force that was before does not end the hold.
func TestTheMomentOfAGrantIsKnownWhileItsWaiterAsks(t *testing.T) {
	t.Parallel()
	var p Place
	now := clock.Now()
	p.Join(1, now)
	p.OnGranted(GrantMessage{Micros: 7, Term: time.Second, Heard: now})
	_, _, ok := p.Take(0, now)
	require.False(t, ok, "its question is under way")
	require.Equal(t, int64(7), p.Given)
}

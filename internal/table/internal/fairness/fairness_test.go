package fairness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

const now = clock.Instant(time.Hour)

func TestAClientKnowsItsOwnMessages(t *testing.T) {
	t.Parallel()
	others, own := Snapshot{Messages: 7}.After(3, 1)
	require.EqualValues(t, 3, others)
	require.EqualValues(t, 7, own)
	others, own = Snapshot{Messages: 7, Subscribed: true}.After(3, 2)
	require.EqualValues(t, 2, others, "one of them is this client")
	require.EqualValues(t, 9, own)
	_, own = Snapshot{Messages: 7, Subscribed: true}.After(3, 0)
	require.EqualValues(t, 8, own, "zero means one")
}

func TestOthersGetAMoment(t *testing.T) {
	t.Parallel()
	r := Release{At: now, Turn: time.Millisecond, Others: 3, Own: 7}
	const standBack = time.Millisecond
	require.Equal(t, standBack, r.Wait(7, true, standBack, now), "only its own release was announced")
	require.Equal(t, r.Pause(now), r.Wait(8, true, standBack, now))
	require.Zero(t, r.Wait(8, false, standBack, now), "the message came before")
}

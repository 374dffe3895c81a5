package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestALeaseThatIsTooShortForTheLink asks for a fixed lease of which a round trip leaves less than a quarter. The calls say why they
// have failed, do not ask without a pause, and leave nothing behind. A lease of which a quarter is left is taken.
func TestALeaseThatIsTooShortForTheLink(t *testing.T) {
	for trip, fits := range map[time.Duration]bool{72 * time.Millisecond: true, 80 * time.Millisecond: false, 200 * time.Millisecond: false} {
		t.Run(trip.String(), func(t *testing.T) {
			runLine(t, func(f *fixture) {
				f.instead(func(_ string, do func() wire.Reply) wire.Reply {
					time.Sleep(trip / 2)
					defer time.Sleep(trip / 2)
					return do()
				})
				l := f.newLock()
				for _, wait := range []time.Duration{0, time.Minute} {
					held, err := l.Take(f.Context(), Terms{Op: "acquire", Lease: 100 * time.Millisecond, Limited: true, Wait: wait, ByHold: true})
					if fits {
						require.NoError(f, err)
						require.GreaterOrEqual(f, time.Until(held.Deadline()), 25*time.Millisecond)
						require.NoError(f, held.Unlock(f.Context()))
						continue
					}
					require.ErrorIs(f, err, fault.ErrUnavailable)
					require.ErrorIs(f, err, fault.ErrLate)
					require.ErrorContains(f, err, "a lease of 100ms is too short for a round trip of "+trip.String())
					time.Sleep(time.Second)
					require.Less(f, len(f.took()), 600, "it pauses")
					f.free()
				}
			})
		})
	}
}

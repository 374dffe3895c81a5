package group

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// TestNoGroupIsNearlyOver has a member take long to reply, while the lease of the others runs out. The group is held if a quarter is
// left. Otherwise it gives its members back, and tries again unless the call is a single attempt.
func TestNoGroupIsNearlyOver(t *testing.T) {
	t.Parallel()
	const lasts = 4 * time.Second
	for _, delay := range []time.Duration{lasts * 7 / 10, lasts * 8 / 10, lasts - 1} {
		for v := range variants {
			for _, once := range [2]bool{false, true} {
				if v.red && !once {
					continue // no round takes as long
				}
				t.Run(fmt.Sprintf("%v, %v, once %v", v, delay, once), func(t *testing.T) {
					t.Parallel()
					bubble(t, func(t *testing.T) {
						t.Helper()
						fakes, members, _ := newMembers(t, 3)
						g := v.group(fakes, members)
						slow := fakes[2]
						slow.delay = delay
						slow.reached = func() { slow.delay = 0 } // its second reply comes at once
						if v.red {
							fakes[1].err = errDenied
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						began := time.Now()
						a, err := g.Take(ctx, client.Terms{Op: "acquire", Lease: lasts, Limited: once})
						if once && delay > lasts*3/4 {
							require.ErrorIs(t, err, fault.ErrUnavailable)
							return
						}
						require.NoError(t, err)
						require.GreaterOrEqual(t, time.Until(a.Deadline()), lasts/4)
						if delay < lasts*3/4 {
							require.Equal(t, delay, time.Since(began), "it does not try again")
						}
						require.NoError(t, a.Unlock(ctx))
					})
				})
			}
		}
	}
}

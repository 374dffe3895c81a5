package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/outcome"
)

// A group asks what the calls of its members would say, while these calls end. The race detector looks on.
func TestWhatACallWouldSayMayBeAskedWhileItEnds(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		l := f.newLock()
		f.hang()
		for range 100 {
			ctx, cancel := context.WithCancel(f.Context())
			p := new(outcome.Progress)
			r := f.async(func() error {
				_, err := l.Acquire(ctx, Terms{Op: "lock", Progress: p})
				return err
			})
			go cancel()
			for !r.ended() {
				require.False(f, p.At(clock.Now()).Refused)
			}
			require.ErrorIs(f, r.err, context.Canceled)
		}
		f.instead(nil)
		f.until(time.Minute)
	})
}

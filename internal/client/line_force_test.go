package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// TestForceGrantsAFixedLease has a client unlock the lock of another process by force, and get it itself, for a fixed time: it
// asks after the grant. The reply to the unlock comes before that question, while it is under way, or after its reply.
func TestForceGrantsAFixedLease(t *testing.T) {
	for what, reply := range map[string]time.Duration{
		"before": 0, "meanwhile": 50 * time.Millisecond, "after": 200 * time.Millisecond,
	} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				f.hold(f.Context(), f.newLock(), Terms{})
				w := f.waits(Terms{Lease: time.Minute})
				next := f.waits(Terms{})
				f.until(time.Second)
				f.instead(func(command string, do func() wire.Reply) wire.Reply {
					slow := map[string][2]time.Duration{
						"force": {0, reply}, "acquire": {50 * time.Millisecond, 50 * time.Millisecond},
					}[command]
					time.Sleep(slow[0])
					r := do()
					time.Sleep(slow[1])
					return r
				})
				forced := f.async(func() error {
					_, err := w.lock.ForceUnlock(f.Context(), nil)
					return err
				})
				forced.succeeded(time.Second + reply)
				f.until(1200 * time.Millisecond)
				require.True(f, w.over(), "it is not passed over")
				w.succeeded(1100 * time.Millisecond)
				f.until(2 * time.Second)
				require.NoError(f, w.hold.Err(), "the new hold is not ended")
				require.NoError(f, w.hold.Unlock(f.Context()))
				next.now()
				require.NoError(f, next.hold.Unlock(f.Context()))
				f.free()
			})
		})
	}
}

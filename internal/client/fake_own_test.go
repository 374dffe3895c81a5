package client

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// A subscription that breaks while its client closes does not come back. Otherwise the fake server would send to it until its buffers are
// full, and then block with its mutex: the test would neither fail nor end.
func TestAClosedSubscriptionDoesNotComeBack(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.takeForOthers(time.Hour)
		c := f.client()
		l := f.lock(c, wire.Plain)
		waits := f.async(func() error { return acquire(f.Context(), l) })
		f.cut(time.Millisecond)
		c.Close()
		<-waits.done
		for range 20 {
			time.Sleep(10 * time.Millisecond)
			f.cut(time.Millisecond)
		}
	})
}

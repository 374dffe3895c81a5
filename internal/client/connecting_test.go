package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

// connect has the client of a lock get a reply, so that it need not connect later.
func (f *fixture) connect(l *Lock) {
	f.Helper()
	_, err := l.IsLocked(f.Context())
	require.NoError(f, err)
	f.took()
}

// TestConnectingDoesNotCount has a client that connects for longer than a single attempt may take. That holds for the first call, and
// after a time without calls. What the user limits is limited, and in an outage only the first call waits for a connection, if one is made.
func TestConnectingDoesNotCount(t *testing.T) {
	const far = floor + floor/2
	once := patience{"a single attempt", 0, 0, 0}
	dials := func(f *fixture, dial, rest time.Duration) { // to connect, and to get a reply then
		if f.info.Dials == nil {
			f.info.Dials = new(driver.Dials)
		}
		f.instead(func(_ string, do func() wire.Reply) wire.Reply {
			end := f.info.Dials.Begin()
			time.Sleep(dial)
			end(true)
			time.Sleep(rest)
			return do()
		})
	}
	run(t, func(f *fixture) {
		dials(f, far, floor*3/2)
		l := f.newLock()
		for range 2 { // the second time after a time without calls
			began := time.Since(f.start)
			f.async(func() error { return once.acquire(f, l) }).succeeded(began + far + floor*3/2)
			f.instead(nil)
			require.NoError(f, l.Unlock(f.Context()))
			f.hang()
			began = time.Since(f.start)
			f.async(func() error { return once.acquire(f, l) }).ends(unavailable, began+floor)
			f.instead(nil)
			f.until(began + 2*commandTimeout)
			f.connect(l)
			f.until(began + 2*time.Minute)
			dials(f, far, floor*3/2)
		}
	})
	run(t, func(f *fixture) {
		dials(f, far, 0)
		l := f.newLock()
		f.async(func() error { return patience{"a wait", floor / 2, 0, 0}.acquire(f, l) }).ends(unavailable, floor)
		f.until(time.Minute - time.Second)
	})
	run(t, func(f *fixture) {
		dials(f, far, 0)
		l := f.newLock()
		f.async(func() error { return patience{"a deadline", 0, floor, 0}.acquire(f, l) }).ends(unavailable, floor)
		f.until(time.Minute - time.Second)
	})
	for _, c := range []struct {
		what string
		dial time.Duration // until a connection is made
		ends time.Duration
	}{
		{"a black hole", 2 * commandTimeout, commandTimeout},
		{"a server that accepts connections, and hangs", 0, 2 * floor},
		{"no connection is made", -1, floor}, // the pool of the application is busy
	} {
		t.Run(c.what, func(t *testing.T) {
			run(t, func(f *fixture) {
				dials(f, c.dial, 0)
				l := f.newLock()
				known := f.info.Dials
				f.instead(func(string, func() wire.Reply) wire.Reply {
					if c.dial >= 0 {
						end := known.Begin()
						time.AfterFunc(c.dial, func() { end(true) })
					}
					time.Sleep(commandTimeout)
					return network()
				})
				f.async(func() error { return once.acquire(f, l) }).ends(unavailable, c.ends)
				for range 3 {
					began := time.Since(f.start)
					f.async(func() error { return once.acquire(f, l) }).ends(unavailable, began+floor)
				}
				f.instead(nil)
				f.until(time.Minute)
				f.free()
			})
		})
	}
}

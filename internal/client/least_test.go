package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestNoHoldIsNearlyOver has Redis be silent to the question of a waiter that stands in the line. Meanwhile a release grants it the
// lock, by a message. The question fails when little of the first term is left, or nothing. The waiter must not rely on that.
func TestNoHoldIsNearlyOver(t *testing.T) {
	for _, terms := range []Terms{{}, {Lease: 2 * time.Second}, {Lease: time.Minute}} {
		for left := time.Duration(0); left < 3*time.Second; left += 125 * time.Millisecond {
			t.Run(fmt.Sprintf("lease %v, %v before its end", terms.Lease, left), func(t *testing.T) {
				runLine(t, func(f *fixture) {
					holder := f.newLock()
					require.NoError(f, acquire(f.Context(), holder))
					w := f.waits(terms)
					f.until(2500 * time.Millisecond)
					var asked time.Duration
					f.instead(func(command string, do func() wire.Reply) wire.Reply {
						if command == "acquire" && asked == 0 {
							asked = time.Since(f.start)
							time.Sleep(commandTimeout)
							return network()
						}
						return do()
					})
					f.until(3500 * time.Millisecond)
					require.NotZero(f, asked, "it looks whether it has missed a message")
					term := firstTerm
					if terms.Lease > 0 {
						term = min(term, terms.Lease)
					}
					if at := asked + commandTimeout - term + left; at > time.Since(f.start) {
						f.until(at)
					}
					require.NoError(f, holder.Unlock(f.Context()))
					<-w.done
					require.NoError(f, w.err)
					require.GreaterOrEqual(f, time.Until(w.hold.Deadline()), term/4)
					require.NoError(f, w.hold.Err())
					f.until(w.at + 50*time.Millisecond)
					require.NoError(f, w.hold.Unlock(f.Context()))
					f.free()
				})
			})
		}
	}
}

// TestAnOutageBeforeTheFirstRenewal has Redis fall silent in the first 100 ms of a renewed hold that a release gave. The hold has
// its first term and no more, unless it was extended at once, or is for a fixed lease.
func TestAnOutageBeforeTheFirstRenewal(t *testing.T) {
	for what, c := range map[string]struct {
		terms  Terms
		extend time.Duration
		lasts  bool
	}{
		"renewed": {}, "extended at once": {extend: watchdogTimeout, lasts: true}, "fixed": {terms: Terms{Lease: time.Minute}, lasts: true},
	} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder := f.newLock()
				require.NoError(f, acquire(f.Context(), holder))
				w := f.waits(c.terms)
				f.until(time.Second)
				require.NoError(f, holder.Unlock(f.Context()))
				w.now()
				if c.extend > 0 {
					require.NoError(f, w.hold.Extend(f.Context(), c.extend, nil))
				}
				f.instead(func(string, func() wire.Reply) wire.Reply { return network() })
				f.until(time.Second + firstTerm - 100*time.Millisecond)
				require.NoError(f, w.hold.Err())
				f.until(time.Second + firstTerm + 200*time.Millisecond)
				if !c.lasts {
					require.ErrorIs(f, w.hold.Err(), fault.ErrLost)
				} else {
					require.NoError(f, w.hold.Err())
				}
				f.instead(nil)
				f.until(time.Second + firstTerm + 2*time.Second)
				if err := w.hold.Unlock(f.Context()); c.lasts {
					require.NoError(f, err)
				} else {
					require.ErrorIs(f, err, fault.ErrLost)
				}
				f.free()
			})
		})
	}
}

package client

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// stoppedWaiter puts a waiter at the end of the line whose process is stopped: Redis reaches it, but it does nothing.
func (f *fixture) stoppedWaiter() {
	f.listens(f.base + ":stopped")
	time.Sleep(time.Microsecond) // those before it, and those behind it, come at another time
	defer time.Sleep(time.Microsecond)
	f.do("ZADD", lineKey, strconv.FormatInt(time.Now().UnixMicro(), 10), "stopped:1|3000")
}

// TestAStoppedWaiter has the lock be granted to a process that is stopped. It blocks the lock for one first term, wherever in
// the line it stood, and however long the others have waited.
func TestAStoppedWaiter(t *testing.T) {
	for _, first := range []int{0, 3, 6} {
		for _, ms := range []int{500, 1700, 2900, 3100, 4900, 5500, 7500, 9000} {
			at := time.Duration(ms) * time.Millisecond
			t.Run(fmt.Sprintf("behind %d, %v", first, at), func(t *testing.T) {
				runLine(t, func(f *fixture) {
					holder := f.newLock()
					require.NoError(f, acquire(f.Context(), holder))
					var before []*waiting
					for range first {
						before = append(before, f.waits(Terms{}))
					}
					f.stoppedWaiter()
					next, last := f.waits(Terms{}), f.waits(Terms{})
					f.until(at)
					require.NoError(f, holder.Unlock(f.Context()))
					for _, w := range before {
						w.now()
						require.NoError(f, w.hold.Unlock(f.Context()))
					}
					require.Equal(f, "stopped:1", f.held().holder)
					<-next.done
					require.NoError(f, next.err)
					require.LessOrEqual(f, next.at, at+firstTerm+200*time.Millisecond)
					require.NoError(f, next.hold.Unlock(f.Context()))
					last.now()
					require.NoError(f, last.hold.Unlock(f.Context()))
				})
			})
		}
	}
}

// TestAFixedLeaseIsGrantedInTwoSteps has a waiter want the lock for a fixed time. A release grants it for a first term only, in
// case that its process is stopped. The waiter's caller has the lock once the lease is what it asked for.
func TestAFixedLeaseIsGrantedInTwoSteps(t *testing.T) {
	const lease = time.Minute
	for _, kind := range []*wire.Kind{wire.Plain, wire.Fenced} {
		t.Run(kind.Name(), func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder := f.lock(f.client(), kind)
				require.NoError(f, acquire(f.Context(), holder))
				w := f.waitsFor(f.lock(f.client(), kind), Terms{Lease: lease})
				f.until(time.Second)
				f.took()
				f.slowly("acquire", 50*time.Millisecond, 50*time.Millisecond)
				require.NoError(f, holder.Unlock(f.Context()))
				granted := f.held()
				require.Equal(f, firstTerm, time.Until(granted.expires))
				f.until(1090 * time.Millisecond)
				require.False(f, w.over(), "the reply is on its way")
				f.until(1100 * time.Millisecond)
				w.now()
				require.Equal(f, []string{"release", "acquire"}, f.took())
				require.Equal(f, granted.holder, f.held().holder)
				require.Equal(f, f.start.Add(1050*time.Millisecond+lease), f.held().expires)
				require.WithinRange(f, w.hold.Deadline(), f.start.Add(lease), f.held().expires, "it counts from the question")
				if kind.Tokens {
					require.Equal(f, f.token(), w.hold.Token())
				}
				f.until(50 * time.Second)
				require.NoError(f, w.hold.Unlock(f.Context()))
				f.free()
			})
		})
	}
}

// TestAFractionOfAMillisecond has a release grant a lease that Redis rounds up.
func TestAFractionOfAMillisecond(t *testing.T) {
	runLine(t, func(f *fixture) {
		const lease = time.Second + time.Microsecond
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		w := f.waits(Terms{Lease: lease})
		require.NoError(f, holder.Unlock(f.Context()))
		w.now()
		require.Equal(f, time.Second+time.Millisecond, time.Until(f.held().expires))
		require.LessOrEqual(f, time.Until(w.hold.Deadline()), lease-lease/100-2*time.Millisecond, "it is not longer here")
		require.NoError(f, w.hold.Unlock(f.Context()))
	})
}

// TestAFixedLeaseInTrouble has Redis fall silent after it has granted a lock for a first term. The caller has no lock that ends
// at once. The lock goes on when Redis is back.
func TestAFixedLeaseInTrouble(t *testing.T) {
	for what, silence := range map[string]time.Duration{"for less than a first term": 2 * time.Second, "for longer": 8 * time.Second} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder := f.newLock()
				require.NoError(f, acquire(f.Context(), holder))
				w, other := f.waits(Terms{Lease: time.Minute}), f.waits(Terms{})
				f.until(time.Second)
				f.instead(func(command string, do func() wire.Reply) wire.Reply {
					if command == "release" {
						return do()
					}
					r := network()
					r.Err.Fate = fault.NotSent
					return r
				})
				require.NoError(f, holder.Unlock(f.Context()))
				f.until(time.Second + silence)
				require.False(f, w.over())
				f.instead(nil)
				first, second := w, other
				if silence > firstTerm {
					f.until(time.Second + silence + 2*time.Second)
					if other.over() { // it asked first
						first, second = other, w
					}
				}
				<-first.done
				require.NoError(f, first.err)
				require.NoError(f, first.hold.Err())
				require.False(f, second.over())
				require.NoError(f, first.hold.Unlock(f.Context()))
				<-second.done
				require.NoError(f, second.err)
				require.NoError(f, second.hold.Unlock(f.Context()))
				f.free()
			})
		})
	}
}

// firstTerm is the lease of a grant, at most.
const firstTerm = 3 * time.Second

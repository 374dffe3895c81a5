package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// contexts are those of callers without a bound of their own: one cannot end, and the other one can, but does not.
func contexts(t *testing.T) map[string]context.Context {
	t.Helper()
	return map[string]context.Context{"cannot end": context.Background(), "can end": t.Context()}
}

// TestAGatheredCallEndsInTime has a pipeline hang in a driver that never gives up. The wait in the queue and the pipeline together take the
// command timeout at most, and what is said of the call is true.
func TestAGatheredCallEndsInTime(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	for _, test := range []struct {
		what  string
		moved bool // the call goes to another node, and hangs there
		waits time.Duration
	}{
		{"at once", false, 0},
		{"after the queue", false, 3 * timeout / 4},
		{"moved", true, 0},
		{"moved after the queue", true, 3 * timeout / 4},
	} {
		for _, context := range []string{"cannot end", "can end"} {
			t.Run(test.what+", context "+context, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrowded(t, Config{Crowd: 0, Slots: 1, CommandTimeout: timeout}, "first", "hangs")
					c.spare = 0
					c.pipe = func(at driver.Node, call wire.Call) wire.Reply {
						if test.moved && at != nil {
							return moved()
						}
						return c.reply(call)
					}
					if test.moved {
						c.cluster, c.info.Cluster = true, true
						c.routed.Store(true)
						c.driver = oneNode{c.stub}
					}
					if test.waits > 0 {
						c.calls.Go(func() { c.Ask(t.Context(), Question{Call: acquire("first"), Slot: WaitSlot}, nil) })
					}
					synctest.Wait()
					ctx, late := contexts(t)[context], make(lateReplies, 1)
					var took time.Duration
					left := make(chan wire.Reply, 1)
					c.calls.Go(func() {
						start := time.Now()
						r := c.Ask(ctx, Question{Call: acquire("hangs"), Slot: WaitSlot}, late)
						took = time.Since(start)
						left <- r
					})
					time.Sleep(test.waits)
					c.answer("first")
					r := <-left
					require.Equal(t, timeout, took)
					require.Equal(t, fault.Left, r.Err.Fate)
					require.True(t, r.Err.TimedOut())
					require.Positive(t, c.refreshed(), "the topology may be stale")
					require.Equal(t, 1, c.tasks.Count(), "Close waits for the command")
					require.Empty(t, late)
					c.answer("hangs")
					require.EqualValues(t, len("hangs"), (<-late).N)
					require.Zero(t, c.tasks.Count())
					require.Empty(t, c.lane.sent)
				})
			})
		}
	}
}

// oneNode is a stub of a cluster whose calls all go to one node.
type oneNode struct{ *stub }

func (oneNode) Node(context.Context, string) (driver.Node, *fault.Error) {
	return address("hangs"), nil
}

// TestOverdueCallsOfAQueue has many calls wait, which were asked one after the other, while a batch hangs. Each ends after the command
// timeout, or at the next look, and no look searches the queue.
func TestOverdueCallsOfAQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout, callers = time.Second, 2 * longQueue
		c := newCrowded(t, Config{Crowd: 0, CommandTimeout: timeout}, "a")
		c.spare = 0
		first := c.ask(context.Background(), Question{Call: release("a")})
		replies, took := make(chan wire.Reply, callers), make(chan time.Duration, callers)
		for i := range callers {
			ctx, q := contexts(t)[[]string{"cannot end", "can end"}[i%2]], Question{Call: acquire("b"), Slot: WaitSlot}
			if i%8 == 0 { // some leave by themselves, anywhere in the queue
				q.Within = timeout / 2
			}
			c.calls.Go(func() {
				start := time.Now()
				r := c.Ask(ctx, q, nil)
				if q.Within == 0 {
					took <- time.Since(start)
				}
				replies <- r
			})
			time.Sleep(100 * time.Microsecond)
		}
		for range callers {
			r := <-replies
			require.Equal(t, fault.NotSent, r.Err.Fate)
			require.ErrorContains(t, r.Err, "no free connection")
		}
		close(took)
		for d := range took {
			require.GreaterOrEqual(t, d, timeout)
			require.LessOrEqual(t, d, timeout+patience)
		}
		require.Zero(t, c.lane.looks)
		require.Equal(t, fault.Left, (<-first).Err.Fate)
		c.answer("a")
		require.Equal(t, []string{"a"}, names(c.sent()))
		time.Sleep(2 * timeout)
		require.Zero(t, c.lane.alarm, "nothing is left to look at")
	})
}

// TestAReleaseEndsInTimeAfterClose has the client close, and give up waiting, while releases wait and hang.
func TestAReleaseEndsInTimeAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		c := newCrowded(t, Config{Crowd: 0, Slots: 1, CommandTimeout: timeout}, "a", "b")
		c.spare = 0
		start := time.Now()
		hangs := c.ask(context.Background(), Question{Call: release("a")})
		time.Sleep(timeout / 2)
		urgent := c.ask(context.Background(), Question{Call: release("b")})
		for range batchSize {
			c.ask(context.Background(), Question{Call: release("b")})
		}
		waits := c.ask(context.Background(), Question{Call: release("c")})
		c.tasks.Close()
		over, end := context.WithCancel(context.Background())
		end()
		c.tasks.Wait(over)
		require.Equal(t, fault.Left, (<-hangs).Err.Fate)
		require.Equal(t, timeout, time.Since(start))
		require.Equal(t, fault.Left, (<-urgent).Err.Fate)
		require.Equal(t, fault.NotSent, (<-waits).Err.Fate)
		require.LessOrEqual(t, time.Since(start), 3*timeout/2+patience)
		require.Zero(t, (<-c.ask(context.Background(), Question{Call: release("")})).N, "in place")
		c.answer("a")
		c.answer("b")
	})
}

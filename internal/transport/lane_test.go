package transport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// crowded is a connection to a node that replies when the test says so. Calls of names in hangs get no reply before that.
type crowded struct {
	*Conn
	*stub
	hangs    map[string]chan struct{}
	answered []string
	calls    sync.WaitGroup
}

// newCrowded returns a connection that sends one call by itself, and one batch at a time. All calls of the given names hang.
func newCrowded(t *testing.T, cfg Config, hangs ...string) *crowded {
	t.Helper()
	c := &crowded{hangs: make(map[string]chan struct{}), stub: &stub{info: driver.Info{Bounded: true, Batches: 1, Spare: 1}}}
	for _, name := range hangs {
		c.hangs[name] = make(chan struct{})
	}
	c.stub.run = func(_ context.Context, call wire.Call) wire.Reply { return c.reply(call) }
	c.pipe = func(_ driver.Node, call wire.Call) wire.Reply { return c.reply(call) }
	c.Conn, _ = open(t, cfg, c.stub)
	t.Cleanup(func() {
		for name, reply := range c.hangs {
			if !slices.Contains(c.answered, name) {
				close(reply)
			}
		}
		c.calls.Wait()
	})
	return c
}

func (c *crowded) reply(call wire.Call) wire.Reply {
	if reply := c.hangs[call.Key()]; reply != nil {
		<-reply
	}
	return wire.Reply{N: int64(len(call.Key()))}
}

// answer lets the node reply to the calls of a name, and waits until nothing more happens.
func (c *crowded) answer(name string) {
	close(c.hangs[name])
	c.answered = append(c.answered, name)
	synctest.Wait()
}

// ask sends a question in another goroutine, and returns when nothing more happens. The reply comes from the channel.
func (c *crowded) ask(ctx context.Context, q Question) <-chan wire.Reply {
	reply := make(chan wire.Reply, 1)
	c.calls.Go(func() { reply <- c.Ask(ctx, q, nil) })
	synctest.Wait()
	return reply
}

func TestFewCallsGoOutByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, Config{Crowd: 2, Slots: 5}, "a", "b", "c")
		ctx := context.Background()
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			c.ask(ctx, Question{Call: acquire(name), Slot: WaitSlot})
		}
		require.Len(t, c.sent(), 3)
		require.Equal(t, [][]string{{"c"}}, c.piped(), "the third call does not wait until it has company")
		c.answer("c")
		require.Equal(t, [][]string{{"c"}, {"d", "e", "f"}}, c.piped())
		c.answer("a")
		c.ask(ctx, Question{Call: acquire("g"), Slot: WaitSlot})
		require.Len(t, c.piped(), 2, "there are few again")
		require.Len(t, c.sent(), 7)
	})
}

// TestWhatIsGathered sends each sort of call while a batch is under way.
func TestWhatIsGathered(t *testing.T) {
	t.Parallel()
	stand, inspect, force := acquire("stand"), acquire("inspect"), release("force")
	stand.Script = wire.Plain.Line.Acquire // replies a list or a number
	inspect.Script = wire.Plain.Inspect    // replies a list
	force.Script, force.Args.Holder = wire.Plain.Force, nil
	for _, test := range []struct {
		question Question
		gathered bool
	}{
		{Question{Call: acquire("acquire"), Slot: WaitSlot}, true},
		{Question{Call: release("release")}, true},
		{Question{Call: stand}, true},
		{Question{Call: inspect, Slot: QuerySlot}, false},
		{Question{Call: force}, false},
		{Question{Call: acquire("acked"), Slot: WaitSlot, Acked: true}, false},
	} {
		name := test.question.Call.Key()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowded(t, Config{Crowd: 0, Slots: 5, Acks: &driver.Acks{Replicas: 1}}, "a")
				c.ask(context.Background(), Question{Call: acquire("a")})
				r := c.ask(context.Background(), test.question)
				require.Equal(t, !test.gathered, len(c.sent()) == 2, "it does not wait for the batch")
				c.answer("a")
				require.EqualValues(t, len(name), (<-r).N)
			})
		})
	}
}

func TestNothingIsGathered(t *testing.T) {
	t.Parallel()
	for what, crowd := range map[string]int{"by the option": -1, "for lack of connections": 0} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowded(t, Config{Crowd: crowd}, "a")
			if crowd == 0 {
				c.batches = 0
			}
			for range 3 {
				c.ask(context.Background(), Question{Call: acquire("a")})
			}
			require.Len(t, c.sent(), 3, what)
			require.Empty(t, c.piped(), what)
		})
	}
}

// TestACallerLeavesTheQueue has callers leave before a batch takes their calls: nothing is sent, and nothing is in doubt.
func TestACallerLeavesTheQueue(t *testing.T) {
	t.Parallel()
	const soon = patience / 2
	for what, leave := range map[string]func(*Question) context.CancelFunc{
		"ctx":             nil,
		"Within":          func(q *Question) context.CancelFunc { q.Within = soon; return nil },
		"command timeout": func(q *Question) context.CancelFunc { q.Slot = NoSlot; return nil },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Crowd: 0}
				if what == "command timeout" {
					cfg.CommandTimeout = soon
				}
				c := newCrowded(t, cfg, "a")
				c.ask(t.Context(), Question{Call: acquire("a")})
				ctx, q := context.Background(), Question{Call: acquire("b"), Slot: WaitSlot}
				if leave == nil {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, soon)
					defer cancel()
				} else {
					leave(&q)
				}
				start := time.Now()
				r := <-c.ask(ctx, q)
				require.Equal(t, soon, time.Since(start))
				require.Equal(t, fault.NotSent, r.Err.Fate)
				require.True(t, r.Err.Unavailable())
				require.ErrorContains(t, r.Err, "no free connection")
				require.Equal(t, []string{"a"}, names(c.sent()))
				c.answer("a")
				require.Equal(t, []string{"a"}, names(c.sent()))
			})
		})
	}
}

// TestTheQueueForgetsCallersThatLeft has many callers come and go while a batch hangs.
func TestTheQueueForgetsCallersThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, Config{Crowd: 0}, "a")
		c.ask(t.Context(), Question{Call: acquire("a")})
		stays := c.ask(t.Context(), Question{Call: acquire("stays")})
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			r := c.ask(ctx, Question{Call: acquire("leaves"), Slot: WaitSlot})
			cancel()
			require.ErrorIs(t, (<-r).Err, context.Canceled)
			require.LessOrEqual(t, len(c.lane.queue), 3)
		}
		c.answer("a")
		require.Nil(t, (<-stays).Err)
	})
}

func TestACallerLeavesABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, Config{Crowd: 0}, "batch")
		ctx, cancel := context.WithCancel(context.Background())
		late := make(lateReplies, 1)
		left := make(chan wire.Reply, 1)
		c.calls.Go(func() { left <- c.Ask(ctx, Question{Call: acquire("batch"), Slot: WaitSlot}, late) })
		synctest.Wait()
		cancel()
		r := <-left
		require.Equal(t, fault.Left, r.Err.Fate)
		require.ErrorIs(t, r.Err, context.Canceled)
		require.Equal(t, 1, c.tasks.Count(), "Close waits for the command")
		c.answer("batch")
		require.EqualValues(t, 5, (<-late).N)
		require.Zero(t, c.tasks.Count())
	})
}

// TestNodesHaveLanesOfTheirOwn has one node of a cluster hang.
func TestNodesHaveLanesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, Config{Crowd: 0, Slots: 1}, "a")
		c.cluster = true
		c.info.Cluster = true // the stub has a node for each name
		c.routed.Store(true)
		c.ask(t.Context(), Question{Call: acquire("a")})
		require.Nil(t, (<-c.ask(t.Context(), Question{Call: acquire("b")})).Err)
		require.Equal(t, [][]string{{"a"}, {"b"}}, c.piped())
	})
}

// TestAQueueWhenTheClientStops has a client stop while a batch hangs: acquisitions end.
func TestAQueueWhenTheClientStops(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(*crowded, chan struct{}){
		"Close":    func(c *crowded, _ chan struct{}) { c.tasks.Close() },
		"Shutdown": func(_ *crowded, stop chan struct{}) { close(stop) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowded(t, Config{Crowd: 0, Slots: 1}, "a", "b")
				stopping := make(chan struct{})
				c.ask(t.Context(), Question{Call: acquire("a"), Slot: WaitSlot})
				c.ask(t.Context(), Question{Call: acquire("b"), Slot: WaitSlot})
				time.Sleep(2 * patience) // b has the only slot
				acquired := c.ask(t.Context(), Question{Call: acquire("c"), Slot: WaitSlot, Stop: stopping})
				stop(c, stopping)
				start := time.Now()
				r := <-acquired
				require.ErrorIs(t, r.Err, fault.ErrClosed)
				require.NotErrorIs(t, r.Err, fault.ErrUnavailable)
				require.Equal(t, fault.NotSent, r.Err.Fate)
				require.LessOrEqual(t, time.Since(start), 2*patience)
			})
		})
	}
}

// TestALongQueueIsNotSearchedForNothing has calls wait behind a batch that hangs. While nobody leaves and nothing stops, looking at all of
// them would be of no use.
func TestALongQueueIsNotSearchedForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const waiting = 2 * longQueue
		c := newCrowded(t, Config{Crowd: 0}, "a")
		c.spare = 0
		c.ask(t.Context(), Question{Call: acquire("a"), Slot: WaitSlot})
		stop := make(chan struct{})
		var replies []<-chan wire.Reply
		for range waiting {
			replies = append(replies, c.ask(t.Context(), Question{Call: acquire("b"), Slot: WaitSlot, Stop: stop}))
		}
		time.Sleep(100 * patience)
		synctest.Wait()
		require.Len(t, c.lane.queue, waiting)
		require.Zero(t, c.lane.looks)
		require.Len(t, c.lane.stops, 1)
		c.answer("a")
		for _, reply := range replies {
			require.Nil(t, (<-reply).Err)
		}
		time.Sleep(2 * patience)
		synctest.Wait()
		require.Zero(t, c.lane.looks)
		require.Empty(t, c.lane.stops)
	})
}

// TestGatheredLeaveOrReturn checks that each call of many callers has its reply exactly once, while callers leave at any moment.
func TestGatheredLeaveOrReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, gatheredLeaveOrReturn)
}

func gatheredLeaveOrReturn(t *testing.T) {
	t.Helper()
	d := &stub{info: driver.Info{Bounded: true, Batches: 2, Spare: 3}}
	d.run = func(context.Context, wire.Call) wire.Reply {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
		return wire.Reply{}
	}
	d.pipe = func(driver.Node, wire.Call) wire.Reply { return d.run(t.Context(), wire.Call{}) }
	conn, tasks := open(t, Config{Crowd: 1, Slots: 3}, d)
	const callers, calls = 16, 100
	late := make(lateReplies, callers*calls)
	var left, unsent, returned atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range calls {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(400))*time.Microsecond)
				r := conn.Ask(ctx, Question{Call: acquire(fmt.Sprint(i)), Slot: WaitSlot}, late)
				switch {
				case r.Err == nil:
					returned.Add(1)
				case r.Err.Fate == fault.NotSent:
					unsent.Add(1)
				case r.Err.Fate == fault.Left:
					left.Add(1)
				default:
					t.Error(r.Err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	tasks.Close()
	tasks.Wait(context.Background())
	require.EqualValues(t, callers*calls, left.Load()+unsent.Load()+returned.Load())
	require.Len(t, late, int(left.Load()))
	require.Len(t, d.sent(), int(left.Load()+returned.Load()))
	synctest.Wait() // a batch ends after its calls
	require.NotZero(t, left.Load())
	require.NotZero(t, unsent.Load())
	require.NotZero(t, returned.Load())
	require.Zero(t, conn.lane.alone)
	require.Empty(t, conn.lane.active)
	require.Empty(t, conn.lane.slots)
}

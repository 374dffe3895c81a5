package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestRandomCalls has many goroutines send calls of all needs to one or two nodes, which stall, redirect and break pipelines.
// Callers leave, and in half of the rounds the client is closed. No call runs twice, every reply is the call's own, and the fate
// of a call without a reply is true. At the end nothing is left.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	for round := range 40 {
		synctest.Test(t, func(t *testing.T) {
			r := newRandom(t, round%2 == 0)
			for range 100 {
				r.calls.Go(func() {
					for range 20 {
						r.ask(t)
					}
				})
			}
			if round%4 > 1 {
				time.Sleep(500 * time.Millisecond)
				close(r.stop)
				r.tasks.Close()
			}
			r.calls.Wait()
			time.Sleep(r.CommandTimeout)
			r.checkEmpty(t, r.lane)
			r.lanes.Range(func(_, v any) bool {
				w, _ := v.(*lane)
				r.checkEmpty(t, w)
				return true
			})
			require.Zero(t, r.tasks.Count())
		})
	}
}

// random is a connection to servers that behave at random.
type random struct {
	*Conn
	stub
	stop  chan struct{} // ends waits for a slot
	calls sync.WaitGroup

	mu     sync.Mutex
	number int64
	ran    map[int64]int // how often, by number
}

func newRandom(t *testing.T, cluster bool) *random {
	t.Helper()
	slots := 1 + rand.N(5)
	r := &random{stop: make(chan struct{}), ran: make(map[int64]int)}
	r.info = driver.Info{Bounded: true, Cluster: cluster, Batches: 1 + rand.N(3), Spare: min(rand.N(4), slots), Slots: slots}
	r.Conn, _ = open(t, Config{Crowd: rand.N(7), Slots: slots, CommandTimeout: time.Second}, r)
	t.Logf("%+v, crowd %d", r.info, r.Crowd)
	return r
}

// Node returns a node at random: the topology is never right for long.
func (r *random) Node(context.Context, string) (driver.Node, *fault.Error) {
	if !r.info.Cluster {
		return nil, nil
	}
	return address(strconv.Itoa(rand.N(2))), nil
}

func (r *random) Run(_ context.Context, _ driver.Node, c wire.Call) wire.Reply {
	stall()
	return r.execute(c)
}

func (r *random) Pipe(_ context.Context, at driver.Node, calls []wire.Call, _ *driver.Acks, out []wire.Reply) {
	stall()
	broken := len(calls)
	if rand.N(15) == 0 {
		broken = rand.N(len(calls))
	}
	for i, c := range calls {
		switch {
		case i >= broken:
			if rand.N(2) == 0 {
				r.execute(c)
			}
			out[i] = wire.Reply{N: -1, Err: &fault.Error{Fate: fault.InDoubt, Transient: true, Err: errors.New("broken")}}
		case at != nil && rand.N(5) == 0:
			out[i] = moved()
		default:
			out[i] = r.execute(c)
		}
	}
}

func stall() {
	if rand.N(20) == 0 {
		time.Sleep(rand.N(700 * time.Millisecond))
	} else {
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

// execute runs a call, whose reply is its number.
func (r *random) execute(c wire.Call) wire.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran[c.Args.Number]++
	return wire.Reply{N: c.Args.Number}
}

func (r *random) times(number int64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[number]
}

// ask sends a random call, and checks its reply.
func (r *random) ask(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	r.number++
	number := r.number
	r.mu.Unlock()
	q := Question{Call: acquire(strconv.Itoa(rand.N(5))), Slot: []Slot{NoSlot, WaitSlot, WaitSlot, DutySlot}[rand.N(4)]}
	if q.Slot != WaitSlot {
		q.Call.Script = wire.Plain.Release
	}
	q.Call.Args.Number = number
	if rand.N(3) == 0 {
		q.Within = rand.N(100*time.Millisecond) + 1
	}
	if rand.N(10) == 0 {
		q.Stop = r.stop
	}
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if rand.N(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, rand.N(200*time.Millisecond))
	}
	defer cancel()
	late := make(lateReplies, 2)
	begun := time.Now()
	reply := r.Ask(ctx, q, late)
	// A slot and a reply each take at most the command timeout.
	require.LessOrEqual(t, time.Since(begun), 2*r.CommandTimeout+time.Second)
	if reply.Err == nil {
		require.Equal(t, number, reply.N)
		require.Equal(t, 1, r.times(number))
		return
	}
	r.calls.Go(func() {
		time.Sleep(3 * r.CommandTimeout) // so what was under way is over
		require.LessOrEqual(t, r.times(number), 1)
		switch reply.Err.Fate {
		case fault.NotSent, fault.Rejected:
			require.Zero(t, r.times(number), "%v", reply.Err)
			require.Empty(t, late)
		case fault.Left:
			require.Len(t, late, 1)
		default:
			require.Empty(t, late)
		}
	})
}

func (r *random) checkEmpty(t *testing.T, w *lane) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.slots)
	require.Empty(t, w.queue)
	require.Empty(t, w.active)
	require.Empty(t, w.sent)
	require.Nil(t, w.urgent)
	require.Zero(t, w.alone)
	require.Zero(t, w.stuck)
	require.Zero(t, w.left)
	require.False(t, w.ticks)
}

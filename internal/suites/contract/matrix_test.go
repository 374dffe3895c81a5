package contract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// bound is a way to bound a call.
type bound struct {
	name     string
	waits    bool          // an option of the wait, which only methods that acquire have
	after    time.Duration // when the bound ends the call; zero means never
	deadline bool          // a deadline, rather than a cancellation
}

var bounds = []bound{
	{name: "no bound"},
	{name: "`Wait(300ms)`", waits: true, after: 300 * time.Millisecond},
	{name: "deadline of 2 s", deadline: true, after: 2 * time.Second},
	{name: "canceled after 300 ms", after: 300 * time.Millisecond},
}

// limit ends every call that nothing else ends. It is more than the command timeout, and then some.
const limit = 8 * time.Second

// context returns the context and the options of a call that begins now.
func (b bound) context() (context.Context, context.CancelFunc, []rlock.AcquireOption) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	switch {
	case b.waits:
		return ctx, cancel, []rlock.AcquireOption{rlock.Wait(b.after)}
	case b.deadline:
		ctx, cancel = context.WithTimeout(context.Background(), b.after)
	case b.after > 0:
		timer := time.AfterFunc(b.after, cancel)
		return ctx, func() { timer.Stop(); cancel() }, nil
	default: // without a deadline, but not without an end
		cancel()
		ctx, cancel = context.WithCancel(context.Background())
		timer := time.AfterFunc(limit, cancel)
		return ctx, func() { timer.Stop(); cancel() }, nil
	}
	return ctx, cancel, nil
}

// cell is the outcome of one case.
type cell struct {
	fault  string
	kind   string
	method *method
	bound  *bound
	result string
	err    error
	took   time.Duration
	ran    time.Duration // the same without what the machine stood still
}

// atATime bounds how many faults are measured at a time. More of them would measure the machine.
var atATime = make(chan struct{}, 2)

// measure runs the cases of a fault side by side, each with a redis client of its own.
func (f fault) measure(t *testing.T, columns []bound) []*cell {
	t.Helper()
	atATime <- struct{}{}
	defer func() { <-atATime }()
	w := f.start(t)
	var cells []*cell
	var run []func()
	for _, kind := range kinds {
		for m := range methods {
			for b := range columns {
				c := &cell{fault: f.name, kind: kind, method: &methods[m], bound: &columns[b]}
				if c.applies(w) {
					cells, run = append(cells, c), append(run, c.prepare(t, w, len(cells)))
				}
			}
		}
	}
	w.fail()
	var all sync.WaitGroup
	for i, measured := range run {
		all.Go(func() {
			<-time.After(time.Duration(i) * 4 * time.Millisecond) // spreads the work of two cores
			measured()
		})
	}
	all.Wait()
	return cells
}

// applies reports whether the kind has the method, the method has the bound, and it can be called under the fault.
func (c *cell) applies(w *world) bool {
	switch {
	case c.method.single && testkit.Kinds[c.kind].Groups, c.bound.waits && !c.method.acquires, c.method.held && !w.works:
		return false
	}
	return c.method.fits(handleOf(c.kind, nil, "")) // the handles of no client
}

// prepare connects a client, acquires the lock if the method needs it, and returns the call.
func (c *cell) prepare(t *testing.T, w *world, n int) func() {
	t.Helper()
	rdb := w.open()
	client, err := rlock.New(rdb, rlock.WithLogger(testkit.Discard))
	require.NoError(t, err)
	w.close(client, rdb)
	on := call{handle: handleOf(c.kind, client, nameOf(c.kind, n))}
	before := context.Background()
	switch handle := on.handle.(type) {
	case *rlock.CountDownLatch:
		if w.works {
			require.True(t, testkit.Must(handle.TrySetCount(before, 2)))
		}
	case *rlock.PlainSemaphore:
		switch {
		case c.method.held:
			require.NoError(t, handle.Acquire(before))
		case w.works:
			require.NoError(t, rdb.Ping(before).Err())
		}
	case handles.Any:
		switch {
		case c.method.name == "Unlock":
			require.NoError(t, handle.(*rlock.Lock).Lock(before))
		case c.method.held:
			on.hold, err = handle.Acquire(before)
			require.NoError(t, err)
		case w.works:
			require.NoError(t, rdb.Ping(before).Err())
		}
	}
	return func() {
		ctx, cancel, opts := c.bound.context()
		defer cancel()
		start, ran := time.Now(), w.ran()
		c.result, c.err = c.method.run(ctx, on, opts)
		c.took, c.ran = time.Since(start), w.ran()-ran
	}
}

// class returns what a caller can tell from the result.
func (c *cell) class() string {
	var reply redis.Error
	switch err := c.err; {
	case err == nil && c.result == "":
		return "nil"
	case err == nil:
		return c.result + ", nil"
	case errors.Is(err, rlock.ErrNotAcquired):
		return "`ErrNotAcquired`"
	case errors.Is(err, rlock.ErrUnavailable):
		return "`ErrUnavailable`"
	case errors.Is(err, rlock.ErrLost):
		return "`ErrLost`"
	case errors.Is(err, rlock.ErrNotHeld):
		return "`ErrNotHeld`"
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(strings.TrimPrefix(reply.Error(), "ERR "), " ")
		return "the error of Redis, " + code
	case errors.Is(err, context.Canceled):
		return "`context.Canceled`"
	case errors.Is(err, context.DeadlineExceeded):
		return "`context.DeadlineExceeded`"
	}
	return normalized(c.err.Error())
}

// waits reports whether a call that nothing bounds was still waiting when the measurement ended it.
func (c *cell) waits() bool {
	return c.method.acquires && c.bound.after == 0 && c.took > limit-time.Second/10
}

// The page tells these times apart. Kinds whose times lie between the same two share a row.
var steps = []time.Duration{
	200 * time.Millisecond, 750 * time.Millisecond, 1600 * time.Millisecond, 3 * time.Second, 6500 * time.Millisecond, limit, 12 * time.Second,
}

// step returns the number of the step below which a time is.
func step(d time.Duration) int {
	for i, most := range steps {
		if d < most {
			return i
		}
	}
	return len(steps)
}

// alike returns a text that is the same for outcomes that are alike.
func (c *cell) alike() string {
	switch {
	case c == nil:
		return "–"
	case c.waits():
		return "waits"
	}
	return fmt.Sprint(c.class(), step(c.took))
}

// shown returns what the page says of outcomes that are alike.
func shown(cells []*cell) string {
	if a := cells[0].alike(); a == "–" || a == "waits" {
		return a
	}
	least, most := cells[0].took, cells[0].took
	for _, c := range cells {
		least, most = min(least, c.took), max(most, c.took)
	}
	took := "at once"
	if step(most) > 0 {
		took = rounded(most) + " s"
		if rounded(least) != rounded(most) {
			took = rounded(least) + " to " + took
		}
	}
	return cells[0].class() + ", " + took
}

// rounded returns a number of seconds as the page shows it.
func rounded(d time.Duration) string {
	if d < steps[1] {
		return fmt.Sprintf("%.1f", d.Seconds())
	}
	return fmt.Sprintf("%g", d.Round(500*time.Millisecond).Seconds())
}

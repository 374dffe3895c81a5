package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	watchdogTimeout = 5 * time.Second
	retryAfter      = 500 * time.Millisecond // what follows from it
	commandTimeout  = 3 * time.Second
)

type fakeNode string

func (n fakeNode) Addr() string { return string(n) }

// fixture is a watchdog in virtual time. It is its lock table and its transport, and records what happens.
type fixture struct {
	*testing.T

	watchdog *Watchdog
	tasks    *task.Group
	start    clock.Instant

	mu     sync.Mutex
	events []string
	works  []Work // for the next looks
	bySlot bool
	hangs  map[driver.Node]time.Duration // how long the reply of a node takes
}

// run runs a test in virtual time, and stops the watchdog afterwards.
func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, tasks: task.New(), start: clock.Now(), hangs: make(map[driver.Node]time.Duration)}
		f.watchdog = Of(Config{CommandTimeout: commandTimeout}, f, f, f.tasks)
		defer func() {
			if !f.tasks.IsClosed() {
				f.tasks.Close()
			}
			f.tasks.Wait(t.Context())
			f.watchdog.Stop(t.Context())
			f.tasks.Stop(t.Context())
		}()
		test(f)
	})
}

func (f *fixture) record(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, clock.Now().Sub(f.start).String()+" "+fmt.Sprintf(format, args...))
}

// recorded returns the events since it was last called.
func (f *fixture) recorded() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	events := f.events
	f.events = nil
	return events
}

// alarmAt has something be due at a time since the start.
func (f *fixture) alarmAt(d time.Duration, w Work) {
	f.mu.Lock()
	f.works = append(f.works, w)
	f.mu.Unlock()
	f.watchdog.Alarm(f.start.Add(d))
}

// hang has the replies of a node take so long from now on.
func (f *fixture) hang(at driver.Node, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs[at] = d
}

// until lets time pass until a time since the start.
func (f *fixture) until(d time.Duration) {
	time.Sleep(f.start.Add(d).Sub(clock.Now()))
	synctest.Wait()
}

// due is the table's.
func (f *fixture) Due(clock.Instant, bool) Work {
	f.mu.Lock()
	defer f.mu.Unlock()
	var w Work
	if len(f.works) > 0 {
		w, f.works = f.works[0], f.works[1:]
	}
	if w.Deliver == nil {
		w.Deliver = func() {}
	}
	return w
}

// Pipe is the transport's. A node that takes longer than the command timeout does not reply.
func (f *fixture) Pipe(ctx context.Context, at driver.Node, calls []wire.Call, out []wire.Reply) {
	locks, names := 0, []string{}
	for _, c := range calls {
		locks += c.Numbers()
		names = append(names, c.Key())
	}
	where := "the server"
	if at != nil {
		where = at.Addr()
	}
	f.record("%d locks to %s %v", locks, where, names)
	f.mu.Lock()
	reply := time.NewTimer(f.hangs[at])
	f.mu.Unlock()
	defer reply.Stop()
	var err *fault.Error
	select {
	case <-reply.C:
	case <-ctx.Done():
		err = &fault.Error{Fate: fault.InDoubt, Err: fault.ErrNoAnswer}
	}
	for i := range out {
		out[i] = wire.Reply{N: int64(i), Err: err}
	}
}

// Node is the transport's. A lock named nowhere has no known node.
func (f *fixture) Node(_ context.Context, key string) (driver.Node, *fault.Error) {
	if key == "nowhere" {
		return nil, &fault.Error{Err: errors.New("no such slot")}
	}
	return fakeNode(key[:1]), nil
}

func (f *fixture) BySlot() bool { return f.bySlot }
func (f *fixture) Silent()      { f.record("silent") }

// fakeBatch is locks that are renewed.
type fakeBatch struct {
	*fixture

	name  string
	locks int
	lease time.Duration
}

// batches returns batches of so many locks each.
func (f *fixture) batches(locks int, names ...string) (all []Batch) {
	for _, name := range names {
		all = append(all, &fakeBatch{f, name, locks, watchdogTimeout})
	}
	return all
}

// leased returns one batch of so many locks with a lease.
func (f *fixture) leased(locks int, lease time.Duration, name string) []Batch {
	return []Batch{&fakeBatch{f, name, locks, lease}}
}

func (b *fakeBatch) Name() string            { return b.name }
func (b *fakeBatch) Shortest() time.Duration { return b.lease }
func (b *fakeBatch) Again() Batch            { return b }

// wanted returns no call if no lock is left.
func (b *fakeBatch) Wanted(clock.Instant) (Batch, wire.Call) {
	if b.locks == 0 {
		return b, wire.Call{}
	}
	return b, wire.Call{Keys: []any{b.name}, Argv: slices.Repeat([]any{""}, 1+b.locks)}
}

func (b *fakeBatch) Renewed(sent clock.Instant, r wire.Reply, _ clock.Instant) {
	if r.Err != nil {
		b.record("%s failed: %v", b.name, r.Err)
		return
	}
	b.record("%s renewed as of %v", b.name, sent.Sub(b.start))
}

package transport

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tooLong is how long a test waits for an event before it fails.
const tooLong = 20 * time.Second

// stub is a driver whose replies the test decides.
type stub struct {
	info    driver.Info
	nodeErr *fault.Error
	locates func() // may be nil; called before the node of a key is found
	run     func(ctx context.Context, c wire.Call) wire.Reply
	pipe    func(at driver.Node, c wire.Call) wire.Reply
	acks    func(a *driver.Acks) // may be nil: the replicas say nothing
	said    func() string        // the reply to INFO replication

	mu        sync.Mutex
	calls     []wire.Call
	pipelines [][]string // the names of each pipeline's calls
	refreshes int
}

type address string

func (a address) Addr() string { return string(a) }

func (s *stub) Info() driver.Info { return s.info }

func (s *stub) Node(_ context.Context, key string) (driver.Node, *fault.Error) {
	if s.locates != nil {
		s.locates()
	}
	if s.nodeErr != nil || !s.info.Cluster {
		return nil, s.nodeErr
	}
	return address(key), nil
}

func (s *stub) Run(ctx context.Context, _ driver.Node, c wire.Call) wire.Reply {
	s.note(c)
	return s.run(ctx, c)
}

func (s *stub) note(c wire.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// sent returns the calls so far.
func (s *stub) sent() []wire.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]wire.Call(nil), s.calls...)
}

func (s *stub) Pipe(_ context.Context, at driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	s.mu.Lock()
	s.pipelines = append(s.pipelines, names(calls))
	s.mu.Unlock()
	for i, c := range calls {
		s.note(c)
		out[i] = s.pipe(at, c)
	}
	if s.acks != nil {
		s.acks(acks)
	}
}

// names returns the names of the locks that calls are for.
func names(calls []wire.Call) (all []string) {
	for _, c := range calls {
		all = append(all, c.Key())
	}
	return all
}

// piped returns the names of the calls of each pipeline so far.
func (s *stub) piped() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string(nil), s.pipelines...)
}

func (s *stub) Raw(context.Context, driver.Node, ...any) (any, *fault.Error) { return s.said(), nil }

func (*stub) Subscribe(context.Context, driver.Node, bool) driver.Subscription { return nil }

func (s *stub) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshes++
}

func (*stub) Close(context.Context) {}

func (s *stub) refreshed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes
}

// lateReplies collects late replies.
type lateReplies chan wire.Reply

func (l lateReplies) Late(_ uint64, r wire.Reply, _ clock.Instant) { l <- r }

// next returns the late reply that comes next.
func (l lateReplies) next(tb testing.TB) wire.Reply {
	tb.Helper()
	select {
	case r := <-l:
		return r
	case <-time.After(tooLong):
		require.Fail(tb, "no late reply")
		return wire.Reply{}
	}
}

// open returns a connection whose workers end with the test.
func open(tb testing.TB, cfg Config, d driver.Driver) (*Conn, *task.Group) {
	tb.Helper()
	if cfg.CommandTimeout == 0 {
		cfg.CommandTimeout = tooLong
	}
	tasks := task.New()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tooLong)
		defer cancel()
		if !tasks.IsClosed() {
			tasks.Close()
		}
		tasks.Wait(ctx)
		tasks.Stop(ctx)
		require.Zero(tb, tasks.Count(), "everything that began has ended")
	})
	return New(cfg, d, tasks), tasks
}

// acquire is a call that acquires a lock of this name.
func acquire(name string) wire.Call {
	return wire.Call{Script: wire.Plain.Acquire, Keys: []any{name, name + ":tombstones"}, Args: wire.Args{
		Holder: "holder", Millis: 30_000, Number: 1000, Channel: "channel",
	}}
}

func release(name string) wire.Call {
	c := acquire(name)
	c.Script = wire.Plain.Release
	return c
}

// granted replies 0, without waiting.
func granted(context.Context, wire.Call) wire.Reply { return wire.Reply{} }

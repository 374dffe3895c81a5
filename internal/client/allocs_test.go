package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

// granting is a driver that grants and frees everything at once, and allocates nothing.
type granting struct {
	driver.Driver // the methods that an uncontended lock never needs

	argv []any // reused, because the client library needs a list of its own
}

func (*granting) Info() driver.Info { return driver.Info{Bounded: true, Slots: 9} }

func (*granting) Close(context.Context) {}

func (d *granting) Run(_ context.Context, _ driver.Node, c wire.Call) wire.Reply {
	d.argv = c.AppendArgv(append(d.argv[:0], c.Keys...))
	if c.Script == wire.Plain.Line.Release {
		return wire.Reply{N: 1}
	}
	return wire.Reply{}
}

// pair is one way to acquire and unlock an uncontended lock.
type pair struct {
	name   string
	allocs float64 // the most of our own allocations that it may make
	canEnd bool
	run    func(ctx context.Context, l *Lock) error
}

// pairs are what the root's verbs do.
var pairs = []pair{
	{"plain context", 7, false, lockAndUnlock},
	{"context that can end", 9, true, lockAndUnlock},
	{"hold", 13, true, holdAndUnlock},
	{"single attempt", 8, false, tryLockAndUnlock},
}

func lockAndUnlock(ctx context.Context, l *Lock) error {
	if _, err := l.Take(ctx, Terms{Op: "lock"}); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func tryLockAndUnlock(ctx context.Context, l *Lock) error {
	if _, err := l.Take(ctx, Terms{Op: "try lock", Limited: true}); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func holdAndUnlock(ctx context.Context, l *Lock) error {
	held, err := l.Take(ctx, Terms{Op: "acquire", ByHold: true})
	if err != nil {
		return err
	}
	hold := new(Hold)
	hold.Init(ctx, held)
	return hold.Unlock(ctx)
}

// forEachPair runs a test of each pair, with a client of its own.
func forEachPair(t *testing.T, test func(t *testing.T, p pair, c *Client, once func())) {
	t.Helper()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			c := New(testConfig(), new(granting))
			defer c.Close()
			var l Lock
			tabled(&l, c, wire.Plain, "name", "name")
			ctx := context.Background()
			if p.canEnd {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
			}
			test(t, p, c, func() { require.NoError(t, p.run(ctx, &l)) })
		})
	}
}

// TestAllocations guards the hot path: an uncontended pair allocates no more than this, besides the client library's own.
func TestAllocations(t *testing.T) {
	forEachPair(t, func(t *testing.T, p pair, _ *Client, once func()) {
		t.Helper()
		for range 300 { // makes the names, starts a worker, and leaves the numbers that Go boxes for nothing behind
			once()
		}
		got := testing.AllocsPerRun(200, once)
		t.Logf("%v allocations", got)
		require.LessOrEqual(t, got, p.allocs)
	})
}

// TestSections checks that an uncontended pair takes the table's mutex four times.
func TestSections(t *testing.T) {
	forEachPair(t, func(t *testing.T, _ pair, c *Client, once func()) {
		t.Helper()
		before := c.Table().Stats().Sections
		once()
		require.LessOrEqual(t, c.Table().Stats().Sections-before, uint64(4))
	})
}

package watchdog

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// client is a lock table with its watchdog, on a server that renews every lock, except the ones that are gone.
type client struct {
	*testing.T

	table    *table.Table
	watchdog *Watchdog
	tasks    *task.Group
	renewals int
	gone     bool
	released []wire.Call
	lines    []table.Line
}

func (c *client) Alarm(at clock.Instant)                                   { c.watchdog.Alarm(at) }
func (c *client) Unlisten(string, chan struct{})                           {}
func (c *client) Log(l table.Line)                                         { c.lines = append(c.lines, l) }
func (c *client) Heard(string) (uint64, bool)                              { return 0, false }
func (c *client) BySlot() bool                                             { return false }
func (c *client) Silent()                                                  {}
func (c *client) Node(context.Context, string) (driver.Node, *fault.Error) { return nil, nil }

func (c *client) Pipe(_ context.Context, _ driver.Node, calls []wire.Call, out []wire.Reply) {
	for i := range calls {
		c.renewals++
		renewed := int64(1)
		if c.gone {
			renewed = 0
		}
		out[i].List = slices.Repeat([]int64{renewed}, calls[i].Numbers())
	}
}

// release carries out a background release.
func (c *client) release(x *table.Exit) {
	c.tasks.Run(task.Func(func() {
		var n table.Notices
		step := c.table.ResumeRelease(x, clock.Now(), &n)
		for step.Do == table.Ask {
			n.Deliver(c)
			c.released = append(c.released, step.Call)
			step = c.table.SettleRelease(x, wire.Reply{N: 1}, clock.Now(), &n)
		}
		n.Deliver(c)
	}))
}

// lock acquires a lock.
func (c *client) lock(name string, lease time.Duration, renewed bool) *table.Acquisition {
	c.Helper()
	h := &table.Handle{Key: c.table.Key(name, wire.PlainFamily), Kind: wire.Plain, Name: name}
	a := &table.Attempt{Handle: h, Lease: lease, Renewed: renewed, Single: true}
	var n table.Notices
	step := c.table.Admit(a, clock.Now(), &n)
	require.Equal(c, table.Ask, step.Do)
	step = c.table.Settle(a, wire.Reply{}, clock.Now(), &n)
	n.Deliver(c)
	require.Equal(c, table.Done, step.Do)
	require.NoError(c, step.Err)
	return step.Got
}

func runTable(t *testing.T, test func(c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &client{T: t, tasks: task.New()}
		c.table = table.New(table.Config{
			ClientID: "client", WatchdogTimeout: watchdogTimeout, CommandTimeout: commandTimeout, BatchSize: 100,
		}, c.tasks, c, c)
		c.watchdog = New(Config{WatchdogTimeout: watchdogTimeout, CommandTimeout: commandTimeout}, c.table, c, c, c.release, c.tasks)
		defer func() {
			c.tasks.Close()
			c.tasks.Wait(t.Context())
			c.watchdog.Stop(t.Context())
			c.tasks.Stop(t.Context())
		}()
		test(c)
	})
}

func TestAHoldIsRenewed(t *testing.T) {
	t.Parallel()
	runTable(t, func(c *client) {
		renewed, leased := c.lock("renewed", watchdogTimeout, true), c.lock("leased", watchdogTimeout, false)
		time.Sleep(10 * watchdogTimeout)
		synctest.Wait()
		require.NoError(c, renewed.Err(clock.Now()))
		require.InDelta(c, 30, c.renewals, 1, "three times a lease")
		require.ErrorIs(c, leased.Err(clock.Now()), fault.ErrLost)
		require.Len(c, c.released, 1, "a lease that ended here is released in Redis")
		require.Empty(c, c.lines)
		c.gone = true
		over := renewed.Done()
		time.Sleep(watchdogTimeout)
		synctest.Wait()
		<-over
		require.ErrorIs(c, renewed.Err(clock.Now()), fault.ErrLost)
		require.Len(c, c.released, 1)
		require.Zero(c, c.table.Stats().Due)
		require.Zero(c, c.tasks.Count())
	})
}

package watchdog

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
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
	lines    []notice.Entry

	mu      sync.Mutex
	byLease map[int64]int // renewals of one lock, by the lease in ms; guarded by mu
	pause   time.Duration // for a pipeline of several locks
}

func (c *client) Alarm(at clock.Instant)                                   { c.watchdog.Alarm(at) }
func (c *client) Unlisten(string, chan struct{})                           {}
func (c *client) Log(l notice.Entry)                                       { c.lines = append(c.lines, l) }
func (c *client) Received(string) (uint64, bool)                           { return 0, false }
func (c *client) Epoch(string) uint64                                      { return 0 }
func (c *client) Refused(string) *fault.Error                              { return nil }
func (c *client) Counts() bool                                             { return false }
func (c *client) Unheard(string, uint64)                                   {}
func (c *client) Watch(string, string)                                     {}
func (c *client) Unwatch(string, string)                                   {}
func (c *client) Pump(string, time.Duration)                               {}
func (c *client) BySlot() bool                                             { return false }
func (c *client) Silent()                                                  {}
func (c *client) Node(context.Context, string) (driver.Node, *fault.Error) { return nil, nil }

func (c *client) Pipe(_ context.Context, _ driver.Node, calls []wire.Call, out []wire.Reply) {
	if len(calls) > 1 || calls[0].Numbers() > 1 {
		time.Sleep(c.pause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range calls {
		c.renewals++
		lease, _ := calls[i].Argv[0].(int64)
		c.byLease[lease] += calls[i].Numbers()
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
		var n notice.List
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
	return c.lockAs(nil, name, lease, renewed)
}

// lockAs acquires a lock for an owner, or re-enters it.
func (c *client) lockAs(o *owner.Owner, name string, lease time.Duration, renewed bool) *table.Acquisition {
	c.Helper()
	h := &table.Handle{Key: c.table.Key(name, wire.PlainFamily), Kind: wire.Plain, Name: name}
	a := &table.Attempt{Handle: h, Who: owner.Who{Owner: o}, Lease: lease, Renewed: renewed, Single: true}
	var n notice.List
	step := c.table.Admit(a, clock.Now(), &n)
	require.Equal(c, table.Ask, step.Do)
	reply := wire.Reply{}
	if step.Call.Script == wire.Plain.Count {
		reply.N = 1
	}
	step = c.table.Settle(a, reply, clock.Now(), &n)
	n.Deliver(c)
	require.Equal(c, table.Done, step.Do)
	require.NoError(c, step.Err)
	return step.Got
}

func runTable(t *testing.T, test func(c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &client{T: t, tasks: task.New(), byLease: make(map[int64]int)}
		c.table = table.New(config.Config{
			ClientID: "client", WatchdogTimeout: watchdogTimeout, CommandTimeout: commandTimeout, BatchSize: 100,
		}, c.tasks, c, c)
		c.watchdog = New(Config{CommandTimeout: commandTimeout}, c.table, c, c, c.release, c.tasks)
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

func TestEachLeaseIsRenewedInItsOwnTime(t *testing.T) {
	t.Parallel()
	runTable(t, func(c *client) {
		short, long := c.lock("short", 900*time.Millisecond, true), c.lock("long", time.Minute, true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.NoError(c, short.Err(clock.Now()))
		require.NoError(c, long.Err(clock.Now()))
		require.InDelta(c, 2020, c.byLease[900], 20, "three times a lease, or a little more often to join a round")
		require.InDelta(c, 30, c.byLease[60000], 6, "three times a lease, or a little more often to join a round")
		require.Len(c, c.byLease, 2)
	})
}

// unlock ends an acquisition of a lock that has others.
func (c *client) unlock(a *table.Acquisition) {
	c.Helper()
	var n notice.List
	var x table.Exit
	step := c.table.Release(&x, a, clock.Now(), &n)
	require.Equal(c, table.Ask, step.Do)
	step = c.table.SettleRelease(&x, wire.Reply{N: 1}, clock.Now(), &n)
	n.Deliver(c)
	require.Equal(c, table.Step{Do: table.Done}, step)
}

func TestManyLongLeasesDoNotDelayAShortOne(t *testing.T) {
	t.Parallel()
	runTable(t, func(c *client) {
		for i := range 5000 {
			c.lock(strconv.Itoa(i), 30*time.Second, true)
		}
		c.pause = 900 * time.Millisecond // for each pipeline of many locks
		short := c.lock("short", 900*time.Millisecond, true)
		for range 60 {
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			require.NoError(c, short.Err(clock.Now()))
			require.Greater(c, short.Deadline().Sub(clock.Now()), 500*time.Millisecond)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		require.GreaterOrEqual(c, c.byLease[30000], 5000, "the long leases were renewed meanwhile")
	})
}

func TestShortReentriesDoNotPutOffRenewals(t *testing.T) {
	t.Parallel()
	runTable(t, func(c *client) {
		o := new(owner.Owner)
		a := c.lockAs(o, "name", watchdogTimeout, true)
		for range 20 {
			time.Sleep(watchdogTimeout / 4)
			synctest.Wait()
			c.unlock(c.lockAs(o, "name", 10*time.Millisecond, false))
		}
		require.NoError(c, a.Err(clock.Now()), "each re-entry is a confirmation, but lengthens nothing")
		require.Positive(c, c.renewals)
	})
}

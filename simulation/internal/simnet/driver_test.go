package simnet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

const timeout = 5 * time.Second

// open returns a driver in a network with these faults.
func open(f Faults) (*Server, *Link, driver.Driver) {
	s := NewServer("redis", 1, NewTrace(nil), f)
	l := s.NewLink("a")
	d, err := l.Open(driver.Config{CommandTimeout: timeout})
	if err != nil {
		panic(err)
	}
	return s, l, d
}

// TestConformance runs the tests that every driver passes, as far as they need no real server. What they do with faults is tested below.
func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.RunAlone(t, func(*testing.T) (driver.Driver, func(...any) error) {
		s, _, d := open(Faults{})
		return d, func(args ...any) error {
			all := make([]string, len(args))
			for i, a := range args {
				all[i] = fmt.Sprint(a)
			}
			if err, failed := s.Do(all...).(simredis.Err); failed {
				return err
			}
			return nil
		}
	})
}

// TestFaultsOfCommands has each fault happen to a command: what its caller hears and when, and how often it was executed in the end.
func TestFaultsOfCommands(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for what, c := range map[string]struct {
		faults      Faults
		least, most time.Duration // until the caller hears of it
		executed    []int         // how often, one of these
	}{
		"nothing":     {Faults{}, 500 * time.Microsecond, 4 * ms, []int{1}},
		"slow":        {Faults{Slow: 1, SlowMax: time.Second}, ms, 2 * time.Second, []int{1}},
		"lost send":   {Faults{LostSend: 1}, 500 * time.Microsecond, 2 * ms, []int{0}},
		"lost reply":  {Faults{LostReply: 1}, 500 * time.Microsecond, 4 * ms, []int{1}},
		"silent":      {Faults{Silent: 1}, timeout, timeout + ms, []int{0, 1}},
		"late":        {Faults{Late: 1, LateMax: time.Minute}, 500 * time.Microsecond, timeout + ms, []int{1}},
		"repeated":    {Faults{Repeated: 1, LateMax: time.Minute}, 500 * time.Microsecond, 4 * ms, []int{2}},
		"in doubt":    {Faults{Repeated: 0.5, Late: 0.5, LateMax: time.Minute}, 500 * time.Microsecond, timeout + ms, []int{1, 2}},
		"longer ways": {Faults{Latency: 100 * ms}, 100 * ms, 300 * ms, []int{1}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c.faults.Latency = max(c.faults.Latency, ms)
				s, _, d := open(Faults{Latency: c.faults.Latency})
				require.Nil(t, d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1")).Err, "the server knows the script now")
				s.Set(c.faults)
				before, began := s.Commands(), time.Now()
				r := d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1"))
				took := time.Since(began)
				require.GreaterOrEqual(t, took, c.least)
				require.LessOrEqual(t, took, c.most)
				if fails := c.faults.LostSend + c.faults.LostReply + c.faults.Silent + c.faults.Late + c.faults.Repeated; fails > 0 {
					require.Equal(t, fault.InDoubt, r.Err.Fate)
					require.True(t, r.Err.Transient)
					require.True(t, r.Err.Stale)
				} else {
					require.Nil(t, r.Err)
					require.Equal(t, took, r.Took)
				}
				time.Sleep(2 * time.Minute)
				require.Contains(t, c.executed, s.Commands()-before)
			})
		})
	}
}

// TestFaultsOfLinks has the whole link fail, or the server.
func TestFaultsOfLinks(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, d driver.Driver, name string) (wire.Reply, time.Duration) {
		t.Helper()
		began := time.Now()
		r := d.Run(t.Context(), nil, drivertest.Acquire(wire.Plain, name, "a:1"))
		return r, time.Since(began)
	}
	synctest.Test(t, func(t *testing.T) {
		s, l, d := open(Faults{Latency: time.Millisecond})
		r, _ := run(t, d, "x")
		require.Nil(t, r.Err)
		for what, stop := range map[string]func(time.Duration){"cut": l.Cut, "hang": s.Hang} {
			stop(2 * time.Second)
			r, took := run(t, d, "x")
			require.Nil(t, r.Err, what)
			require.InDelta(t, 2*time.Second, took, float64(10*time.Millisecond), what)
			before := s.Commands()
			stop(time.Minute)
			r, took = run(t, d, "x")
			require.Equal(t, fault.InDoubt, r.Err.Fate, what)
			require.InDelta(t, timeout, took, float64(10*time.Millisecond), what)
			require.Equal(t, before, s.Commands(), what)
			time.Sleep(time.Minute)
			require.Equal(t, before+1, s.Commands(), "%s: it arrives later", what)
		}
		data := s.Snapshot()
		s.Stop()
		r, _ = run(t, d, "x")
		require.Equal(t, fault.NotSent, r.Err.Fate)
		s.Start(data)
		r, _ = run(t, d, "y")
		require.Nil(t, r.Err, "the script is sent again")
		l.Kill()
		r, took := run(t, d, "z")
		require.Equal(t, fault.InDoubt, r.Err.Fate)
		require.InDelta(t, timeout, took, float64(10*time.Millisecond))
	})
}

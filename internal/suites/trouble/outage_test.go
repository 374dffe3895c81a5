package trouble

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// disaster is what happens to a server, or to the way to it.
type disaster struct {
	opt     redis.Options // of the client of the locks
	strikes func(f *testkit.Faulty)
	stays   string // the error of Redis that waiting does not help; empty means an outage
}

var disasters = map[string]disaster{
	"a server that hangs": {strikes: func(f *testkit.Faulty) { f.Server.Pause() }},
	"a server that died":  {strikes: func(f *testkit.Faulty) { f.Server.Kill() }},
	"a black hole":        {strikes: func(f *testkit.Faulty) { f.Proxy.Freeze() }},
	"a replica": {strikes: func(f *testkit.Faulty) {
		require.NoError(f, f.Direct.Do(f.Context(), "replicaof", "127.0.0.1", "1").Err())
	}},
	"a server that is out of memory": {strikes: func(f *testkit.Faulty) {
		require.NoError(f, f.Direct.ConfigSet(f.Context(), "maxmemory", "1").Err())
	}, stays: "OOM"},
	"a user without rights": {strikes: func(f *testkit.Faulty) {
		require.NoError(f, f.Direct.Do(f.Context(), "acl", "setuser", "default", "-evalsha", "-eval").Err())
	}, stays: "NOPERM"},
}

// patience is how long a call may take.
type patience struct {
	opts             []rlock.AcquireOption
	deadline, cancel time.Duration
	most             time.Duration // if Redis is silent; less if it is known to be out of reach
	tryOnly          bool
}

// TestOutagesAreNotContention calls every verb of every kind in each disaster. All calls return in time, with the class of
// what happened.
func TestOutagesAreNotContention(t *testing.T) {
	t.Parallel()
	const timeout, floor = 5 * time.Second, time.Second
	patiences := map[string]patience{
		"no wait":           {most: floor, tryOnly: true},
		"a wait of 300 ms":  {opts: []rlock.AcquireOption{rlock.Wait(300 * time.Millisecond)}, most: floor},
		"a wait of 2 s":     {opts: []rlock.AcquireOption{rlock.Wait(2 * time.Second)}, most: 2 * time.Second},
		"a deadline of 2 s": {deadline: 2 * time.Second, most: 2 * time.Second},
		"a cancellation":    {cancel: 1500 * time.Millisecond, most: 1500 * time.Millisecond},
	}
	for what, d := range disasters {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			opt := d.opt
			opt.PoolSize = 200
			f := testkit.NewFaulty(t, &opt, rlock.WithCommandTimeout(timeout))
			d.strikes(f)
			var calls sync.WaitGroup
			for kind, k := range testkit.Kinds {
				if k.Groups {
					continue
				}
				for verb, call := range testkit.Verbs {
					for how, p := range patiences {
						if p.tryOnly && verb != "TryLock" && verb != "TryAcquire" {
							continue
						}
						l := k.Make(f.Client, testkit.NewName())
						check := func() { d.check(t, kind+", "+verb+", "+how, l, call, p) }
						if d.stays != "" {
							check() // returns at once; many calls side by side are slow on a busy machine
						} else {
							calls.Go(check)
						}
					}
				}
			}
			calls.Wait()
			if what == "a server that hangs" {
				f.Server.Resume()
			}
			if what == "a black hole" {
				f.Proxy.Thaw()
			}
		})
	}
}

// check makes a call, which must fail.
func (d *disaster) check(t *testing.T, what string, l testkit.Locker, call testkit.Verb, p patience) {
	t.Helper()
	ctx := context.Background()
	if p.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.deadline)
		defer cancel()
	}
	if p.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	passed := redistest.Stopwatch(t)
	err := call(ctx, l, p.opts...)
	took := passed()
	outage := d.stays == ""
	if err == nil || errors.Is(err, rlock.ErrUnavailable) != outage || errors.Is(err, rlock.ErrNotAcquired) {
		t.Errorf("%s: %v", what, err)
	}
	if !outage {
		require.ErrorContains(t, err, d.stays, what)
	}
	if took > p.most+1500*time.Millisecond { // what a busy machine adds
		t.Errorf("%s took %v", what, took)
	}
}

// TestNothingLeavesTheProcess has no server at the address, or all connections of the user's client busy. Nothing is sent, and
// that is an outage too.
func TestNothingLeavesTheProcess(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	const pool = 3
	for what, rdb := range map[string]*redis.Client{
		"refused connections": redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1"}),
		"no free connection":  redistest.Open(t, &redis.Options{Addr: proxy.Addr, PoolSize: pool, ReadTimeout: testkit.ALongTime}),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if what == "no free connection" {
				connect.NeedsGoRedis(t)
				busy := proxy.HoldReply(pool, redistest.Named("get"))
				t.Cleanup(busy.Release)
				for range pool {
					go rdb.Get(context.Background(), "anything")
				}
				for range pool {
					testkit.Within(t, "a connection is busy", busy.Met())
				}
			}
			client := testkit.NewClient(t, rdb, rlock.WithLogger(testkit.Discard))
			d := disaster{}
			var calls sync.WaitGroup
			for kind, k := range testkit.Kinds {
				if k.Groups {
					continue
				}
				for how, p := range map[string]patience{
					"no wait":          {most: time.Second},
					"a wait of 300 ms": {opts: []rlock.AcquireOption{rlock.Wait(300 * time.Millisecond)}, most: time.Second},
					"a deadline":       {deadline: 2 * time.Second, most: 2 * time.Second},
				} {
					l := k.Make(client, testkit.NewName())
					calls.Go(func() { d.check(t, kind+", "+how, l, testkit.Verbs["TryLock"], p) })
				}
			}
			calls.Wait()
		})
	}
}

package torture

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// dismiss has all sites end their turns and close. Nothing troubles them any more. If one hangs, every process prints its goroutines and the
// test fails.
func (a *Arena) dismiss(done <-chan struct{}) {
	a.tb.Helper()
	ends := []<-chan struct{}{done}
	for _, c := range a.children {
		c.dismiss()
		ends = append(ends, c.ended)
	}
	for _, ended := range ends {
		for going := true; going; {
			select {
			case <-ended:
				going = false
			case <-time.After(time.Second):
				if stuck := a.collector.history().stuck(now()); len(stuck) > 0 || a.collector.silent() > 3*sleeps {
					a.hangs(stuck)
				}
			}
		}
	}
	a.children = nil
}

// hangs fails the test.
func (a *Arena) hangs(stuck []*Turn) {
	a.tb.Helper()
	for _, c := range a.children {
		c.signal(syscall.SIGQUIT)
	}
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
	h := a.collector.history()
	broken := []string{"a process does not end"}
	for _, t := range stuck {
		broken = append(broken, fmt.Sprintf("lost wake-up, or a call that hangs, %v after all trouble: %v", now().Sub(h.Calm), t))
	}
	a.tb.Logf("nemeses:\n%s", h.Timeline())
	fail(a.tb, a.scene, append(broken, h.Found...))
	a.tb.FailNow()
}

// fail fails the test because of broken promises, with the marks that .ci/run looks for.
func fail(tb testing.TB, scene Scene, broken []string) {
	tb.Helper()
	tb.Errorf("%d promises broken; the first ones:\nfailed: %s\nrepeat with: make torture SCENE=%s SEED=%d", len(broken),
		strings.ReplaceAll(strings.Join(broken[:min(len(broken), 20)], "\n"), "\n", "\nfailed: "), scene.Name, scene.Seed/100)
}

// probe takes every lock once more, as somebody new.
func (a *Arena) probe() {
	a.tb.Helper()
	site, err := a.site(formPlain, 0).start(func(message) {})
	require.NoError(a.tb, err)
	defer func() { _ = site.close() }()
	for _, s := range mix {
		if s.kind == kindMulti {
			continue // others have its members
		}
		for _, name := range s.names {
			if !within(sleeps, func() bool { err = site.take(s.kind, name); return err == nil }) {
				a.collector.foundf("left: at the end, nobody can acquire the %s %s: %v", s.kind, name, err)
			}
		}
	}
}

// take acquires a lock, all of it, and unlocks it.
func (r *running) take(kind, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sleeps)
	defer cancel()
	var opts []rlock.AcquireOption
	if kind == kindSemaphore {
		opts = append(opts, rlock.Permits(permits))
	}
	hold, err := handle(r.client, kind, name).Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	if err := hold.Unlock(ctx); err != nil || kind != kindSemaphore {
		return err
	}
	_, err = r.client.NewSemaphore(name).Delete(ctx)
	return err
}

// clean checks that Redis holds no keys and no subscriptions, except keys that rlock keeps for a time on purpose. A dead waiter of a fair
// lock stays in the queue until somebody comes who does not reach it, for the second time in 3 s.
func (a *Arena) clean() {
	a.tb.Helper()
	var left []string
	const again = 4 * time.Second
	for range sleeps / again {
		a.probe()
		if within(again, func() bool { left = a.left(); return len(left) == 0 }) {
			return
		}
	}
	a.collector.foundf("left in Redis: %q", left)
}

// left returns the keys and channels in Redis.
func (a *Arena) left() (left []string) {
	ctx := context.Background()
	for _, node := range a.masters() {
		for _, key := range a.admins[node].Keys(ctx, "*").Val() {
			if !strings.Contains(key, "redisson_lock_token") && !strings.Contains(key, "redisson_unlock_latch") {
				left = append(left, key)
			}
		}
		for _, channel := range a.admins[node].PubSubChannels(ctx, "*").Val() {
			if !strings.Contains(channel, "__sentinel__") {
				left = append(left, "channel "+channel)
			}
		}
	}
	return left
}

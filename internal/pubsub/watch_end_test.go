package pubsub

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
)

// TestAWatchEndsWhenRedisHasUnsubscribedIt has the confirmation of an UNSUBSCRIBE come late, or never. Until it comes, Redis counts the
// client as a watcher, and would ask nobody else to watch.
func TestAWatchEndsWhenRedisHasUnsubscribedIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(f *fixture, s *fakeSubscription, silent func(bool)){
		"late": func(f *fixture, s *fakeSubscription, silent func(bool)) {
			f.unwatch()
			silent(true)
			f.after(channelLinger + keeperTick)
			require.Subset(f, s.sent(), []string{"-base", "-base:twin"})
			require.Empty(f, f.heard(), "Redis still counts it")
			silent(false)
			s.receives(driver.Unsubscribed, "base", nil)
			require.Empty(f, f.heard(), "the twin counts")
			s.receives(driver.Unsubscribed, "base:twin", nil)
			require.Equal(f, []string{"base is unwatched"}, f.heard())
			f.after(2 * retryRefused)
			require.Empty(f, f.heard())
		},
		"never": func(f *fixture, s *fakeSubscription, silent func(bool)) {
			f.unwatch()
			silent(true)
			f.after(channelLinger + keeperTick)
			require.Empty(f, f.heard())
			f.after(retryRefused)
			require.True(f, s.isClosed())
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"after it watches again": func(f *fixture, s *fakeSubscription, silent func(bool)) {
			f.unwatch()
			silent(true)
			f.after(channelLinger + keeperTick)
			silent(false)
			f.watch()
			require.Equal(f, []string{"base"}, f.heard())
			s.receives(driver.Unsubscribed, "base:twin", nil)
			f.unwatch()
			f.after(channelLinger / 2)
			s.published("base", "0")
			require.Equal(f, []string{"base"}, f.heard(), "Redis counts it again")
			f.after(channelLinger)
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"while it listens": func(f *fixture, s *fakeSubscription, silent func(bool)) {
			silent(true)
			f.listen("base")
			require.Equal(f, []string{"-base:twin"}, s.sent())
			f.unwatch()
			f.after(keeperTick)
			require.Empty(f, f.heard(), "Redis still counts it")
			silent(false)
			s.receives(driver.Unsubscribed, "base:twin", nil)
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"long before": func(f *fixture, _ *fakeSubscription, _ func(bool)) {
			f.listen("base")
			f.after(time.Minute)
			f.unwatch()
			f.after(keeperTick)
			require.Equal(f, []string{"base is unwatched"}, f.heard(), "at once")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, single, func(f *fixture) {
				s := f.watches()
				test(f, s, func(silent bool) { f.driver.set(func() { s.silent = silent }) })
			})
		})
	}
}

// TestLeaveEndsAWatch has the client close while it watches, or shortly after that.
func TestLeaveEndsAWatch(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	for name, test := range map[string]func(f *fixture, s *fakeSubscription, leave func() time.Duration){
		"while it watches": func(f *fixture, s *fakeSubscription, leave func() time.Duration) {
			require.Zero(f, leave())
			require.Subset(f, s.sent(), []string{"-base", "-base:twin"})
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"while it lingers": func(f *fixture, _ *fakeSubscription, leave func() time.Duration) {
			f.unwatch()
			require.Zero(f, leave())
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"before the confirmation": func(f *fixture, s *fakeSubscription, leave func() time.Duration) {
			f.driver.set(func() { s.silent = true })
			time.AfterFunc(time.Second, func() {
				f.driver.set(func() {
					s.silent = false
					for _, channel := range []string{"base:twin", "base"} {
						s.push(arrival{message: driver.Message{Sort: driver.Unsubscribed, Channel: channel}})
					}
				})
			})
			require.Equal(f, time.Second, leave())
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"without a confirmation": func(f *fixture, s *fakeSubscription, leave func() time.Duration) {
			f.driver.set(func() { s.silent = true })
			require.Equal(f, patience, leave())
			require.Empty(f, f.heard(), "Redis may count it")
		},
		"when the connection breaks meanwhile": func(f *fixture, s *fakeSubscription, leave func() time.Duration) {
			f.driver.set(func() { s.silent = true })
			time.AfterFunc(time.Second, func() {
				f.driver.set(func() {
					s.silent = false
					s.push(arrival{err: network()})
					s.silent = true
				})
			})
			require.LessOrEqual(f, leave(), time.Second+keeperTick)
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"when the connection is broken": func(f *fixture, s *fakeSubscription, leave func() time.Duration) {
			s.receives(driver.Other, "", network())
			f.driver.set(func() { s.silent = true })
			require.Zero(f, leave(), "there is nothing to wait for")
			require.Equal(f, []string{"base is unwatched"}, f.heard())
		},
		"before it is subscribed": func(f *fixture, s *fakeSubscription, leave func() time.Duration) {
			f.hub.Watch("other", "other:twin")
			f.hub.Listen("third", make(chan struct{}, 1), 0)
			require.Zero(f, leave())
			require.Subset(f, f.heard(), []string{"base is unwatched", "other is unwatched"})
		},
		"and nobody listens after it": func(f *fixture, s *fakeSubscription, leave func() time.Duration) {
			require.Zero(f, leave())
			s.sent()
			f.watch()
			f.listen("base")
			f.after(time.Second)
			require.Empty(f, s.sent())
			require.Zero(f, f.hub.Stats())
		},
		"of nothing": func(f *fixture, _ *fakeSubscription, leave func() time.Duration) {
			f.unwatch()
			f.after(time.Minute)
			f.heard()
			require.Zero(f, leave())
			require.Empty(f, f.heard())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, single, func(f *fixture) {
				s := f.watches()
				test(f, s, func() time.Duration {
					ctx, cancel := context.WithTimeout(f.Context(), patience)
					defer cancel()
					start := time.Now()
					f.hub.Leave()
					f.tasks.Close()
					f.tasks.Wait(ctx)
					return time.Since(start)
				})
			})
		})
	}
}

package signal

import (
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
			run(t, single, Auto, func(f *fixture) {
				f.watch()
				s, _ := f.driver.latest()
				s.sent()
				f.heard()
				test(f, s, func(silent bool) { f.driver.set(func() { s.silent = silent }) })
			})
		})
	}
}

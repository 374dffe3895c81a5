package pubsub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

func TestASubscriptionIsRenewedForThoseWhoCameLater(t *testing.T) {
	t.Parallel()
	run(t, single, Auto, func(f *fixture) {
		require.Zero(f, f.hub.Since("a"))
		f.hub.Renew("a", 0)
		first := f.hub.Orders()
		wake := f.listen("a")
		require.True(f, woken(wake))
		since := f.hub.Since("a")
		require.Greater(f, since, first, "it was ordered later")
		s, _ := f.driver.latest()
		require.Equal(f, []string{"+a"}, s.sent())
		f.hub.Renew("a", first)
		f.after(0)
		require.Empty(f, s.sent(), "it was ordered since")

		second := f.hub.Orders()
		f.hub.Renew("a", second)
		f.hub.Renew("a", second)
		_, subscribed := f.hub.Received("a")
		require.True(f, subscribed, "messages are received all the while")
		f.after(0)
		require.Equal(f, []string{"+a"}, s.sent(), "once")
		require.True(f, woken(wake), "the confirmation wakes")
		require.Greater(f, f.hub.Since("a"), second)
		f.hub.Renew("a", second)
		f.after(0)
		require.Empty(f, s.sent())
		s.receives(driver.Subscribed, "a", nil)
		require.True(f, woken(wake))
		require.Greater(f, f.hub.Since("a"), second, "the driver ordered again by itself")

		f.hub.Renew("a", f.hub.Orders())
		f.hub.Unlisten("a", wake)
		f.after(2 * time.Second)
		require.Equal(f, []string{"+a", "-a"}, s.sent())
		require.Zero(f, f.hub.Since("a"))
	})
}

// TestARenewalThatIsUnderWayIsNotRepeated: the confirmation of an earlier order says nothing about those who came since.
func TestARenewalThatIsUnderWayIsNotRepeated(t *testing.T) {
	t.Parallel()
	run(t, single, Auto, func(f *fixture) {
		f.driver.set(func() { f.driver.silent = true })
		wake := f.listen("a")
		s, _ := f.driver.latest()
		confirm := func() {
			f.driver.set(func() { s.silent = false })
			s.receives(driver.Subscribed, "a", nil)
			f.driver.set(func() { s.silent = true })
		}
		require.Equal(f, []string{"+a"}, s.sent())
		f.hub.Renew("a", f.hub.Orders())
		f.after(0)
		require.Empty(f, s.sent(), "its confirmation is to come")
		confirm()
		require.True(f, woken(wake))
		orders := f.hub.Orders()
		f.hub.Renew("a", orders)
		f.after(0)
		require.Equal(f, []string{"+a"}, s.sent())
		require.Equal(f, orders, f.hub.Since("a"))
		f.hub.Renew("a", f.hub.Orders())
		f.after(0)
		require.Empty(f, s.sent())
		confirm()
		require.Greater(f, f.hub.Since("a"), orders)
	})
}

// TestAConfirmationIsThatOfTheOldestOrder orders a channel again, since Redis refused another one, while the confirmation of the first order is
// under way. A message behind that may be older than the second order.
func TestAConfirmationIsThatOfTheOldestOrder(t *testing.T) {
	t.Parallel()
	run(t, single, Auto, func(f *fixture) {
		f.listen("a")
		s, _ := f.driver.latest()
		f.driver.set(func() { f.driver.refuses = func(string) *fault.Error { return busy() } })
		f.listen("refused")
		f.after(retryBusy - time.Millisecond)
		f.driver.set(func() { f.driver.refuses, s.silent = nil, true })
		s.sent()
		f.listen("late")
		ordered := f.hub.Orders()
		f.after(keeperTick)
		require.Contains(f, s.sent(), "+late,refused", "it is ordered again")
		f.driver.set(func() { s.silent = false })
		s.receives(driver.Subscribed, "late", nil)
		f.confirmed(true, "late")
		require.LessOrEqual(f, f.hub.Since("late"), ordered, "what was published behind the first order is not behind the second one")
		f.hub.Renew("late", f.hub.Orders())
		f.after(keeperTick)
		require.Equal(f, f.hub.Orders(), f.hub.Since("late"))
	})
}

package page

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// TestWhoIsShown tells a kept lock from one that is held, and the permits of one client from each other.
func TestWhoIsShown(t *testing.T) {
	t.Parallel()
	now, shop := time.Now(), &rlock.Identity{Service: "shop", Host: "a", PID: 7}
	row := catalog.Row{Name: "sync", Kind: catalog.Lock, Holder: "c:1", Client: "c", Holders: 1, Kept: true, Identity: shop, Lease: time.Hour}
	one := newSighting(&row, now)
	require.Equal(t, "kept by shop@a 7", one.view.Who)
	h := &rlock.HolderInfo{Holder: "c:1", Client: "c", Kept: true, Lease: time.Hour, Identity: shop}
	tr := newState().histories.of("id", "sync")
	require.Equal(t, "kept by shop@a 7", tr.holder(h, "key", now, true).Who)

	const first, second = "71b96ce82746f4b3000000000057" + "0000", "71b96ce82746f4b3000000000057" + "0001"
	d := &catalog.Details{Row: catalog.Row{Name: "permits", Kind: catalog.Semaphore, Holders: 2}, Permits: []catalog.Permit{
		{ID: first, Lease: time.Minute, Identity: shop}, {ID: second, Lease: time.Minute, Identity: shop},
	}}
	v := newState().histories.of("id", "permits").view(d, now, true)
	require.Equal(t, "shop@a 7 · permit 71b96ce8…570000", v.Holders[0].Who)
	require.Equal(t, "shop@a 7 · permit 71b96ce8…570001", v.Holders[1].Who)
	require.True(t, v.Holders[0].Named)
	row = catalog.Row{Name: "permits", Kind: catalog.Semaphore, Holder: first, Holders: 2}
	one = newSighting(&row, now)
	require.Equal(t, "permit 71b96ce8…570000", one.view.Who)
}

// TestWaitersAreCalledWhatTheyAre labels calls and processes, in the table and on the page of a lock.
func TestWaitersAreCalledWhatTheyAre(t *testing.T) {
	fair, plain, many := held("fair", "one:1"), held("plain", "one:1"), held("many", "one:1")
	fair.Kind, fair.Waiters, fair.Processes = catalog.Fair, 12, 2
	many.Kind, many.Waiters = catalog.FencedFair, 300
	plain.Waiters = 3
	_, ts := serve(t, newFake(fair, plain, many), Options{})
	p := open(t, ts.URL)
	for name, want := range map[string][3]string{
		"fair": {"12 calls", "12 calls of 2 processes", "Queue12 calls of 2 processes"}, "plain": {"3", "3 processes", "Waiting3 processes"},
		"many": {"300 calls", "300 calls", "Queue300 calls"},
	} {
		p.run(goTo("#/"))
		p.row(name)
		require.Equal(t, want[0], get[string](p, cell, name, 5))
		require.Equal(t, want[1], get[string](p, rowOf+`.cells[5].title`, name))
		require.LessOrEqual(t, get[float64](p, rowOf+`.cells[5].scrollWidth - `+rowOf+`.cells[5].clientWidth`, name, name), 0.0, "it is not cut")
		p.run(goTo("#/lock/" + idOf(name)))
		p.await("its waiters", `document.querySelector("#h-waiters").textContent === %q`, want[2])
	}
}

// TestALongHolderLeavesRoom for how many others hold the lock, and how many permits are free.
func TestALongHolderLeavesRoom(t *testing.T) {
	row := catalog.Row{
		Name: "slots", Kind: catalog.Semaphore, Holder: "71b96ce82746f4b30000000000570000", Holders: 2, Free: 3, Lease: time.Minute,
		Identity: &rlock.Identity{Service: "a-service-with-a-long-name", Host: "and-a-host-with-a-long-name-5d6b-9qk2r", PID: 7},
	}
	_, ts := serve(t, newFake(row), Options{})
	for _, size := range []chromedp.Action{emulation.SetDeviceMetricsOverride(1280, 720, 1, false), phone()} {
		p := open(t, ts.URL, size)
		p.row("slots")
		require.True(t, get[bool](p, `(() => {
			const badge = document.querySelector("#rows .more").getBoundingClientRect(), cell = document.querySelector("#rows .c-who").getBoundingClientRect();
			return badge.width > 20 && badge.right <= cell.right;
		})()`), "the badge is in its cell")
	}
}

package client

import (
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// dropped has the holds of one client that the program can no longer reach. The runtime finds them on a goroutine of its own, which must
// touch no channel, timer or context of a client: the client may be in a bubble of testing/synctest, and that goroutine is not. So it only
// adds them here, and a goroutine of the client collects them. The zero value has none. It is safe for concurrent use.
type dropped struct {
	found atomic.Pointer[drop]
	open  atomic.Int64 // holds that were neither unlocked nor found
	looks atomic.Bool  // the watchdog looks for them again within lookForDrops
}

// drop is one of them.
type drop struct {
	of   Held
	next *drop
}

// lookForDrops is how often a client looks for dropped holds while it holds locks for some that may be dropped. A call that acquires looks, too.
const lookForDrops = time.Second

// add adds a hold.
func (d *dropped) add(of Held) {
	first := &drop{of: of}
	for {
		first.next = d.found.Load()
		if d.found.CompareAndSwap(first.next, first) {
			return
		}
	}
}

// findDrop takes a hold that the runtime has found. Each of its clients may end it, because another one may be closed.
func findDrop(of Held) {
	eachClient(of, func(c *Client) {
		c.dropped.open.Add(-1)
		c.dropped.add(of)
	})
}

// noteOpen has the clients of a hold look whether it was found, and noteClosed ends that.
func noteOpen(of Held) {
	eachClient(of, func(c *Client) {
		c.dropped.open.Add(1)
		if c.dropped.looks.CompareAndSwap(false, true) {
			c.dog.Alarm(clock.Now().Add(lookForDrops))
		}
	})
}

func noteClosed(of Held) { eachClient(of, func(c *Client) { c.dropped.open.Add(-1) }) }

// eachClient calls a function with the client of each lock of a hold.
func eachClient(of Held, do func(c *Client)) {
	if one, ok := of.(taken); ok {
		do(one.lock.client) // without a list of its locks, because every acquisition comes here
		return
	}
	for _, l := range of.Locks() {
		do(l.client)
	}
}

// endDrops ends the holds that were found.
func (c *Client) endDrops() {
	for d := c.dropped.found.Swap(nil); d != nil; d = d.next {
		d.of.Leak()
	}
}

// collectDrops ends the holds that were found. The watchdog calls it when it looks, before it renews. It returns when to look again; zero
// means that there is nothing to look for: holds that are over may stay open for long, if nobody unlocks them.
func (c *Client) collectDrops(now clock.Instant) (next clock.Instant) {
	c.endDrops()
	d := &c.dropped
	d.looks.Store(false)
	if d.open.Load() == 0 || c.table.Counts().Held == 0 { // asked after the Store: who acquires meanwhile sets the alarm
		return 0
	}
	d.looks.Store(true)
	return now.Add(lookForDrops)
}

package torture

import (
	"fmt"
	"time"
)

// plan holds the random choices for a turn.
type plan struct {
	share   Share
	names   []string
	verb    string
	try     bool
	wait    time.Duration // zero means no limit
	cancel  time.Duration // until the context is canceled; zero means never
	lease   time.Duration // zero means renewed
	depth   int           // acquisitions in total; all but one are re-entries
	permits int           // of a semaphore
	hold    time.Duration
	gap     time.Duration // between the last look and the last write
	release string

	deadline time.Duration // of the context; zero means none
	renewed  time.Duration // the renewed lease; zero means that of the client
	rest     time.Duration // before the turn
	extend   time.Duration // by which the owner extends the lease; zero means not at all
}

// The verbs of a turn.
const (
	verbAcquire = "Acquire" // or TryAcquire
	verbDo      = "Do"      // or TryDo
	verbDoValue = "DoValue"
)

const (
	releaseOnce     = "once"
	releaseCanceled = "with an ended context"
	releaseTwice    = "twice"
	releaseAtOnce   = "twice at once"
	releaseNever    = "never"
)

func (w *worker) draw() plan {
	if w.Fleet {
		return w.drawFleet()
	}
	r := w.random
	p := plan{share: w.pick(), verb: verbAcquire, depth: 1, release: releaseOnce}
	p.names = []string{p.share.Names[r.IntN(len(p.share.Names))]}
	if p.share.Kind == kindMulti {
		i := r.IntN(len(p.share.Names))
		p.names = []string{p.share.Names[i], p.share.Names[(i+1)%len(p.share.Names)]}
	}
	if p.names[0] == fresh {
		p.names[0] = fmt.Sprintf("%s-%d", fresh, now()/Moment(25*time.Millisecond))
	}
	switch n := r.IntN(100); {
	case n < 30:
		p.try = true
	case n < 60:
		p.wait = time.Duration(1+r.IntN(400)) * time.Millisecond
	case n < 75:
		p.cancel = time.Duration(1 + r.IntN(int(60*time.Millisecond)))
	case n < 80:
		p.deadline = 100*time.Millisecond + time.Duration(r.IntN(int(time.Second))) // time for a reply
	}
	if p.try && r.IntN(6) == 0 {
		p.deadline = 100*time.Millisecond + time.Duration(r.IntN(int(time.Second))) // time for a reply
	}
	p.hold = time.Duration(r.IntN(int(5 * time.Millisecond)))
	if r.IntN(6) == 0 {
		p.depth += 1 + r.IntN(2)
	}
	switch n := r.IntN(12); {
	case n < 2:
		p.lease = shortLease + time.Duration(r.IntN(int(2*shortLease)))
	case n < 4:
		p.renewed = 2*shortLease + time.Duration(r.IntN(int(watchdogTimeout-2*shortLease)))
	}
	if r.IntN(10) == 0 {
		p.extend = shortLease/3 + time.Duration(r.IntN(int(3*shortLease)))
	}
	switch n := r.IntN(1000); {
	case n < 12: // the owner sleeps while its lease runs out
		p.lease, p.renewed, p.extend = shortLease, 0, 0
		p.hold, p.gap = shortLease/2, shortLease
	case n < 24: // the owner works for longer than its lease, and checks the hold
		p.lease, p.renewed = shortLease, 0
		p.hold = 2 * shortLease
	case n < 27 || p.extend > 0 && p.lease > 0: // it works for longer than its lease, which it extends
		p.lease, p.renewed, p.extend = shortLease, 0, 4*shortLease
		p.hold = 3 * shortLease
	case n < 30: // the owner works for several of its renewed leases
		p.hold, p.lease, p.renewed = 7*shortLease, 0, 2*shortLease
	case n < 33: // the owner works for longer than the watchdog's lease
		p.hold, p.lease, p.renewed = watchdogTimeout*11/10, 0, 0
	}
	switch n := r.IntN(100); {
	case n < 10:
		p.release = releaseCanceled
	case n < 13:
		p.release = releaseTwice
	case n < 15:
		p.release = releaseAtOnce
	case n < 40 && p.lease > 0:
		p.release, p.depth = releaseNever, 1 // a re-entry has no Lease and would extend the lease
	}
	if n := r.IntN(8); n < 2 && p.release != releaseNever {
		p.verb, p.release = [2]string{verbDo, verbDoValue}[n], releaseOnce
	}
	return p
}

func (w *worker) pick() Share {
	total := 0
	for _, s := range w.Mix {
		total += s.Weight
	}
	n := w.random.IntN(total)
	for _, s := range w.Mix {
		if n -= s.Weight; n < 0 {
			return s
		}
	}
	panic("unreachable")
}

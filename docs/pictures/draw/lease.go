package main

import (
	"fmt"
	"time"
)

// The lease in the picture: rlock's default. Times are in seconds.
const (
	leaseLength = 30.0
	renewEvery  = leaseLength / 3
	renewed     = 2    // times, before the outage
	outage      = 25.0 // its begin
	leaseEnd    = renewed*renewEvery + leaseLength
)

// driftMargin is by how much a holder trusts a lease of 30 s less than Redis does.
const driftMargin = 302 * time.Millisecond

// deadline is when the holder learns of the loss.
var deadline = leaseEnd - driftMargin.Seconds()

// timeline is an axis of time.
type timeline struct {
	left, right float64 // in px
	begin, end  float64
}

func (t timeline) at(seconds float64) float64 {
	return t.left + (seconds-t.begin)/(t.end-t.begin)*(t.right-t.left)
}

// span returns the place from one time to another.
func (t timeline) span(from, to, top, height float64) rect {
	return rect{t.at(from), top, t.at(to) - t.at(from), height}
}

// lease shows the life of a lease up to a loss.
func lease() *picture {
	p := newPicture("lease", 582, "The life of a lease, and its loss",
		"A lease of 30 s, the default. From 25 s on, process A cannot reach Redis, and process B can.",
		"A timeline of 50 seconds. Process A acquires the lock at 0 s, and renews its lease of 30 s at 10 s and at 20 s. From 25 s on it "+
			"cannot reach Redis: the renewal at 30 s fails, and is repeated until the deadline at 49.698 s. At the deadline, rlock ends the "+
			"context of the hold with ErrLost. The key expires in Redis at 50 s. Process B, which has waited, gets the lock after that.")
	t := timeline{left: 132, right: pageWidth - margin, begin: 0, end: 52}
	const holder, leases, next, axis = 108.0, 206.0, 298.0, 352.0
	p.boxes = append(p.boxes, box{t.span(outage, t.end, holder-24, leases-holder+14), "out", 0})
	p.write(note, t.at(outage)+8, holder-8, "process A cannot reach Redis")
	for s := 0.0; s <= leaseEnd; s += renewEvery {
		p.behind("grid", point{t.at(s), leases}, point{t.at(s), axis - 14})
		p.centre(note, t.at(s), axis, px(s)+" s")
	}

	p.write(head, margin, holder+19, "process A")
	p.tint(t.span(0, deadline, holder, 28), held)
	p.centre(body, t.at(outage/2), holder+18.5, "holds the lock, and works")
	p.centre(body, t.at((outage+deadline)/2), holder+18.5, "holds it until the deadline")
	for s := leaseLength; s < leaseEnd-1; s += 2 {
		p.cross(failing, t.at(s), holder+48)
	}
	p.write(note, t.at(leaseLength)-4, holder+77, "renewals fail, and are repeated")

	p.write(head, margin, leases+39, "Redis")
	for i, s := range []string{"acquired at 0 s", "renewed at 10 s", "renewed at 20 s"} {
		start := float64(i) * renewEvery
		bar := t.span(start, start+leaseLength, leases+float64(i)*24, 20)
		p.tint(bar, redis)
		p.write(note, bar.x+8, bar.y+14, s)
		p.arrow(held, point{bar.x, holder + 28}, point{bar.x, bar.y})
		p.write(note, bar.x+8, holder+52, []string{"acquire", "renew", "renew"}[i])
	}

	p.writeEnd(note, t.at(leaseEnd)-8, leases+62, "expires at 50 s")

	p.write(head, margin, next+19, "process B")
	p.dashed(t.span(6, leaseEnd, next, 28), waiting)
	p.centre(body, t.at(25), next+18.5, "waits")
	p.tint(t.span(leaseEnd, t.end, next, 28), held)
	p.lastMoments(point{t.at(leaseEnd) - 6, axis + 8}, point{t.at(leaseEnd) + 6, axis + 8})
	return p
}

// cross draws a small cross.
func (p *picture) cross(colour string, x, y float64) {
	const half = 4
	p.rule("line "+colour, point{x - half, y - half}, point{x + half, y + half})
	p.rule("line "+colour, point{x - half, y + half}, point{x + half, y - half})
}

// lastMoments enlarges the end of the lease, between two points of the axis.
func (p *picture) lastMoments(from, to point) {
	r := rect{margin, from.y + 28, pageWidth - 2*margin, 166}
	t := timeline{left: 132, right: r.right() - 14, begin: 49.58, end: 50.14}
	const next = leaseEnd + .012 // it takes the waiter a moment
	p.rule("thin", from, point{r.x, r.y})
	p.rule("thin", to, point{r.right(), r.y})
	p.card(r)
	for _, s := range []float64{deadline, leaseEnd} {
		p.rule("thin dashed", point{t.at(s), r.y + 14}, point{t.at(s), r.bottom() - 28})
	}
	p.centre(note, t.at(deadline), r.bottom()-11, fmt.Sprintf("%.3f s", deadline))
	p.centre(note, t.at(leaseEnd), r.bottom()-11, "50 s")
	p.centre(note, (t.at(deadline)+t.at(leaseEnd))/2, r.bottom()-11, "← margin for the clocks →")

	const tall, step = 26.0, 40.0
	row := func(i int, from, to float64) rect { return t.span(from, to, r.y+18+float64(i)*step, tall) }
	for i, name := range []string{"process A", "Redis", "process B"} {
		p.write(head, r.x+14, r.y+36+float64(i)*step, name)
	}
	p.chip(row(0, t.begin, deadline), held, "holds the lock")
	p.tint(row(0, deadline, t.end), failing)
	p.centre(body, (t.at(deadline)+t.at(leaseEnd))/2, row(0, 0, 0).middle().y+4.5, "its context has ended: `ErrLost`")
	p.chip(row(1, t.begin, leaseEnd), redis, "the key")
	p.waiter(row(2, t.begin, next), "waits")
	p.chip(row(2, next, t.end), held, "holds the lock")
}

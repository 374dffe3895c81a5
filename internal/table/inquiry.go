package table

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/table/internal/place"
	"github.com/go-rlock/rlock/internal/wire"
)

// A message may be lost, and a lock may be freed by somebody who tells nobody. So the first waiters of each line ask within a first
// term, however long the lease of the holder is. While a waiter sleeps, the client asks for it: one call inquires about many names.
// A waiter wakes only when something has changed. Then it asks by itself.

// inquiryWindow is by how much too early a waiter may be asked for, so that many names share a call.
const inquiryWindow = 300 * time.Millisecond

// Inquiry is the waiters about which one call inquires.
type Inquiry struct {
	waiters []*Attempt
	number  int64
	asked   uint64 // the number of the question
}

// Name returns the name in Redis of one lock of the inquiry, which decides the node.
func (i *Inquiry) Name() string { return i.waiters[0].Handle.Key.Name }

// Inquiries returns the inquiries that are due. It is called when an alarm has come, and asks for the next alarm.
func (t *Table) Inquiries(now clock.Instant, bySlot bool, n *notice.List) (due []Inquiry) {
	defer t.lock().Unlock()
	t.asleep.Rang()
	if t.asleep.Due(now) != nil {
		type sort struct {
			script *wire.Script
			ending string // of its channels
			slot   uint16
		}
		for _, all := range queue.Batches(t.asleep.Before(now.Add(inquiryWindow)), t.cfg.BatchSize, func(a *Attempt) (s sort, alone bool) {
			s.script, s.ending = a.Handle.Kind.Line.Inquire, wire.OwnEnding(a.Handle.Key.Name)
			if bySlot {
				s.slot = wire.Slot(a.Handle.Key.Name)
			}
			return s, false
		}) {
			t.inquiries, t.inquired = t.inquiries+1, now
			for _, a := range all {
				t.asleep.Remove(a)
				a.inquiry = t.inquiries
			}
			due = append(due, Inquiry{waiters: all, number: t.inquiries})
		}
	}
	n.Alarm(t.asleep.Alarm())
	return due
}

// Inquire returns the call for the waiters of an inquiry that still sleep, and drops the others. It is called right before the call is
// sent, and again if there was no reply in time. A call without keys means that there is nothing to send.
func (t *Table) Inquire(i *Inquiry, now clock.Instant) (c wire.Call) {
	defer t.lock().Unlock()
	i.asked = t.sections
	i.waiters = slices.DeleteFunc(slices.Clone(i.waiters), func(a *Attempt) bool { return a.inquiry != i.number || t.closed })
	if len(i.waiters) > 0 {
		c = wire.NewRenewal(i.waiters[0].Handle.Kind.Line.Inquire, 0, len(i.waiters))
	}
	for _, a := range i.waiters {
		a.knows().Asked(i.asked, now) // not before: one that is dropped has asked nothing
		c.Inquire(a.Handle.Names(), a.grant.inRedis(), a.firstTerm)
		a.grant.shrink()
	}
	return c
}

// Inquired takes the reply for an inquiry that was sent at a moment. It counts for those that sleep since then.
func (t *Table) Inquired(i *Inquiry, sent clock.Instant, r wire.Reply, now clock.Instant, n *notice.List) {
	defer t.lock().Unlock()
	for k, a := range i.waiters {
		if r.Err == nil {
			t.repliedLate(a.grant, i.asked, r, now) // whatever the waiter has learned meanwhile
		}
		switch {
		case a.inquiry != i.number:
		case r.Err != nil || r.List[k] < 0: // it asks by itself
			t.stir(a)
			a.place.AskBy(now)
			a.bell.Ring()
		default:
			a.knows().Refused()
			t.unheardSince = 0 // Redis knows of its subscription
			a.place.Stand(place.Reading{Sent: sent, Micros: r.List[k]}, now.Add(a.place.Pause))
			t.inquireAt(a, now.Add(a.place.Pause), n)
		}
	}
}

package table

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// ticket is what an export has made: any process may present it, also more than once.
type ticket struct {
	name    *name
	kind    *wire.Kind
	field   string
	token   uint64 // of the hold that was exported
	adopted bool
	lost    int // how often Redis had lost something then
}

// export begins to export an acquisition.
func (w *world) export() bool {
	r, ok := pick(w, w.records, func(r *record) bool { return r.open() && r.byHold && r.handle.Kind.HasTickets() })
	if !ok || !w.hands {
		return false
	}
	e := &exit{proc: r.proc, name: r.name, x: &Exit{}, rec: r, before: r.acq.Err(w.now), exports: true}
	w.exits = append(w.exits, e)
	lease := oneOf(w, 0, 100*time.Millisecond, time.Second, 10*time.Second)
	s := r.proc.table.Export(e.x, r.acq, lease, nil, w.now, &r.proc.notices)
	w.noteGrant(e.x.ticket)
	r.proc.deliver()
	w.nextExit(e, s)
	return true
}

// exported takes the result of an export. If nothing was sent, the acquisition goes on.
func (w *world) exported(e *exit, err error) {
	r, x := e.rec, e.x
	if !r.acq.closed.Load() {
		if err == nil {
			w.failf("Ticket: exported, but the hold goes on")
		}
		return
	}
	if x.start == 0 { // somebody else closed it
		return
	}
	w.unlocked(e, err)
	field := text(x.ticket.inRedis().Field)
	if err != nil {
		return
	}
	delete(w.grants, field) // nobody of this process releases it
	if s := e.name.server; s.gone[field] == "" && s.find(field) == nil && s.sound(text(x.grant.inRedis().Field)) {
		w.failf("Ticket: %s was exported, but Redis never had it", field)
	}
	if len(w.tickets) < 8 {
		w.tickets = append(w.tickets, &ticket{name: e.name, kind: r.handle.Kind, field: field, token: r.acq.Token()})
	}
}

// adopt begins to adopt the hold of a ticket, in any process.
func (w *world) adopt() bool {
	k, ok := pick(w, w.tickets, func(k *ticket) bool { return w.find(k) || w.rand(3) == 0 })
	if !ok {
		return false
	}
	p := w.someone()
	for _, h := range p.handles[k.name.index] {
		if h.Kind == k.kind {
			return w.admitFor(k, p, k.name, h, oneOf(w, nil, nil, w.owners[0], w.owners[1]))
		}
	}
	return false
}

// find reports whether Redis has the holder of a ticket.
func (w *world) find(k *ticket) bool { return k.name.server.find(k.field) != nil }

// adopted checks the result of an adoption.
func (w *world) adopted(v *verb, s Step) {
	k, server := v.ticket, v.name.server
	switch {
	case s.Got != nil && k.adopted && k.lost == server.lost: // a failover brings a ticket back
		w.failf("Ticket: %s is adopted for the second time", k.field)
	case s.Got != nil && server.sound(text(s.Got.grant.inRedis().Field)):
		k.adopted, k.lost = true, server.lost
		if k.kind.Tokens && s.Got.Token() <= k.token {
			w.failf("Ticket: the token %d does not exceed that of the exporter, %d", s.Got.Token(), k.token)
		}
	case errors.Is(s.Err, errTicket) && !v.missed:
		w.failf("Ticket: %s is refused, although Redis did not say so", k.field)
	case s.Err == nil && v.a.Last.Refused, errors.Is(s.Err, fault.ErrNotAcquired):
		w.failf("Ticket: a refusal that is about another holder")
	case errors.Is(s.Err, errUndefined):
		w.failf("Undefined: %s", v)
	}
}

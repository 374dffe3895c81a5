package exhaust

// watch is what the promises are about.
type watch struct {
	granted  bool  // the lock was given to its holder by a message, and not renewed since
	heard    bool  // that message was not lost
	excused  bool  // something has happened that may leave the lock without an owner for a lease
	forgot   bool  // a failover has lost a place, or brought one back
	repeated bool  // a place may come back whose number is over
	took     bool  // a hold was lost to its own client
	stays    bool  // somebody stands in the line who does not wait
	strays   bool  // the lock was given to somebody who does not wait, and knows of it
	idle     uint8 // ticks for which the lock has been free while a waiter slept
	kept     uint8 // the same for Redisson
	orphan   uint8 // ticks for which the lock has had a holder, but no owner
}

// executed notes what a command has done.
func (w *world) executed(before *redis, c command, out *outcome) {
	tells := false
	for _, m := range out.told {
		tells = tells || m.kind == granted
	}
	switch {
	case tells, out.fields != before.fields:
		w.granted, w.heard, w.orphan = tells, tells, 0
	case c.script == renew, c.script == acquire && out.reply.acquired:
		w.granted = false
	}
	if out.ttl > before.ttl { // the bound counts from the last command of the holder
		w.orphan = 0
	}
}

// lost notes messages that do not arrive.
func (w *world) lost(all ...message) {
	for _, m := range all {
		if m.kind == granted {
			w.heard = false
			a := &w.attempts[m.number]
			a.loser = a.at == sleeps
		}
	}
}

// tick lets time pass.
func (g *game) tick(w *world) {
	waits := false
	for n := uint8(1); n <= g.last; n++ {
		a, c := w.of(n)
		late := a.loser && a.doubled && !a.first // who has lost a grant finds out at its poll, which may be long unless it is the first one
		waits = waits || !c.dead && !c.paused && (a.at == sleeps && !late || a.at == subscribed)
	}
	count(&w.idle, waits && w.fields == 0)
	count(&w.kept, w.peer.at == peerWaits && w.fields == 0)
	if down(&w.ttl); w.ttl == 0 && w.fields != 0 {
		w.fields, w.granted, w.orphan = 0, false, 0
	}
	if w.peer.at == peerHolds {
		w.ttl = lease // it renews
	}
	for i := range w.line {
		if w.line[i] != 0 {
			w.age[i] = min(old, w.age[i]+1)
		}
	}
	for n := range w.attempts {
		a := &w.attempts[n]
		down(&a.timer)
		down(&a.deadline)
		a.owned = false
		a.open.pass()
	}
	for i := range w.late {
		w.late[i].left.pass()
	}
	if w.slow.number != 0 {
		w.slow.age = min(lease, w.slow.age+1)
	}
	down(&w.peer.timer)
	for i := range g.clients {
		g.clientTick(w, uint8(i), &w.clients[i])
	}
	g.judge(w)
}

// clientTick is the part of a client.
func (g *game) clientTick(w *world, i uint8, c *client) {
	for _, list := range [][]message{c.inbox[:], c.wire[:]} {
		for j := range list {
			if list[j].kind == granted {
				list[j].age = min(firstTerm, list[j].age+1)
			}
		}
	}
	if down(&c.deaf); c.conn == deaf && c.deaf == 0 {
		c.conn, w.hears = reconnects, w.hears&^(1<<i)
	}
	listens := false
	for n := uint8(1); n <= g.last; n++ {
		listens = listens || owners[n] == i && w.attempts[n].listens
	}
	if c.conn == up && !listens && !c.paused { // it lingers for a second
		w.unsubscribe(i, off)
		w.hears &^= 1 << i
	}
}

func (u *until) pass() {
	if *u > passed {
		*u--
	}
}

func down(v *uint8) {
	if *v > 0 {
		*v--
	}
}

func count(v *uint8, lasts bool) {
	if *v++; !lasts {
		*v = 0
	}
}

// judge notes what must not last.
func (g *game) judge(w *world) {
	count(&w.orphan, w.fields != 0 && g.owners(w) == 0)
	w.stays, w.strays = false, false
	for n := uint8(1); n <= g.last; n++ {
		if a, c := w.of(n); a.at == over && !c.dead && !c.paused {
			w.stays = w.stays || w.place(n) >= 0 && a.sweep == notSwept && !w.repeated
			w.strays = w.strays || w.fields&(1<<n) != 0 && w.granted && w.heard
		}
	}
}

// owners returns how many believe to have the lock.
func (g *game) owners(w *world) (all int) {
	for n := range w.attempts {
		if w.attempts[n].owns() {
			all++
		}
	}
	if w.peer.at == peerHolds {
		all++
	}
	return all
}

func (a *attempt) owns() bool { return a.deadline > 0 && (a.at == holds || a.at == comeFirst) }

// broken returns the promise that a state breaks, or an empty text. A fault costs the others a term. Who dies leaves the lock without an
// owner for its lease, and what is in doubt is settled after the timeout.
func (g *game) broken(w *world) string {
	alone, idle := uint8(timeout+1), firstTerm*w.faults
	switch {
	case w.granted:
		alone = firstTerm - 1
	case w.excused:
		alone = lease - 1
	}
	if w.forgot {
		idle += lease
	}
	for n := uint8(1); n <= g.last; n++ {
		if w.attempts[n].owns() && w.fields&(1<<n) == 0 {
			return "somebody believes to have the lock, but Redis does not say so"
		}
	}
	for i := range w.clients {
		if c := &w.clients[i]; c.queue[0] != 0 && c.asks == 0 || c.asks != 0 && w.attempts[c.asks].at == over {
			return "a queue in which nobody asks"
		}
	}
	switch {
	case g.owners(w) > 1:
		return "two owners"
	case w.orphan > alone:
		return "a lock without an owner"
	case w.idle > idle:
		return "a waiter sleeps beside a free lock"
	case w.kept > lease*w.faults:
		return "Redisson sleeps beside a free lock"
	case w.took:
		return "a hold is lost, although its lease had not ended"
	case w.strays:
		return "a grant for nobody stays"
	case w.stays:
		return "somebody stands in the line who does not wait"
	}
	return ""
}

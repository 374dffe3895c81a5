package exhaust

// client emits what happens to a client.
func (g *game) client(w *world, i uint8, c *client) {
	s := func(what string) step { return step{what: what, who: aClient + i} }
	bit := uint8(1) << i
	switch {
	case c.dead:
		if w.hears&bit != 0 {
			g.do(w, s("has gone, which Redis notices"), func(t *world) { t.hears &^= bit })
		}
		return
	case c.paused:
		g.do(w, s("goes on"), func(t *world) { t.clients[i].paused = false })
		return
	case c.back:
		g.do(w, step{what: "has stood back", who: aClient + i, due: true}, func(t *world) { t.clients[i].back = false })
	}
	if m := c.wire[0]; m.kind != 0 {
		g.do(w, step{what: "is told", who: aClient + i, due: true, told: m}, func(t *world) { g.tell(t, i, shift(t.clients[i].wire[:])) })
		missed := step{what: "FAULT: is not told", who: aClient + i, told: m}
		g.fault(w, lose, missed, func(t *world) { t.lost(shift(t.clients[i].wire[:])) })
		g.fault(w, twice, step{what: "FAULT: is told twice", who: aClient + i, told: m}, func(t *world) { g.tell(t, i, m) })
	}
	switch c.conn {
	case ordered, reconnects:
		g.do(w, step{what: "is subscribed", who: aClient + i, due: true}, func(t *world) {
			if c.conn == reconnects {
				g.tell(t, i, message{kind: askAgain})
			}
			t.clients[i].conn, t.hears = up, t.hears|bit
		})
	case off, deaf:
	case up:
		g.fault(w, cut, s("FAULT: loses its subscription"), func(t *world) { t.unsubscribe(i, reconnects); t.hears &^= bit })
		g.fault(w, cut, s("FAULT: has a half-open subscription"), func(t *world) { t.unsubscribe(i, deaf); t.clients[i].deaf = firstTerm })
	}
	if g.busy(w, i) {
		g.fault(w, pause, s("FAULT: pauses"), func(t *world) { t.clients[i].paused, t.excused = true, true })
		g.fault(w, die, s("FAULT: dies"), func(t *world) { g.kill(t, i); t.hears &^= bit })
		if w.hears&bit != 0 {
			g.fault(w, die, s("FAULT: dies, which Redis does not notice"), func(t *world) { g.kill(t, i) })
		}
	}
}

// unsubscribe loses what is on its way to a client.
func (w *world) unsubscribe(i uint8, to conn) {
	c := &w.clients[i]
	w.lost(c.wire[:]...)
	c.conn, c.wire = to, [len(c.wire)]message{}
}

// busy reports whether a client is about something.
func (g *game) busy(w *world, c uint8) bool {
	for n := uint8(1); n <= g.last; n++ {
		if a := &w.attempts[n]; owners[n] == c && (a.at != idle && a.at != over || a.sweep != notSwept || a.disown) {
			return true
		}
	}
	return false
}

func (g *game) kill(w *world, c uint8) {
	w.excused = true
	w.clients[c] = client{dead: true}
	for n := uint8(1); n <= g.last; n++ {
		if owners[n] != c {
			continue
		}
		if w.attempts[n] = (attempt{at: over}); w.slow.number == n {
			w.slow = pending{}
		}
	}
}

// lateOnes emits what comes of commands that nobody waits for.
func (g *game) lateOnes(w *world) {
	for i, c := range w.late {
		if c == (command{}) || i > 0 && c == w.late[i-1] {
			continue
		}
		run := c
		run.prompt = false
		for _, draw := range draws {
			g.do(w, step{what: "is concerned by a late command", who: c.number, due: c.prompt, cmd: c}, func(t *world) {
				shift(t.late[i:])
				g.execute(t, run, draw)
			})
		}
		g.do(w, step{what: "is spared a late command", who: c.number, cmd: c}, func(t *world) { shift(t.late[i:]) })
	}
}

// redisson emits the moves of the peer, which does as Redisson.
func (g *game) redisson(w *world) {
	p := &w.peer
	s := func(what string) step { return step{what: what, who: redisson} }
	asks := func(due bool, refused peer) {
		g.do(w, step{what: "asks", who: redisson, due: due}, func(t *world) {
			if r := g.execute(t, command{script: peerLock, number: redisson}, 0); !r.acquired {
				refused.heard, refused.wants, refused.timer = p.heard && w.others, p.wants, uint8(r.list[0])
				t.peer, t.others = refused, true
				return
			}
			t.peer, t.others = peer{at: peerHolds, wants: p.wants}, false
		})
	}
	if p.at != peerRests && p.at != peerEnds {
		g.fault(w, die, s("FAULT: dies"), func(t *world) { t.peer, t.excused = peer{at: peerEnds, dead: true}, true })
	}
	switch p.at {
	case peerRests:
		if p.wants > 0 {
			asks(false, peer{at: peerAsks})
		}
	case peerAsks:
		asks(true, peer{at: peerWaits})
	case peerWaits:
		if p.timer == 0 || p.heard {
			g.do(w, step{what: "wakes", who: redisson, due: true}, func(t *world) { t.peer = peer{at: peerAsks, wants: p.wants} })
		}
		if p.heard {
			g.fault(w, lose, s("FAULT: is not told 0"), func(t *world) { t.peer.heard = false })
		}
		g.end(w, redisson, "gives up", func(t *world) { t.others, t.peer = false, peer{at: peerEnds} })
	case peerHolds:
		g.do(w, s("releases"), func(t *world) {
			g.execute(t, command{script: peerUnlock, number: redisson}, 0)
			t.peer = peer{wants: p.wants - 1}
		})
	case peerEnds:
		if p.dead && w.others {
			g.do(w, s("has gone, which Redis notices"), func(t *world) { t.others = false })
		}
	}
}

// failover emits what a replica may have missed when it becomes the master: that somebody has entered the line, or has left it.
func (g *game) failover(w *world) {
	for n := uint8(1); n <= g.last; n++ {
		a, c := w.of(n)
		if place := w.place(n); place >= 0 {
			g.fault(w, forget, step{what: "FAULT: loses its place", who: n}, func(t *world) {
				t.forgot = true
				shift(t.line[place:])
				shift(t.age[place:])
			})
		} else if a.at == over && !c.dead && w.line[numbers-1] == 0 {
			g.fault(w, forget, step{what: "FAULT: has its old place again", who: n}, func(t *world) {
				t.repeated, t.excused, t.forgot = true, true, true
				copy(t.line[1:], w.line[:])
				copy(t.age[1:], w.age[:])
				t.line[0], t.age[0] = n, old
			})
		}
	}
}

package exhaust

// world is one state of a scope. It has no pointers, so that states can be compared.
type world struct {
	redis
	clients  [clients]client
	attempts [numbers + 1]attempt
	late     [4]command // that are on their way, although nobody waits for a reply any more
	slow     pending
	peer     peer
	faults   uint8 // that have happened
	ends     uint8 // of contexts
	watch
}

// pending is a command that was carried out, whose reply comes late.
type pending struct {
	command
	reply
}

// peer is a thread of Redisson.
type peer struct {
	at    peerPoint
	heard bool // a release
	dead  bool
	timer uint8
	wants uint8
}

type peerPoint uint8

const (
	peerRests peerPoint = iota
	peerAsks
	peerWaits
	peerHolds
	peerEnds
)

// bugs are planted in the verbs.
type bugs struct {
	dropTurn      bool // a turn that comes after the end of its context is dropped
	newEarly      bool // an attempt enters the line before its subscription is confirmed
	forgetGrants  bool // a grant for nobody is ignored
	disownLeaving bool // so is not a grant for a number that is being released
	believeOld    bool // a grant is believed however old it is
	toldByAny     bool // any word that it is first has it wait for the others
	doubleAny     bool // a question that something has brought forward doubles the poll
	keepPoll      bool // an attempt that becomes the first one in its sleep sleeps on
	forgetOpen    bool // a command without a reply is forgotten
}

// game has the moves of a scope.
type game struct {
	*scope
	bugs      bugs
	server    *server
	emit      func(w *world, s step)
	due       bool // something happens before time passes
	full      bool // a list had no room, so that a state is not searched
	overflows int
	t         world
}

// step describes a move.
type step struct {
	what string
	who  uint8 // a number, or aClient and a client
	due  bool  // it happens before time passes
	cmd  command
	got  reply
	told message
}

const aClient = 100

func (w *world) of(n uint8) (*attempt, *client) { return &w.attempts[n], &w.clients[owners[n]] }

// owners are the clients of the numbers of the scope that is searched.
var owners [numbers + 1]uint8

// do emits a move, unless the state has no room for it.
func (g *game) do(w *world, s step, move func(t *world)) {
	g.t = *w
	move(&g.t)
	g.due = g.due || s.due
	if g.full {
		g.full = false
		g.overflows++
		return
	}
	g.emit(&g.t, s)
}

// fault emits a fault, if there may be one more, of this kind.
func (g *game) fault(w *world, k kinds, s step, move func(t *world)) {
	if w.faults < g.faults && g.kinds&k != 0 {
		g.do(w, s, func(t *world) { t.faults++; move(t) })
	}
}

// end emits the end of the context of an attempt.
func (g *game) end(w *world, n uint8, what string, move func(t *world)) {
	if w.ends < g.ends {
		g.do(w, step{what: what, who: n}, func(t *world) { t.ends++; move(t) })
	}
}

// execute runs a command, and returns what Redis replies.
func (g *game) execute(w *world, c command, draw int16) reply {
	out := g.server.run(&w.redis, c, draw)
	before := w.redis
	w.redis = out.redis
	w.executed(&before, c, out)
	for i, m := range out.told {
		switch to := out.to[i]; {
		case m.kind == 0:
		case to == clients:
			w.peer.heard = true
		case w.clients[to].conn == up:
			g.full = !push(w.clients[to].wire[:], m) || g.full
		default:
			w.lost(m)
		}
	}
	return out.reply
}

// sends emits what may come of a command that somebody sends, and waits for: each draw, and each fault.
func (g *game) sends(w *world, n uint8, what string, c command, done func(t *world, r reply)) {
	for _, draw := range draws {
		if draw == 0 || *g.server.run(&w.redis, c, 0) != *g.server.run(&w.redis, c, draw) {
			s := step{what: what, who: n, due: true, cmd: c, got: g.server.run(&w.redis, c, draw).reply}
			g.do(w, s, func(t *world) { done(t, g.execute(t, c, draw)) })
		}
	}
	g.fault(w, late, step{what: "FAULT: gets no reply, and " + what, who: n, cmd: c}, func(t *world) {
		t.excused = t.excused || c.script == renew
		g.overtakes(t, c)
		done(t, reply{err: true})
	})
	g.fault(w, twice, step{what: "FAULT: its command is carried out again later; it " + what, who: n, cmd: c}, func(t *world) {
		t.excused = t.excused || c.script == acquire || c.next != 0
		t.repeated = t.repeated || c.script == acquire && c.mode != modeAgain || c.next != 0
		g.overtakes(t, c)
		done(t, g.execute(t, c, 0))
	})
	if a := &w.attempts[n]; (a.at == asks || a.at == unlocks) && w.slow.number == 0 {
		g.fault(w, slow, step{what: "FAULT: gets its reply late, and " + what, who: n, cmd: c}, func(t *world) {
			t.slow = pending{c, g.execute(t, c, 0)}
			t.slow.open = a.open > passed
		})
	}
}

// replies emits a reply that comes late: within the timeout, or when its client goes on, which may take it for none then.
func (g *game) replies(w *world, n uint8, done func(t *world, r reply)) {
	tooLate := w.slow.age > timeout
	for _, r := range []reply{w.slow.reply, {err: true}} {
		if !r.err || tooLate {
			g.do(w, step{what: "gets a late reply", who: n, due: tooLate, cmd: w.slow.command, got: r}, func(t *world) {
				t.slow = pending{}
				done(t, r)
			})
		}
	}
}

// overtakes leaves a command on its way. Such commands have no order.
func (g *game) overtakes(w *world, c command) {
	i := 0
	for i < len(w.late) && w.late[i] != (command{}) && w.late[i].rank() < c.rank() {
		i++
	}
	if g.full = g.full || w.late[len(w.late)-1] != (command{}); !g.full {
		copy(w.late[i+1:], w.late[i:])
		w.late[i] = c
	}
}

func (c *command) rank() (n int) {
	for _, v := range []uint8{uint8(c.script), c.number, uint8(c.mode), c.next, uint8(c.left)} {
		n = n*8 + int(v)
	}
	for _, v := range []bool{c.leaves, c.prompt} {
		if n *= 2; v {
			n++
		}
	}
	return n
}

// next emits all that may follow. Time passes only if nothing is due.
func (g *game) next(w *world) {
	g.due = false
	for n := uint8(1); n <= g.last; n++ {
		if a, c := w.of(n); !c.dead && !c.paused {
			g.attempt(w, n, a, c)
			g.background(w, n, a)
		}
	}
	for c := range g.clients {
		g.client(w, uint8(c), &w.clients[c])
	}
	g.lateOnes(w)
	g.redisson(w)
	g.failover(w)
	if !g.due {
		g.do(w, step{what: "time passes"}, g.tick)
	}
}

// mayStart reports whether an attempt may begin: its goroutine has ended the one before, and equal clients begin in order.
func (g *game) mayStart(w *world, n uint8) bool {
	before, behind := g.before[n], g.behind[n]
	return (before == 0 || w.attempts[before].at == over) && (behind == 0 || w.attempts[behind].at != idle)
}

// attempt emits the moves of an attempt.
func (g *game) attempt(w *world, n uint8, a *attempt, c *client) {
	due := func(what string) step { return step{what: what, who: n, due: true} }
	switch a.at {
	case over:
	case idle:
		if g.mayStart(w, n) {
			g.do(w, step{what: "calls Acquire", who: n}, func(t *world) { g.acquire(t, n) })
		}
	case comeFirst:
		if a.turn != noTurn {
			g.do(w, due("gets its turn"), func(t *world) { g.gotTurn(t, n) })
		}
		if !a.gone {
			g.end(w, n, "ends its wait in the queue", func(t *world) { g.endsInQueue(t, n) })
		}
	case subscribed:
		if c.ready() || a.timer == 0 {
			g.do(w, due("has waited for its subscription"), func(t *world) { t.attempts[n].at, t.attempts[n].timer = asks, 0 })
		}
		g.end(w, n, "ends its wait for its subscription", func(t *world) { g.leave(t, n) })
	case asks:
		g.asks(w, n, c)
	case sleeps:
		if a.timer == 0 {
			g.do(w, due("wakes by its timer"), func(t *world) { g.timed(t, n) })
		}
		if m := c.inbox[0]; m.kind != 0 {
			g.do(w, step{what: "hears", who: n, due: true, told: m}, func(t *world) { g.hears(t, n, false) })
			if a.told && m.kind == free {
				g.do(w, step{what: "hears, after the head start", who: n, due: true, told: m}, func(t *world) { g.hears(t, n, true) })
			}
		}
		g.end(w, n, "ends its sleep", func(t *world) { g.leave(t, n) })
	case holds:
		g.do(w, step{what: "calls Unlock", who: n}, func(t *world) { g.unlock(t, n) })
		if a.deadline > 0 && a.deadline < lease && !a.stopped {
			g.sends(w, n, "renews", command{script: renew, number: n}, func(t *world, r reply) { g.renewed(t, n, r) })
			g.fault(w, stops, step{what: "FAULT: cannot renew any more", who: n}, func(t *world) {
				t.attempts[n].stopped, t.excused = true, true
			})
		}
	case unlocks:
		g.unlocks(w, n, a)
	}
}

// asks emits what may come of a question. If its context ends meanwhile, it is carried out soon, unless that is a fault, too.
func (g *game) asks(w *world, n uint8, c *client) {
	if c.back {
		g.end(w, n, "ends its standing back", func(t *world) { g.leave(t, n) })
		return
	}
	m := g.mode(w, n)
	ends := func(t *world) {
		g.asked(t, n, m, reply{err: true})
		g.leave(t, n)
	}
	if w.slow.number == n {
		m = w.slow.mode
		g.replies(w, n, func(t *world, r reply) { g.asked(t, n, m, r) })
		g.end(w, n, "ends its wait for a reply", func(t *world) { t.slow = pending{}; ends(t) })
		return
	}
	cmd := command{script: acquire, number: n, mode: m, left: soon + timeout}
	g.sends(w, n, "asks", cmd, func(t *world, r reply) { g.asked(t, n, m, r) })
	prompt := cmd
	prompt.prompt = true
	g.end(w, n, "ends its question", func(t *world) { g.overtakes(t, prompt); ends(t) })
	if w.ends < g.ends {
		g.fault(w, late, step{what: "FAULT: ends its question, which comes late", who: n}, func(t *world) {
			t.ends++
			g.overtakes(t, cmd)
			ends(t)
		})
	}
}

// unlocks emits what may come of the release of a hold.
func (g *game) unlocks(w *world, n uint8, a *attempt) {
	if w.slow.number == n {
		g.replies(w, n, func(t *world, r reply) { g.unlocked(t, n, r, false) })
		return
	}
	cmd := command{script: release, number: n, next: a.next}
	if a.next != 0 {
		cmd.left = soon + timeout
	}
	g.sends(w, n, "releases", cmd, func(t *world, r reply) { g.unlocked(t, n, r, true) })
	g.fault(w, late, step{what: "FAULT: gets no reply within the timeout, and releases", who: n, cmd: cmd}, func(t *world) {
		g.overtakes(t, cmd)
		g.unlocked(t, n, reply{err: true}, false)
	})
}

// background emits what a client does for an attempt that is over.
func (g *game) background(w *world, n uint8, a *attempt) {
	if a.sweep == sweepNow || a.sweep == sweepLater && a.open <= passed {
		g.sends(w, n, "is swept", command{script: release, number: n, leaves: true}, func(t *world, r reply) { g.sweep(t, n, r) })
	}
	if a.disown {
		g.sends(w, n, "is disowned", command{script: release, number: n}, func(t *world, r reply) { t.attempts[n].disown = r.err })
	}
}

package exhaust

// The verbs of internal/core as a state machine: same names, same order, same conditions. Where a goroutine of core blocks, a function here
// returns, and the attempt is at a point from which the search goes on. What no function here has is why it could not matter: errors other
// than a missing reply, replies that come late, clocks that are set, Close, and tokens.

const (
	firstPoll = 2 // ticks
	lastPoll  = 6 // shorter than core's, which needs fewer states
)

// point is where an attempt blocks.
type point uint8

const (
	idle       point = iota
	comeFirst        // in the queue of its process, or until a release has given it its turn
	subscribed       // until its subscription is confirmed
	asks             // a question is under way
	sleeps
	holds   // its caller has the lock
	unlocks // its release is under way
	over
)

// turn is how an attempt comes to be the one that asks.
type turn uint8

const (
	noTurn turn = iota // none yet
	askTurn
	stoodTurn
	holdTurn
)

// attempt is one acquisition.
type attempt struct {
	at       point
	turn     turn
	stood    bool
	first    bool
	listens  bool // it has a topic
	told     bool // just now that the others have their turn
	moved    bool // something has brought its question forward
	doubled  bool // its poll
	gone     bool // its context has ended while somebody gave it its turn
	disown   bool // a grant for nobody is released
	loser    bool // its grant was lost
	stopped  bool // its renewals fail
	owned    bool // it had the lock when its release began, just now
	granted  bool // while it was being released
	open     until
	sweep    sweeping
	next     uint8 // whom its release names
	timer    uint8 // ticks until it asks
	deadline uint8 // ticks until its hold is over
}

type sweeping uint8

const (
	notSwept sweeping = iota
	sweepNow
	sweepLater // when nothing of it can come any more
)

// client is a process.
type client struct {
	dead, paused bool
	back         bool // it leaves the lock to others
	conn         conn
	deaf         uint8 // ticks until it gives up a dead connection
	asks         uint8
	queue        [numbers - 1]uint8
	inbox        [6]message // of the one that asks
	wire         [7]message // on the way to it
}

// conn is the subscription of a client.
type conn uint8

const (
	off     conn = iota
	ordered      // SUBSCRIBE is under way
	up
	reconnects
	deaf // Redis counts it, but nothing arrives
)

// ready reports whether the topic is confirmed.
func (c *client) ready() bool { return c.conn == up || c.conn == deaf }

// acquire is Client.Acquire, and the beginning of attempt.try and of attempt.comeFirst.
func (g *game) acquire(w *world, n uint8) {
	a, c := w.of(n)
	if g.tries[n] {
		if a.at = asks; c.asks != 0 && w.attempts[c.asks].at == holds {
			a.end()
		}
		return
	}
	if c.asks == 0 {
		c.asks = n
		g.contend(w, n)
		return
	}
	a.at = comeFirst
	push(c.queue[:], n)
}

// gotTurn is the rest of comeFirst, when a release has given the attempt its turn.
func (g *game) gotTurn(w *world, n uint8) {
	a, _ := w.of(n)
	t := a.turn
	a.turn = noTurn
	if a.stood = a.stood || t == stoodTurn; a.gone {
		if a.gone = false; t == holdTurn {
			g.unlock(w, n)
		} else {
			g.leave(w, n)
		}
		return
	}
	if t == holdTurn {
		g.hold(w, n, a.deadline)
		return
	}
	g.contend(w, n)
}

// endsInQueue is comeFirst when its context ends.
func (g *game) endsInQueue(w *world, n uint8) {
	a, c := w.of(n)
	if take(c.queue[:], n) {
		a.at = over
		return
	}
	if a.gone = true; g.bugs.dropTurn {
		a.at, a.gone, a.turn, a.open, c.asks = over, false, noTurn, none, 0
	}
}

// contend is attempt.contend up to its first question.
func (g *game) contend(w *world, n uint8) {
	a, _ := w.of(n)
	if a.at = asks; a.stood {
		g.listen(w, n)
		g.subscribed(w, n)
	}
}

// listen is hub.listen.
func (g *game) listen(w *world, n uint8) {
	a, c := w.of(n)
	a.listens = true
	if c.conn == off {
		c.conn = ordered
	}
}

// subscribed is attempt.subscribed.
func (g *game) subscribed(w *world, n uint8) {
	if a, c := w.of(n); !c.ready() {
		a.at, a.timer = subscribed, firstPoll
	}
}

// mode is attempt.mode.
func (g *game) mode(w *world, n uint8) mode {
	a, c := w.of(n)
	switch {
	case a.stood:
		return modeAgain
	case a.listens && c.ready(), g.bugs.newEarly:
		return modeNew
	}
	return modeTry
}

// asked is what attempt.ask and attempt.contend do about a reply.
func (g *game) asked(w *world, n uint8, m mode, r reply) {
	a, _ := w.of(n)
	switch a.at = asks; {
	case r.err:
		if !g.bugs.forgetOpen {
			a.open = max(a.open, soon+timeout)
		}
		if a.stood = a.stood || m == modeNew; g.tries[n] {
			g.leave(w, n)
		}
		return
	case r.acquired && (lease-r.age)*4 < lease: // too late to rely on
		a.stood = true
		return
	case r.acquired:
		g.hold(w, n, lease-r.age)
		return
	}
	if a.open <= passed && !r.open {
		a.open = none
	}
	switch r.list[0] {
	case 0:
		if ghost := uint8(r.list[5]); ghost != 0 && !w.knows(ghost) {
			w.attempts[ghost].disown = true
		}
		a.stood, a.first = r.list[3] >= 0, r.list[3] == 0
	case -1:
		a.stood, a.first = false, false
		return
	default: // late
		return
	}
	if g.tries[n] {
		g.leave(w, n)
		return
	}
	if !a.listens {
		g.listen(w, n)
	}
	if !a.stood {
		g.subscribed(w, n)
		return
	}
	g.sleep(w, n, r.list[2])
}

// sleep is attempt.sleep up to its first select.
func (g *game) sleep(w *world, n uint8, ttl int16) {
	a, _ := w.of(n)
	a.at, a.told, a.moved = sleeps, false, false
	if a.timer = firstPoll; a.doubled && !a.first {
		a.timer = lastPoll
	}
	if ttl >= 0 && uint8(ttl) <= a.timer {
		a.timer, a.moved = uint8(ttl), true
	}
	if a.open > none && uint8(a.open-passed) <= a.timer {
		a.timer, a.moved = uint8(a.open-passed), true
	}
}

// timed is attempt.sleep when its timer ends.
func (g *game) timed(w *world, n uint8) {
	a, _ := w.of(n)
	a.doubled = a.doubled || !a.moved || g.bugs.doubleAny
	a.wake()
}

func (a *attempt) wake() { a.at, a.told, a.moved, a.timer, a.loser = asks, false, false, 0, false }

// hears is attempt.sleep with what lies in its inbox. Late says that the head start of the others, of which it was told just now, is over.
func (g *game) hears(w *world, n uint8, late bool) {
	a, c := w.of(n)
	m, end := shift(c.inbox[:]), a.timer
	switch m.kind {
	case granted:
		if g.bugs.believeOld {
			m.age = 0
		}
		if m.age*4 > m.term {
			a.wake()
			return
		}
		g.hold(w, n, m.term-m.age)
	case askAgain:
		a.wake()
	case first:
		if a.first = true; m.term == 0 || g.bugs.toldByAny {
			a.told = true
		}
		if a.timer = min(a.timer, m.term); !g.bugs.keepPoll {
			a.timer = min(a.timer, firstPoll)
		}
	case free:
		switch {
		case a.told && !late:
		case a.first:
			a.wake()
		default:
			a.timer = 0 // within 50 to 150 ms
		}
	}
	a.moved = a.at == sleeps && (a.moved || a.timer < end)
}

// hold is attempt.hold.
func (g *game) hold(w *world, n, deadline uint8) {
	a, c := w.of(n)
	*a = attempt{at: holds, deadline: deadline, open: a.open, sweep: a.sweep, disown: a.disown}
	if c.asks == n {
		c.inbox = [6]message{}
	}
}

// renewed is watchdog.renew.
func (g *game) renewed(w *world, n uint8, r reply) {
	a, _ := w.of(n)
	switch {
	case r.err:
	case r.list[0] == 0:
		a.deadline = 0
	default:
		a.deadline = lease
	}
}

// leave is attempt.leave.
func (g *game) leave(w *world, n uint8) {
	a, c := w.of(n)
	doubt := a.stood || a.open != none || c.asks == n && c.inbox[0].kind != 0
	next := g.retire(w, n)
	if a.end(); next != 0 {
		w.attempts[next].turn = askTurn
	}
	if doubt {
		a.sweep = sweepNow
	}
}

// end forgets what only its goroutine needs.
func (a *attempt) end() { *a = attempt{at: over, open: a.open, sweep: a.sweep, disown: a.disown} }

// retire is attempt.retire.
func (g *game) retire(w *world, n uint8) uint8 {
	_, c := w.of(n)
	if c.asks != n {
		return 0
	}
	c.asks, c.inbox = shift(c.queue[:]), [6]message{}
	return c.asks
}

// sweep is Client.sweep with the reply to a release.
func (g *game) sweep(w *world, n uint8, r reply) {
	a, _ := w.of(n)
	switch {
	case r.err:
	case a.open <= passed:
		a.open, a.sweep = none, notSwept
	default:
		a.sweep = sweepLater
	}
}

// knows is name.knows.
func (w *world) knows(n uint8) bool {
	a, c := w.of(n)
	return c.asks == n || a.at >= asks && a.at <= unlocks
}

// unlock is Hold.Unlock up to its release.
func (g *game) unlock(w *world, n uint8) {
	a, _ := w.of(n)
	a.next = g.retire(w, n)
	a.at, a.owned, a.deadline, a.stopped = unlocks, a.deadline > 0, 0, false
}

// unlocked is the rest of Hold.Unlock. If there is no reply, more says that there is time for another release.
func (g *game) unlocked(w *world, n uint8, r reply, more bool) {
	a, c := w.of(n)
	if a.next != 0 {
		g.turnOf(w, a.next, r)
		a.next = 0
	}
	if r.err && more {
		a.owned = false // it is in doubt what the release has done
		return
	}
	swept := r.err || a.open != none || a.granted
	w.took = w.took || a.owned && !r.err && r.list[0] == 0
	if !r.err && r.list[0] == 2 {
		c.back = true
	}
	if a.end(); swept {
		a.sweep = sweepNow
	}
}

// turnOf is attempt.turnOf.
func (g *game) turnOf(w *world, n uint8, r reply) {
	a, _ := w.of(n)
	switch {
	case r.err:
		a.turn, a.open = askTurn, soon+timeout
	case r.list[2] == 2:
		a.turn, a.deadline = holdTurn, lease-r.age
	case r.list[2] == 1:
		a.turn = stoodTurn
	default:
		a.turn = askTurn
	}
}

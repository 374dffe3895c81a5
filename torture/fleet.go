package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A fleet is many processes that want the same few names. In each process, one or two goroutines want each name.

// The names of a fleet. Peers of Redisson want the plain one and the calm one.
const (
	fleetPlain  = "fleet"
	fleetFenced = "fleet-fenced"
	fleetFair   = "fair-fleet"
	// All that want the calm name wait without a limit, so that no newcomer hides that nobody was notified. Somebody listens to
	// its channel who never takes it.
	fleetCalm = "fleet-calm"
	// All want this name at the same moment, again and again, and wait without a limit. Between its rounds no newcomer comes by who
	// could find it free. Somebody listens to its channel who never takes it.
	fleetRounds = "fleet-rounds"
)

// round is how long after each other all want the name that is wanted in rounds.
const round = 400 * time.Millisecond

func fleetMix() []Share {
	return []Share{
		{kindLock, 1, []string{fleetPlain}},
		{kindFenced, 1, []string{fleetFenced}},
		{kindFair, 1, []string{fleetFair}},
		{kindLock, 1, []string{fleetCalm}},
		{kindLock, 1, []string{fleetRounds}},
	}
}

// drawFleet draws a turn of a fleet. Each worker has its own name, so that every process has waiters for every name.
func (w *worker) drawFleet() plan {
	r := w.random
	p := plan{share: w.Mix[w.number%len(w.Mix)], verb: verbAcquire, depth: 1, release: releaseOnce}
	p.names = p.share.Names[:1]
	p.hold = time.Duration(r.IntN(int(5 * time.Millisecond)))
	switch {
	case p.names[0] == fleetRounds:
		p.rest = round - time.Duration(now())%round
	case p.names[0] != fleetCalm && r.IntN(2) == 0:
		p.wait = time.Duration(1+r.IntN(40)) * time.Millisecond
	}
	if r.IntN(10) == 0 {
		p.verb = verbDo
	}
	return p
}

// fleetForms are the forms of the processes of a fleet, in turn.
var fleetForms = []string{formPlain, formPipelined, formNoPassing}

// muster starts the processes of a fleet.
func (a *Arena) muster() {
	a.tb.Helper()
	for i := range a.scene.Fleet {
		a.spawn(fleetForms[i%len(fleetForms)], len(a.scene.Mix)*(1+i%2))
	}
}

// hire starts the peers of a fleet, which end with ctx.
func (a *Arena) hire(ctx context.Context) (all []<-chan struct{}) {
	if a.scene.Fleet == 0 {
		return nil
	}
	all = append(all, a.hireJava(ctx, fleetPlain, 0), a.hireJava(ctx, fleetCalm, 30*time.Millisecond))
	return append(all, a.hireListener(ctx, fleetCalm), a.hireListener(ctx, fleetRounds))
}

// holds reports whether a client of a site has one of the names of the scene in Redis.
func (a *Arena) holds(site string) bool {
	ids := a.collector.clientsOf(site)
	for _, node := range a.masters() {
		for _, share := range a.scene.Mix {
			for _, field := range a.admins[node].HKeys(context.Background(), share.Names[0]).Val() {
				if slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(field, id) }) {
					return true
				}
			}
		}
	}
	return false
}

// cut closes all subscriptions, once.
func cut(a *Arena, _ *rand.Rand, _ *Event) {
	for _, node := range a.masters() {
		_ = a.admins[node].Do(context.Background(), "client", "kill", "type", "pubsub").Err()
	}
}

// killWaiter kills a process, most likely one that waits, and starts another in its place. Redis then says whether the process
// had a lock.
func killWaiter(a *Arena, r *rand.Rand, e *Event) {
	i := r.IntN(len(a.children))
	c := a.children[i]
	e.Site, e.Killed, e.What = c.site.Name, true, c.site.Name
	c.kill()
	e.To = now()
	for e.To.Add(20*time.Millisecond) > now() && !e.Held {
		e.Held = a.holds(c.site.Name)
	}
	if e.Held {
		e.What += ", which had a lock"
	}
	a.children = append(a.children[:i], a.children[i+1:]...)
	a.spawn(c.site.Form, c.site.Workers)
}

// stopWaiter stops a process that has no lock, and lets it go on later.
func stopWaiter(a *Arena, r *rand.Rand, e *Event) {
	for range 20 {
		c := a.children[r.IntN(len(a.children))]
		e.From = now()
		c.signal(syscall.SIGSTOP)
		wait(2 * time.Millisecond) // what it sent arrives
		if a.holds(c.site.Name) {
			c.signal(syscall.SIGCONT)
			wait(5 * time.Millisecond)
			continue
		}
		d := 500*time.Millisecond + time.Duration(r.Int64N(int64(watchdogTimeout*3/2)))
		wait(d)
		c.signal(syscall.SIGCONT)
		e.Site, e.To, e.What = c.site.Name, now().Add(watchdogTimeout), fmt.Sprintf("%s for %v", c.site.Name, d)
		return
	}
	e.What = "nobody: every process had a lock"
}

// How long a name that somebody wants may be free: the time of a hand-off, and more for each strike. The machine's stalls come
// on top.
const (
	handsOff     = 100 * time.Millisecond
	passesOver   = 100 * time.Millisecond                 // a dead waiter
	resubscribes = 300 * time.Millisecond                 // after all subscriptions were cut
	termEnds     = watchdogTimeout + 200*time.Millisecond // a stopped waiter, or a dead holder: once
	refreshes    = fairWait/3 + 200*time.Millisecond      // the same, for each of its waiters in the queue of a fair lock
	recovers     = watchdogTimeout + commandTimeout       // after other trouble: a poll
	javaWaits    = time.Second                            // the peer's turn in a fleet that nothing strikes
	spreadsBy    = 4                                      // the most turns of a process to the least
)

// fleet checks that in a fleet nobody sleeps while a name is free, that the turns are spread over the processes, and that
// Redisson's peer gets its share.
func (c *checker) fleet() {
	if c.Scene.Fleet == 0 {
		return
	}
	for _, share := range c.Scene.Mix {
		name := share.Names[0]
		c.sleepers(name)
		c.spread(name)
	}
	c.javas(fleetPlain)
}

// gap is a time in which nobody believed to hold a name, and somebody wanted it from before its beginning to after its end.
type gap struct {
	from, to Moment
	wanted   int   // living waiters
	next     *Turn // who got it
}

func (g gap) long() time.Duration { return g.to.Sub(g.from) }

// gaps returns the gaps of a name, in order.
func (c *checker) gaps(name string) []gap {
	turns := c.names[name]
	granted := slices.DeleteFunc(slices.Clone(turns), func(t *Turn) bool { return t.Answer != got })
	slices.SortFunc(granted, func(a, b *Turn) int { return int(a.Answered - b.Answered) })
	var gaps []gap
	var end Moment
	for _, t := range granted {
		if g := (gap{from: end, to: t.Answered, next: t}); end != 0 && g.to > g.from && g.to < c.Stop {
			for _, w := range turns { // sorted by Asked
				if w.Asked > g.from {
					break
				}
				if w.Answered >= g.to && !c.stopped(w.Site, g.from, g.to) {
					g.wanted++
				}
			}
			if g.wanted > 0 {
				gaps = append(gaps, g)
			}
		}
		switch {
		case t.Unlock == got, t.ByDo: // of Do, nobody knows whether Redis confirmed the unlock; mostly it did
			end = max(end, t.Unlocked)
		case t.Unlocked != 0:
			end = max(end, c.freed(t))
		default: // its process was killed
			end = max(end, t.Last)
		}
	}
	return gaps
}

func (c *checker) sleepers(name string) {
	spent := make(map[Moment]bool)
	for _, g := range c.gaps(name) {
		c.Figures.Gaps = append(c.Figures.Gaps, g.long())
		stop := once
		if name == fleetFair { // each waiter of a process stands in the queue of a fair lock
			spent, stop = nil, func(site string) time.Duration {
				return refreshes * time.Duration(max(c.waiters(name, site, g.from), 1))
			}
		}
		limit, why := c.mayBeFree(g.from, g.to, handsOff, stop, spent)
		if g.long() > limit {
			c.brokenf("lost wake-up: nobody had %s for %v at %.3f s, more than %v (%s), although %d living waiters wanted it, until %v",
				name, g.long(), g.from.Sub(c.Start).Seconds(), limit, why, g.wanted, g.next)
		}
	}
}

// once is what a process that is stopped costs where it stands only once.
func once(string) time.Duration { return termEnds }

// waiters returns how many workers of a site wanted a name at a moment.
func (c *checker) waiters(name, site string, at Moment) (n int) {
	for _, t := range c.names[name] {
		if t.Site == site && t.Asked <= at && t.Answered > at {
			n++
		}
	}
	return n
}

// mayBeFree returns for how long a name may be free that somebody wants, and why, if it was free between two moments. Each
// strike within that time moves the deadline; a later one is no excuse. stop is what the stopped process of a site costs,
// when the name is given to it. spent has the strikes whose price was paid before. Nil means that it costs that each time.
func (c *checker) mayBeFree(
	from, to Moment, within time.Duration, stop func(site string) time.Duration, spent map[Moment]bool,
) (limit time.Duration, why string) {
	deadline := from.Add(within + c.noise + c.slow(from, to))
	var all []string
	counted := make(map[Moment]bool) // by the beginning of the strike
	for again := true; again; {
		again = false
		for _, e := range c.Events {
			if counted[e.From] || e.From > deadline {
				continue
			}
			var until Moment
			switch {
			case e.Lost != "" || e.Client != "" || e.is(n26StopWaiter) && e.Site == "":
				continue // this delays nobody
			case e.is(n24Cut) || e.is(n8KillPubSub):
				until = e.To.Add(resubscribes + handsOff + c.noise)
			case e.is(n25KillWaiter) && !e.Held:
				if e.To.Add(time.Second) > from {
					until = deadline.Add(passesOver)
				}
			case e.Killed:
				until = e.To.Add(termEnds + handsOff + c.noise)
			case e.Site == "":
				until = e.To.Add(recovers)
			case e.To > from && to > deadline && !spent[e.From]:
				until = deadline.Add(stop(e.Site))
				if spent != nil {
					spent[e.From] = true
				}
			}
			if until > deadline {
				deadline, counted[e.From], again = until, true, true
				all = append(all, e.What)
			}
		}
	}
	if all == nil {
		return deadline.Sub(from), "nothing struck"
	}
	return deadline.Sub(from), strings.Join(all, ", ")
}

// steady returns the turns on a name that got it while the whole fleet worked.
func (c *checker) steady(name string) []*Turn {
	return slices.DeleteFunc(slices.Clone(c.names[name]), func(t *Turn) bool {
		return t.Answer != got || t.Answered < c.Start.Add(time.Second) || t.Answered > c.Stop
	})
}

// spread checks that each process gets about as many turns as any other, unless something strikes them.
func (c *checker) spread(name string) {
	counts := make(map[string]int)
	for site := range c.Clients {
		if !isJava(site) {
			counts[site] = 0
		}
	}
	for _, t := range c.steady(name) {
		if !isJava(t.Site) {
			counts[t.Site]++
		}
	}
	least, most := 1<<30, 0
	for _, n := range counts {
		least, most = min(least, n), max(most, n)
	}
	if len(c.Scene.Nemeses) > 0 {
		return
	}
	c.Figures.Spread = append(c.Figures.Spread, fmt.Sprintf("%s %d to %d", name, least, most))
	if most > spreadsBy*least {
		c.brokenf("even turns: of the processes that wanted %s all the time, one had %d turns and another %d: %v", name, least, most, counts)
	}
}

// javas checks that Redisson's peer gets at least half of the share of one process, and that it does not sleep until its hint is
// over.
func (c *checker) javas(name string) {
	turns := c.steady(name)
	mine := 0
	for _, t := range turns {
		if isJava(t.Site) {
			mine++
		}
	}
	processes := c.Scene.Fleet + 1 // and this one
	c.Figures.Java = append(c.Figures.Java, fmt.Sprintf("%d of %d turns in a fleet of %d", mine, len(turns), processes))
	if mine*(processes+1)*2 < len(turns) {
		c.brokenf("Redisson: a peer had %d of %d turns, less than half of the share of one of %d processes", mine, len(turns), processes)
	}
	for _, t := range c.names[name] {
		if !isJava(t.Site) || t.Answer != got || t.Answered > c.Stop {
			continue
		}
		limit, why := c.mayBeFree(t.Asked, t.Answered, javaWaits, once, nil)
		c.Figures.JavaWaits = append(c.Figures.JavaWaits, t.Answered.Sub(t.Asked))
		if t.Answered.Sub(t.Asked) > limit {
			c.brokenf("Redisson: a peer waited for %v, more than %v (%s): %v", t.Answered.Sub(t.Asked), limit, why, t)
		}
	}
	for _, p := range c.Parks {
		if !p.ByTime {
			continue
		}
		c.Figures.Overslept++
		if c.struck(p.From.Add(-time.Second), p.To) == 0 && p.To < c.Stop {
			c.brokenf("Redisson: a peer slept until its hint of %v was over, from %.3f s on", p.Hint, p.From.Sub(c.Start).Seconds())
		}
	}
}

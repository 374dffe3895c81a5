package scene

import (
	"math/rand/v2"
	"slices"
	"time"
)

// What owners seldom do, but in some scenes often: a fault has to strike it, and then something else has to happen.
const (
	leanLeases     = "leases"     // a lease that is not renewed
	leanParks      = "parks"      // AtLeast
	leanTickets    = "tickets"    // Export and Adopt
	leanReentries  = "re-entries" // the owner acquires a second time
	leanExtensions = "extensions"
	leanWaits      = "waits" // of a few round trips
)

var leans = []string{leanLeases, leanParks, leanTickets, leanReentries, leanExtensions, leanWaits}

// aim is how many times as often faults strike the commands of what is done seldom, in scenes that aim at these.
const aim = 5

// drawLeans draws what owners do often, whether faults aim at commands that are sent seldom, and whether things happen at round moments.
func (s *Scene) drawLeans(r *rand.Rand) {
	if r.IntN(2) == 0 {
		all := slices.Clone(leans)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		s.Leans = all[:1+r.IntN(2)]
	}
	if r.IntN(2) == 0 {
		s.Faults.Aim = aim
	}
	if r.IntN(4) == 0 {
		s.Grid = logarithmic(r, 5*time.Millisecond, 200*time.Millisecond).Round(time.Millisecond)
	}
}

// What an owner does with its hold, if what it drew of a hundred is at least this. Below ticketsFrom, it parks the lock.
const (
	ticketsFrom = 3
	againFrom   = 8
	extendsFrom = 16
	extendsTo   = 21
)

// leans draws what an owner does with its hold, of a hundred: what the scene leans to every second time.
func (w *worker) leans(k int) int {
	least := map[string]int{leanParks: 0, leanTickets: ticketsFrom, leanReentries: againFrom, leanExtensions: extendsFrom}
	var to []int
	for _, l := range w.Leans {
		if from, ok := least[l]; ok {
			to = append(to, from)
		}
	}
	if len(to) == 0 || w.one(2) {
		return k
	}
	return to[w.random.IntN(len(to))]
}

// cutsItFine has an owner, in a scene that leans to both, unlock just before its lease is over a lock that is to be kept for longer: if that has to
// be sent twice, the lock may be free in between.
func (w *worker) cutsItFine(p *plan) {
	if p.lease > 0 && slices.Contains(w.Leans, leanParks) && slices.Contains(w.Leans, leanLeases) && w.one(2) {
		p.hold, p.atLeast = max(p.lease-p.lease/50-w.upTo(10*w.Faults.Latency+10*time.Millisecond), 0), p.lease+p.atLeast
	}
}

// hastens has a call wait for a few round trips only, in a scene that leans to that, so that its questions are under way when it ends. On a grid,
// it waits until a round moment.
func (w *worker) hastens(p *plan) {
	if slices.Contains(w.Leans, leanWaits) && w.one(3) {
		p.try, p.wait, p.deadline, p.cancel = false, time.Millisecond+w.upTo(8*max(w.Faults.Latency, w.Grid)), 0, 0
	}
	for _, limit := range []*time.Duration{&p.wait, &p.deadline} {
		if w.Grid > 0 && *limit > 0 {
			*limit = limit.Truncate(w.Grid) + w.Grid
		}
	}
}

// onGrid returns a duration, or a longer one, after which it is a round moment in a scene on a grid: an owner unlocks then, another one comes,
// and a third one gives up, in any order.
func (r *run) onGrid(d time.Duration) time.Duration {
	if r.Grid == 0 {
		return d
	}
	end := time.Since(r.trace.Began) + d
	return d + (r.Grid-end%r.Grid)%r.Grid
}

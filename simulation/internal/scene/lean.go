package scene

import (
	"math/rand/v2"
	"slices"
)

// What owners seldom do, but in some scenes often: a fault has to strike it, and then something else has to happen.
const (
	leanLeases     = "leases"     // a lease that is not renewed
	leanParks      = "parks"      // AtLeast
	leanTickets    = "tickets"    // Export and Adopt
	leanReentries  = "re-entries" // the owner acquires a second time
	leanExtensions = "extensions"
)

var leans = []string{leanLeases, leanParks, leanTickets, leanReentries, leanExtensions}

// aim is how many times as often faults strike the commands of what is done seldom, in scenes that aim at these.
const aim = 5

// drawLeans draws what owners do often, and whether faults aim at commands that are sent seldom.
func (s *Scene) drawLeans(r *rand.Rand) {
	if r.IntN(2) == 0 {
		all := slices.Clone(leans)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		s.Leans = all[:1+r.IntN(2)]
	}
	if r.IntN(2) == 0 {
		s.Faults.Aim = aim
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

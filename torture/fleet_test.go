package torture

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// rounds returns turns of two processes on the fleet's plain lock, of 10 ms each, in turn. Each waits while the other one has
// the lock.
func rounds(from, to int64) []*Turn {
	var turns []*Turn
	for at := from; at < to; at += 10 {
		turns = append(turns, use(at, kindLock, fleetPlain, max(at-10, 1), at, at+9).with(func(t *Turn) {
			t.Site = []string{"site1", "site2"}[at/10%2]
		}))
	}
	return turns
}

// TestFleetCheckersBite does what [TestCheckersBite] does, for fleets.
func TestFleetCheckersBite(t *testing.T) {
	scene := Scene{Topology: topologySingle, Fleet: 1, Safe: true, Mix: fleetMix()[:1]}
	clients := map[string][]string{"site1": {"a"}, "site2": {"b"}, javaSite: {"c"}}
	fleet := func(turns []*Turn, events ...Event) History {
		scene := scene
		if len(events) > 0 {
			scene.Nemeses = []string{n24Cut}
		}
		return History{Scene: scene, Stop: ms(9000), Turns: turns, Events: events, Clients: clients}
	}
	// A pause in the turns, with a waiter from before its beginning.
	pausing := func(d int64) []*Turn {
		after := rounds(2000+d, 4000+d)
		after[0].Asked = ms(1990)
		return slices.Concat(rounds(10, 2000), after)
	}
	java := func(every int) []*Turn {
		turns := rounds(10, 4000)
		for i, t := range turns {
			if i%every == 0 {
				t.Site, t.Kind = javaSite, kindJava
			}
		}
		return turns
	}
	at := func(from, to int64, what string) Event {
		return Event{From: ms(from), To: ms(to), What: what + " site3"}
	}
	kill := func(held bool) Event {
		e := at(2000, 2000, n25KillWaiter)
		e.Site, e.Killed, e.Held = "site3", true, held
		return e
	}
	stop := at(2000, 6000, n26StopWaiter)
	stop.Site = "site3"
	twice := func() []*Turn {
		after := rounds(7500, 8000)
		after[0].Asked = ms(4900)
		return slices.Concat(pausing(2900)[:200], after)
	}
	for _, c := range []struct {
		promise    string
		good, evil History
	}{
		{"lost wake-up: nobody had fleet", fleet(pausing(90)), fleet(pausing(150))},
		{"lost wake-up: nobody had fleet", fleet(pausing(350), at(2000, 2001, n24Cut)), fleet(pausing(450), at(2000, 2001, n24Cut))},
		{"lost wake-up: nobody had fleet", fleet(pausing(180), kill(false)), fleet(pausing(250), kill(false))},
		{"lost wake-up: nobody had fleet", fleet(pausing(3200), kill(true)), fleet(pausing(3400), kill(true))},
		{"lost wake-up: nobody had fleet", fleet(pausing(3200), stop), fleet(pausing(3400), stop)},
		{"lost wake-up: nobody had fleet", fleet(pausing(3200), stop), fleet(twice(), stop)},
		{
			"even turns: of the processes",
			fleet(rounds(10, 4000)),
			fleet(slices.DeleteFunc(rounds(10, 4000), func(t *Turn) bool { return t.Site == "site1" && t.ID%100 != 0 })),
		},
		{"Redisson: a peer had", fleet(java(6)), fleet(java(7))},
		{
			"Redisson: a peer waited",
			fleet(java(5)), fleet(append(java(5), use(1, kindJava, fleetPlain, 4000, 5200, 5210).with(func(t *Turn) { t.Site = javaSite }))),
		},
	} {
		breaks(t, c.promise, c.good, c.evil)
	}
	slept := fleet(java(5))
	slept.Parks = []park{{From: ms(2000), To: ms(2300), Hint: 300 * time.Millisecond, ByTime: true}}
	breaks(t, "Redisson: a peer slept", fleet(java(5)), slept)
	if broken := Check(&slept).Broken; !strings.Contains(broken[0], "slept") {
		t.Error(broken)
	}
}

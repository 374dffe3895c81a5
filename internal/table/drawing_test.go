package table

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// drawing is a drawing of states in docs/architecture.md.
type drawing struct {
	heading string
	states  []string        // in the order of the constants, which a test of the document checks
	arrows  map[[2]int]bool // from a state to a state
	untaken map[[2]int]bool // the arrows that no schedule has taken so far
	undrawn map[[2]int]bool // the transitions that have no arrow
}

// readDrawing reads the drawing under a heading.
func readDrawing(t *testing.T, heading string) *drawing {
	t.Helper()
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	d := &drawing{heading: heading, arrows: make(map[[2]int]bool), undrawn: make(map[[2]int]bool)}
	at := func(state string) int {
		if state == "[*]" {
			return -1
		}
		if !slices.Contains(d.states, state) {
			d.states = append(d.states, state)
		}
		return slices.Index(d.states, state)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +(\S+) --> (\w+|\[\*\])`).FindAllStringSubmatch(section, -1) {
		if from, to := at(m[1]), at(m[2]); from >= 0 && to >= 0 {
			d.arrows[[2]int{from, to}] = true
		}
	}
	if !found || len(d.arrows) == 0 {
		t.Fatalf("there is no drawing under %q", heading)
	}
	d.untaken = maps.Clone(d.arrows)
	return d
}

// took notes a transition.
func (d *drawing) took(from, to int) {
	if arrow := [2]int{from, to}; from == to || d.arrows[arrow] {
		delete(d.untaken, arrow)
	} else {
		d.undrawn[arrow] = true
	}
}

// drawings follows the attempts, the exits and the grants of a world.
type drawings struct {
	attempt, exit, grant *drawing
	phases               map[*Attempt]phase
	exits                map[*Exit]exitPhase
	stages               map[*Grant]stage
}

// follow runs a schedule. After each action it looks at everything that the action may have changed.
func (d *drawings) follow(choices []uint32) {
	w := newWorld(choices[0])
	d.phases, d.exits, d.stages = make(map[*Attempt]phase), make(map[*Exit]exitPhase), make(map[*Grant]stage)
	for _, c := range choices[1:] {
		if w.act(c) {
			d.look(w)
		}
	}
}

func (d *drawings) look(w *world) {
	for _, v := range w.verbs {
		d.phases[v.a] += 0 // an attempt begins as claiming
	}
	for _, e := range w.exits {
		if _, known := d.exits[e.x]; !known && e.x.background {
			d.exits[e.x] = pausing
		}
		d.exits[e.x] += 0 // an unlock begins as turning
	}
	for _, g := range w.grants {
		d.stages[g] += 0 // a grant begins as pending
	}
	for a, before := range d.phases {
		d.attempt.took(int(before), int(a.phase))
		d.phases[a] = a.phase
	}
	for x, before := range d.exits {
		d.exit.took(int(before), int(x.phase))
		d.exits[x] = x.phase
	}
	for g, before := range d.stages {
		d.grant.took(int(before), int(g.stage))
		d.stages[g] = g.stage
	}
}

// TestTransitionsAreDrawn checks that attempts, exits and grants make exactly the transitions that docs/architecture.md
// draws: none that is not drawn, and each that is.
func TestTransitionsAreDrawn(t *testing.T) {
	t.Parallel()
	d := &drawings{
		attempt: readDrawing(t, "The phases of an attempt"),
		exit:    readDrawing(t, "The phases of an exit"),
		grant:   readDrawing(t, "The states of a grant"),
	}
	const fewest, most = 2000, 80000
	seed := uint64(1)
	for ; seed <= fewest || seed <= most && len(d.attempt.untaken)+len(d.exit.untaken)+len(d.grant.untaken) > 0; seed++ {
		d.follow(scheduleOf(seed))
	}
	t.Logf("%d schedules", seed-1)
	for _, one := range []*drawing{d.attempt, d.exit, d.grant} {
		for arrow := range one.undrawn {
			t.Errorf("%s: %s --> %s has no arrow", one.heading, one.states[arrow[0]], one.states[arrow[1]])
		}
		for arrow := range one.untaken {
			t.Errorf("%s: no schedule takes the arrow %s --> %s", one.heading, one.states[arrow[0]], one.states[arrow[1]])
		}
	}
}

// Package exhaust searches all states of small scopes of the plain lock of internal/core: a few clients that want the lock once or twice,
// maybe beside a Redisson, with every order of commands, replies and messages, some faults, and ends of contexts. The scripts run as they
// are sent, each input once; the clients are the state machine of verbs.go, which mirrors acquire.go and release.go of core.
//
// What takes milliseconds happens in any order, before time passes. What a fault has delayed may happen at any time. The file promises.go
// says what must never be.
package exhaust

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// kinds are those of faults.
type kinds uint16

const (
	late   kinds = 1 << iota // a command gets no reply, and is carried out later or never
	twice                    // a command is carried out again later; a message comes twice
	lose                     // a message is lost
	cut                      // a subscription is cut, cleanly or half-open
	pause                    // a process stands still
	die                      // a process dies
	stops                    // a hold is not renewed any more
	forget                   // a failover loses a place in the line, or brings one back
	slow
	every = 1<<9 - 1
)

// scope is how much is searched.
type scope struct {
	name    string
	clients int
	last    uint8              // number
	owner   [numbers + 1]uint8 // the client of each number
	before  [numbers + 1]uint8 // the number before it of the same goroutine
	behind  [numbers + 1]uint8 // the number that begins before it: equal clients, and equal goroutines, begin in order
	tries   [numbers + 1]bool  // numbers that do not wait for others
	peer    uint8              // how often Redisson wants the lock
	faults  uint8              // how many happen at most
	ends    uint8              // of contexts
	kinds   kinds
}

// parse reads a scope: clients with a plus between them, each of which has a letter for each of its goroutines: how many turns it takes, or
// t if it tries once. R and a number are a Redisson, and its turns. In "2t+1+R1" the first of two clients has two goroutines.
func parse(text string) *scope {
	s := &scope{name: text, kinds: every}
	earlier, its := "", uint8(0) // the client before, and its first number
	for part := range strings.SplitSeq(text, "+") {
		if part[0] == 'R' {
			s.peer = part[1] - '0'
			continue
		}
		begin := s.last + 1
		if part == earlier {
			s.behind[begin] = its
		}
		for i := range len(part) {
			if i > 0 && part[i] == part[i-1] {
				s.behind[s.last+1] = its
			}
			its = s.last + 1
			turns := part[i] - '0'
			if part[i] == 't' {
				turns, s.tries[its] = 1, true
			}
			for range turns {
				s.last++
				if s.owner[s.last] = uint8(s.clients); s.last > its {
					s.before[s.last] = s.last - 1
				}
			}
		}
		earlier, its = part, begin
		s.clients++
	}
	return s
}

// found is what a search finds.
type found struct {
	States, Inputs, Overflows int
	Whole                     bool                // all states were visited
	Broken                    map[string][]string // promises, and the shortest trace to each
}

// plant is a bug to plant: in the text of a script, or in the verbs.
type plant struct {
	edits []string // old and new texts
	bugs  bugs
}

// newGame returns the moves of a scope with a planted bug.
func newGame(s *scope, p plant) *game {
	fits := make(map[string]bool)
	g := &game{scope: s, bugs: p.bugs, server: newServer(s.owner, func(text string) string {
		for i := 0; i < len(p.edits); i += 2 {
			fits[p.edits[i]] = fits[p.edits[i]] || strings.Contains(text, p.edits[i])
			text = strings.ReplaceAll(text, p.edits[i], p.edits[i+1])
		}
		return text
	})}
	for old, ok := range fits {
		if !ok {
			panic("no script has " + old)
		}
	}
	return g
}

// search visits the states of a scope, the nearest first, up to a limit. It ends at the first broken promise, if it shall find only one.
func search(s *scope, p plant, limit int, one bool) *found {
	owners = s.owner
	g := newGame(s, p)
	res := &found{Whole: true, Broken: make(map[string][]string)}
	seed, seen := maphash.MakeSeed(), make(map[uint64]struct{})
	begin := node{world: world{peer: peer{wants: s.peer}}}
	seen[maphash.Comparable(seed, begin.world)] = struct{}{}
	origins, broken := []origin{{}}, make(map[string]uint32)
	now, then := []node{begin}, []node(nil)
	var from origin
	g.emit = func(w *world, _ step) {
		from.move++
		h := maphash.Comparable(seed, *w)
		if _, ok := seen[h]; ok {
			return
		}
		seen[h] = struct{}{}
		id := uint32(len(origins))
		origins = append(origins, from)
		if what := g.broken(w); what == "" {
			then = append(then, node{*w, id})
		} else if broken[what] == 0 {
			broken[what] = id
		}
	}
	for len(now) > 0 && res.Whole && (!one || len(broken) == 0) {
		for k := 0; k < len(now) && res.Whole; k++ {
			from = origin{of: now[k].id}
			g.next(&now[k].world)
			res.Whole = len(origins) <= limit
		}
		now, then = then, now[:0]
	}
	res.States, res.Inputs, res.Overflows = len(origins), len(g.server.memory), g.overflows
	for what, id := range broken {
		var moves []uint16
		for ; id != 0; id = origins[id].of {
			moves = append(moves, origins[id].move)
		}
		res.Broken[what] = g.trace(begin.world, moves)
	}
	return res
}

// node is a state to go on from.
type node struct {
	world
	id uint32
}

// origin is how the search came to a state.
type origin struct {
	of   uint32
	move uint16
}

// trace plays moves, the last of which comes first, and describes them.
func (g *game) trace(w world, moves []uint16) (trace []string) {
	for _, move := range slices.Backward(moves) {
		var then world
		i := uint16(0)
		g.emit = func(t *world, s step) {
			if i++; i == move {
				then = *t
				trace = append(trace, g.describe(s, t))
			}
		}
		g.next(&w)
		w = then
	}
	return trace
}

// describe returns a step as a line of a trace. A number is printed as A1 or B2, with the letter of its client.
func (g *game) describe(s step, w *world) string {
	name := func(n uint8) string {
		if n == redisson {
			return "Redisson"
		}
		return fmt.Sprintf("%c%d", 'A'+g.owner[n], n)
	}
	text := s.what
	if s.who >= aClient {
		text = fmt.Sprintf("client %c %s", 'A'+s.who-aClient, s.what)
	} else if s.who != 0 {
		text = name(s.who) + " " + s.what
	}
	switch c := s.cmd; {
	case c.script == acquire:
		text += fmt.Sprintf(" (%s, expires %d)", modes[c.mode], c.left)
	case c.next != 0:
		text += ", naming " + name(c.next)
	case c.leaves:
		text += ", and leaves the line"
	}
	switch r := s.got; {
	case r.acquired:
		text += ": acquired"
	case r != reply{} && !r.err:
		text += fmt.Sprint(": ", r.list)
	}
	if m := s.told; m.kind != 0 {
		text += fmt.Sprintf(" %c of %d (%d ticks, %d old)", m.kind, m.number, m.term, m.age)
	}
	var has, line []string
	for n := uint8(1); n <= redisson; n++ {
		if w.fields&(1<<n) != 0 {
			has = append(has, name(n))
		}
	}
	for i := 0; i < numbers && w.line[i] != 0; i++ {
		line = append(line, name(w.line[i]))
	}
	return fmt.Sprintf("%-80s | %v for %d, line %v", text, has, w.ttl, line)
}

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
	"github.com/go-rlock/rlock/simulation/internal/scene"
)

// elsewhere are the planted bugs that nothing in the simulation can show, with the reason.
var elsewhere = map[string]string{
	"M3":            "it is in the driver for go-redis, and the simulation has a driver of its own",
	"M63":           "it is in the driver for go-redis",
	"F19":           "it is in the driver for rueidis, and the simulation has a driver of its own",
	"F20":           "it is in the driver for go-redis",
	"F21":           "it is in the driver for rueidis, and the simulation has a driver of its own",
	"F9":            "it costs time of Redis's processor, which takes no virtual time",
	"table 5":       "it costs a command, which finds nothing to renew",
	"table 16":      "the lock is free at the end of its lease anyway, a fiftieth of the lease later",
	"table stop 9":  "the driver of the simulation has no pool, so nothing waits for a connection",
	"table ghost 5": "it costs memory: nobody asks for a number that is over",
	"table L.7":     "the question has no time, and ends at once: it costs a command",
	"table stop 2":  "no waiter is left by the next unlock, or the one that is left gives the lock back at once",
	"table stop 7":  "the grant and the shutdown would have to come at one moment, which no checker can tell apart",
	"table line 2":  "the waiter only loses its place, and scenes that cut subscriptions check no order",
	"table line 3":  "each release passes over the dead waiter, which costs time of Redis's processor",
	"table line 14": "whoever waits asks within a first term, which the scenes allow after a lost command",
	"table T6":      "an adoption meets another owner's hold only with a ticket that is worth nothing",
	"F11":           "whoever waits asks within a first term, which the scenes allow after the end of a process",
}

// lengthened is the reason for two of these.
const lengthened = "an extended hold has to be taken away, and to go on for long"

// rare are the planted bugs that seldom show anything in the simulation, with the reason.
var rare = map[string]string{
	"table free 2":  "two calls of a process have to want a free lock at the same moment, and the second question is only one too many",
	"M6":            "waiters have to sleep for long: of most kinds, they ask within a first term",
	"M32":           lengthened,
	"M43":           "those who watch do the same: see table line 11",
	"table 2":       "the wait has to end at the moment of the hand-over, as in a process that was stopped",
	"table 10":      "an attempt has to come between a deadline and its alarm, which are one moment unless the process is stopped",
	"F24":           "a waiter has to come behind four others, of which each takes the lock when it is free, and the lock of the last one to be deleted",
	"F27":           "whoever comes in the two seconds that a reader may take gets the free lock, and its release wakes the reader",
	"F29":           "the first waiter has to be dead, the next one to come on a seat that its process has used before, and the lease to end without a release",
	"F30":           "a reader has to pause for most of a second after an error while the keeper connects, just before the silence is too long",
	"F28":           "the first waiter has to leave, and the lease to end soon, while the next one came behind four others or has just looked",
	"F14":           "readers get the lock a few writers later, and without the bug, too, up to four writers may come before a reader",
	"table L.2d":    "the reply to the last question of a wait has to be late, the next call of the process to get none, and its wait to end before Redis is heard of again",
	"table L.2e":    "see table L.2d",
	"table L.4a":    "a process has to be stopped until the hold of its writer is over, while its reader waits, who has asked nobody else",
	"table E.2":     "a waiter has to sleep by the longer lease, which only those for read-write locks do",
	"table N.3":     lengthened,
	"table S.14b":   "the reply of a re-entry has to take most of a lease, and less than a second",
	"table line 1":  "a release has to arrive after a later one, of a waiter that has left meanwhile",
	"table line 13": "whoever waits asks soon, and those who watch do the same",
	"table line 33": "whoever waits asks soon, and is asked to watch then",
	"table ghost 2": "the first question of a short wait has to fail, and a grant to arrive while its waiter asks for the last time",
	"table line 21": "those who watch do the same: see table line 11",
	"table line 22": "a release that offers the lock to others has to have no reply",
	"table line 31": "a writer has to wait for readers, and asks within a first term",
	"table fair 4":  "a question has to come late, when the next waiter has the seat",
	"table K5":      "a hold that is to be kept has to be lost while an acquisition of it is late",
	"turns 1":       "somebody who is not of rlock has to listen, and no checker counts the turns of others at a semaphore",
	"turns 2":       "it costs turns, which no checker counts for a semaphore",
	"turns 3":       "a grant has to come when the latest reply was late, and its lease is renewed long before its end",
	"turns 4":       "a line has to stand for 6 s in which nobody asks",
	"turns 5":       "the reply to the first question of a call has to be lost, and its caller to leave: the permits come back with their lease",
	"turns 7":       "whoever waits asks within 3 s",
	"turns 9":       "a lease has to end whose reply was late",
	"turns 16":      "no checker knows who may pass whom",
	"turns 17":      "whoever waits asks within 3 s",
	"table X5":      "the hold of a waiter's context has to end while the waiter asks for the other side",
	"table T4":      "an adoption has to have no reply for a command timeout",
}

// allMutants returns the planted bugs of rlock, those of the table, whose names begin with "table ", and those of internal/core, whose names begin with "turns ".
func allMutants() []mutants.Mutant {
	all := slices.Concat(mutants.Rlock, mutants.Field)
	for _, m := range mutants.Table {
		m.Name, m.By = "table "+m.Name, "internal/table, TestModel"
		all = append(all, m)
	}
	for _, m := range mutants.Turns {
		m.Name = "turns " + m.Name
		all = append(all, m)
	}
	return all
}

// choose returns the mutants that the names stand for, in that order: a name of a mutant, "all", or "table", "turns" and "rlock" for those from there.
func choose(all []mutants.Mutant, names string) (chosen []mutants.Mutant) {
	for name := range strings.SplitSeq(names, ",") {
		for _, m := range all {
			from, _, _ := strings.Cut(m.Name, " ")
			if from != "table" && from != "turns" {
				from = "rlock"
			}
			again := slices.ContainsFunc(chosen, func(c mutants.Mutant) bool { return c.Name == m.Name })
			if !again && (name == "all" || name == from || name == m.Name) {
				chosen = append(chosen, m)
			}
		}
	}
	return chosen
}

// hunt plays seeds for each of the mutants, and reports whether all were found. A seed that is not 0 is replayed instead. What comes of the
// hunts is written into a page, if there is one.
func hunt(dir, names string, d draws, seed uint64, page string) (bool, error) {
	all := choose(allMutants(), names)
	files, rest, err := mutants.Schemata("..", all)
	if err != nil {
		return false, err
	}
	shared, err := build(dir, files)
	if err != nil {
		return false, err
	}
	found, hunted := 0, 0
	for _, m := range all {
		if why := elsewhere[m.Name]; why != "" && len(all) > 1 {
			fmt.Printf("%s, %s: not hunted: %s\n", m.Name, m.What, why)
			if err := note(page, m, &total{}, 0); err != nil {
				return false, err
			}
			continue
		}
		b := shared
		if slices.ContainsFunc(rest, func(r mutants.Mutant) bool { return r.Name == m.Name }) {
			if b, err = buildAlone(dir, m); err != nil {
				return false, err
			}
		}
		b.mutant, d.fits = m.Name, fits(m)
		if seed != 0 {
			return b.replay(seed, &d.smaller)
		}
		t := b.draw(d)
		if d.stopped() {
			break
		}
		if hunted++; len(t.broken) > 0 {
			if res := shared.healthy(t.broken[0].Seed, &d.smaller); len(res.Broken) > 0 {
				fmt.Printf("%s: seed %d breaks a promise without the bug, too: %s\n", m.Name, res.Seed, res.Broken[0])
				continue
			}
			found++
		}
		fmt.Printf("%s, %s: %s\n", m.Name, m.What, came(t))
		if err := note(page, m, t, d.duration); err != nil {
			return false, err
		}
		if len(all) == 1 && len(t.broken) > 0 {
			b.report(t.broken[0], d, fmt.Sprintf(" MUTANT=%q", m.Name))
		}
	}
	fmt.Printf("%d of %d mutants found\n", found, hunted)
	return found == hunted && !d.stopped(), nil
}

// healthy plays a seed without a mutant.
func (b *binary) healthy(seed uint64, m *scene.Smaller) scene.Result {
	healthy, cpu := *b, time.Duration(0)
	healthy.mutant = ""
	return healthy.play(seed, m, &cpu)
}

// came says what came of a hunt.
func came(t *total) string {
	if len(t.broken) == 0 {
		return fmt.Sprintf("not found; %v", t)
	}
	return fmt.Sprintf("found after %v of CPU and %d seeds by seed %d: %s", t.cpu.Round(100*time.Millisecond), t.seeds, t.broken[0].Seed, t.broken[0].Broken[0])
}

// buildAlone builds the binary with one mutant.
func buildAlone(dir string, m mutants.Mutant) (*binary, error) {
	files, err := m.Plant("..")
	if err != nil {
		return nil, err
	}
	dir, err = os.MkdirTemp(dir, "alone-")
	if err != nil {
		return nil, err
	}
	return build(dir, files)
}

// about says which bugs are about a part of the scenes, by their names or the files that they change, and which scenes have that part.
var about = []struct {
	bugs string // a regular expression
	has  func(s *scene.Scene) bool
}{
	{`^M49$`, func(s *scene.Scene) bool { return s.Monitor && len(s.Nemeses) > 0 }},
	{`^F1[78]$`, nemesis("busy")},
	{`^F16$`, leans("waits", leans("leases", func(s *scene.Scene) bool { return s.FairWait > 0 && s.Workers > 1 && s.Processes < 4 }))},
	{`^F23$`, leans("waits", func(s *scene.Scene) bool { return kind("red")(s) && s.Workers > 1 && s.Faults.Slow > 0 })},
	{`^F24$`, leans("parks", func(s *scene.Scene) bool {
		return s.Processes > 4 && s.Workers > 1 && len(s.Locks) == 1 && nemesis("delete")(s) && kind("^(lock|fenced)$")(s) && s.Hold > s.Rest
	})},
	{`^M43$|^table line (11|13|33)$`, func(s *scene.Scene) bool { return s.Peers > 0 && calm(s) }},
	{`^M4[45]$|^table (line (1[245]|2[0-2])|names 1)$|table/watch`, func(s *scene.Scene) bool { return s.Peers > 0 }},
	{`^table stop 6$`, func(s *scene.Scene) bool { return len(s.Nemeses) == 1 && nemesis("shutdown")(s) && s.Faults.Late == 0 }},
	{`^M3[567]$|^table stop|table/shutdown`, nemesis("shutdown")},
	{`^F10$`, func(s *scene.Scene) bool { return s.Total && kind("semaphore")(s) && s.Faults.Late > 0 }},
	{`^M64$`, func(s *scene.Scene) bool { return kind("red")(s) && s.Faults.Slow > 0 }},
	{`^table L\.4a$`, func(s *scene.Scene) bool {
		return nemesis("stop")(s) && s.Workers > 1 && kind("rw")(s) && s.Pause < 10*time.Second
	}},
	{`^table line 23$`, func(s *scene.Scene) bool {
		return calm(s) && s.Workers > 1 && s.Faults.Pool == 0 && kind("^(lock|fenced)$")(s)
	}},
	{`^table ghost 2$`, leans("waits", func(s *scene.Scene) bool { return s.Faults.LostReply > 0 })},
	{`^table (S\.14a|free 5)$`, func(s *scene.Scene) bool { return slow(s) && s.Rest > time.Second }},
	{`^M59$|^table ghost|table/unknown`, nemesis("restore|failover")},
	{`^M32$|^table N\.3$`, leans("extensions", func(s *scene.Scene) bool { return nemesis("force")(s) && s.Hold > 10*time.Second && s.Faults.Slow == 0 })},
	{`^M4$|^table N\.3b$`, func(s *scene.Scene) bool { return nemesis("delete|force")(s) && s.Hold > 10*time.Second }},
	{`^table 8$`, leans("re-entries", func(s *scene.Scene) bool {
		return nemesis("delete|force")(s) && s.Hold > time.Second && s.Faults.Late == 0
	})},
	{`^table L\.4b$`, nemesis("cut|hang")},
	{`^table line 5$`, func(s *scene.Scene) bool { return nemesis("clock")(s) && len(s.Nemeses) == 1 }},
	{`^table 2$`, leans("waits", func(s *scene.Scene) bool { return s.Grid > 0 && s.Hold < 20*s.Grid && s.Workers > 1 })},
	{`^M6$`, func(s *scene.Scene) bool {
		return nemesis("deaf")(s) && len(s.Nemeses) == 1 && s.Workers == 1 && len(s.Locks) == 1 && s.Hold > 100*time.Millisecond && kind("semaphore|rw")(s)
	}},
	{`^table 10$`, func(s *scene.Scene) bool {
		return len(s.Nemeses) == 1 && nemesis("stop")(s) && s.Faults.Slow == 0 && s.Workers > 1 && s.Hold > 2*time.Second
	}},
	{`^M15$|^table 7$`, func(s *scene.Scene) bool { return s.HandsOver && s.Workers > 1 && slow(s) && s.Hold < time.Second }},
	{`^table line 1$`, leans("waits", func(s *scene.Scene) bool { return slow(s) && s.Workers > 1 && s.Hold < time.Second })},
	{`^M41$|^table K1$`, func(s *scene.Scene) bool { return slow(s) && s.Workers > 1 && s.Hold < time.Second }},
	{`^table fair 4$`, leans("waits", func(s *scene.Scene) bool { return s.Faults.Late > 0 && kind("fair")(s) })},
	{`^table fair 3$`, func(s *scene.Scene) bool { return s.Faults.Late > 0 && kind("fair")(s) }},
	{`^table E\.2$`, leans("leases", func(s *scene.Scene) bool { return s.Workers > 1 && kind("rw")(s) })},
	{`^table line 31$`, func(s *scene.Scene) bool { return calm(s) && s.Workers == 1 && kind("rw")(s) }},
	{`^table N\.2$`, func(s *scene.Scene) bool { return calm(s) && s.Hold > 10*time.Second }},
	{`^table T[14]$`, leans("tickets", func(s *scene.Scene) bool { return s.Faults.Silent > 0 && s.Faults.Aim > 0 })},
	{`^table K3$`, leans("parks", leans("leases", func(s *scene.Scene) bool { return s.Faults.LostReply > 0 && s.Faults.Aim > 0 && s.Grid == 0 }))},
	{`^table K5$`, leans("parks", func(s *scene.Scene) bool { return s.Faults.Late > 0 })},
	{`^table L\.2d$`, leans("waits", func(s *scene.Scene) bool { return s.Faults.Silent > 0 && slow(s) && s.Workers == 1 })},
	{`^table S\.14b$`, leans("re-entries", func(s *scene.Scene) bool { return s.Faults.Aim > 0 && slow(s) })},
	{`^table N\.8b$`, leans("extensions", nemesis("clog|stop"))},
	{`^table line 18$`, func(s *scene.Scene) bool { return s.Faults.LostReply > 0 && s.Workers > 1 && s.Topology == "" }},
	{`^table line 19$`, leans("waits", func(s *scene.Scene) bool { return s.Faults.LostReply > 0 && s.Hold > 5*time.Second })},
	{`^M(2|22|24|26|33)$|^table (3|4|13|L\.2[bc]|T7|N\.8|line 14)$`, func(s *scene.Scene) bool { return s.Faults.Late > 0 }},
	{`lua/fair_|table/seats`, kind("fair")},
	{`lua/semaphore_|internal/core/`, kind("^semaphore")},
	{`lua/plain_`, kind("plain")},
	{`lua/latch_`, kind("latch")},
	{`^F1[234]$`, func(s *scene.Scene) bool { return kind("yielding rw")(s) && calm(s) && s.Faults.Late == 0 }},
	{`lua/(read|write|rw)_|line_read_release`, kind("rw")},
	{`lua/fenced_`, kind("fenced|election")},
	{`group/`, kind("multi|red")},
	{`^election`, kind("election")},
}

// calm reports whether nothing strikes, and no command fails.
func calm(s *scene.Scene) bool { return len(s.Nemeses) == 0 && s.Faults.Slow == 0 }

// slow reports whether replies may take most of a short lease.
func slow(s *scene.Scene) bool {
	return s.Faults.Slow > 0 && s.Faults.SlowMax > 500*time.Millisecond || nemesis("clog")(s)
}

// nemesis returns whether a scene has a nemesis.
func nemesis(of string) func(*scene.Scene) bool {
	is := regexp.MustCompile("^(" + of + ")$").MatchString
	return func(s *scene.Scene) bool { return slices.ContainsFunc(s.Nemeses, is) }
}

// leans returns whether a scene leans to something, and has something else.
func leans(to string, has func(*scene.Scene) bool) func(*scene.Scene) bool {
	return func(s *scene.Scene) bool { return slices.Contains(s.Leans, to) && has(s) }
}

// kind returns whether a scene has a lock of a kind.
func kind(of string) func(*scene.Scene) bool {
	is := regexp.MustCompile(of).MatchString
	return func(s *scene.Scene) bool {
		return slices.ContainsFunc(s.Locks, func(l scene.Lock) bool { return is(l.Kind) })
	}
}

// fits returns which scenes can have what a bug is about. Nil means that all can.
func fits(m mutants.Mutant) func(*scene.Scene) bool {
	for _, part := range about {
		is := regexp.MustCompile(part.bugs).MatchString
		if is(m.Name) || slices.ContainsFunc(m.Edits, func(e mutants.Edit) bool { return is(e.File) }) {
			return part.has
		}
	}
	return nil
}

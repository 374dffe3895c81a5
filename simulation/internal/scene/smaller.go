package scene

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Smaller makes the scene of a seed smaller, so that a failing one can be understood. Its zero value changes nothing.
type Smaller struct {
	Without   string        // parts that are switched off, separated by commas, see [Scene.Parts]
	Until     time.Duration // when the workers stop
	Processes int           // how many there are at most, and of workers in each
	Workers   int
	Schedule  uint64 // another number is another run of the same scene
}

// Flags adds the flags that set the values.
func (m *Smaller) Flags(fs *flag.FlagSet) {
	fs.StringVar(&m.Without, "without", "", "switch these parts of the scene off, separated by commas: kinds of fault, nemeses, locks, peers, options")
	fs.DurationVar(&m.Until, "until", 0, "stop the workers then")
	fs.IntVar(&m.Processes, "processes", 0, "start at most so many processes at first")
	fs.IntVar(&m.Workers, "workers", 0, "start at most so many workers in each process")
	fs.Uint64Var(&m.Schedule, "schedule", 0, "play the scene with other random numbers")
}

// each calls f for each value that is set, with the name of its flag.
func (m *Smaller) each(f func(name, value string)) {
	if m.Without != "" {
		f("without", m.Without)
	}
	if m.Until > 0 {
		f("until", m.Until.String())
	}
	for _, n := range []struct {
		name  string
		value uint64
	}{{"processes", uint64(m.Processes)}, {"workers", uint64(m.Workers)}, {"schedule", m.Schedule}} { //nolint:gosec // they are not negative
		if n.value > 0 {
			f(n.name, fmt.Sprint(n.value))
		}
	}
}

// Args are the flags that set the values.
func (m *Smaller) Args() (all []string) {
	m.each(func(name, value string) { all = append(all, "-"+name, value) })
	return all
}

// String has the values as parameters of `make sim`, each after a space.
func (m *Smaller) String() string {
	var text strings.Builder
	m.each(func(name, value string) { fmt.Fprintf(&text, " %s=%s", strings.ToUpper(name), value) })
	return text.String()
}

// Of returns the smaller scene, and the seed to play it with.
func (m *Smaller) Of(s Scene, seed uint64) (Scene, uint64, error) {
	for part := range strings.SplitSeq(m.Without, ",") {
		if part != "" && !s.without(part) {
			return s, seed, fmt.Errorf("the scene of this seed has no %q to leave out, but %s", part, strings.Join(s.Parts(), ","))
		}
	}
	if m.Until > 0 {
		s.Duration = min(s.Duration, m.Until)
	}
	if m.Processes > 0 {
		s.Processes = min(s.Processes, m.Processes)
	}
	if m.Workers > 0 {
		s.Workers = min(s.Workers, m.Workers)
	}
	return s, seed + m.Schedule*0x9e3779b97f4a7c15, nil
}

// fault is a kind of fault of single commands. The trace has the same name for it.
type fault struct {
	name   string
	chance *float64
}

func (s *Scene) faults() []fault {
	f := &s.Faults
	return []fault{
		{"slow", &f.Slow},
		{"lost", &f.LostSend},
		{"silent", &f.Silent},
		{"reset", &f.LostReply},
		{"late", &f.Late},
		{"twice", &f.Repeated},
	}
}

// extra is something that some scenes have.
type extra struct {
	name string
	off  func()
}

func (s *Scene) extras() (all []extra) {
	for _, e := range []struct {
		has bool
		extra
	}{
		{s.Peers > 0, extra{"peers", func() { s.Peers = 0 }}},
		{s.Topology != "", extra{"topology", s.alone}},
		{s.Panics, extra{"panics", func() { s.Panics = false }}},
		{s.Monitor, extra{"monitor", func() { s.Monitor = false }}},
		{s.Total, extra{"total", func() { s.Total = false }}},
		{len(s.Leans) > 0, extra{"leans", func() { s.Leans = nil }}},
		{s.Faults.Aim > 0, extra{"aim", func() { s.Faults.Aim = 0 }}},
		{s.Grid > 0, extra{"grid", func() { s.Grid = 0 }}},
		{s.Identity, extra{"identity", func() { s.Identity = false }}},
		{len(s.Options) > 1, extra{"options", func() {
			s.Options, s.MaxHold, s.FairWait, s.Acks, s.Broadcast = s.Options[:1], 0, 0, 0, false
			s.Gathers, s.HandsOver = false, false
		}}}, // the first one is of every scene
	} {
		if e.has {
			all = append(all, e.extra)
		}
	}
	return all
}

// alone makes the scene one with a server that is alone.
func (s *Scene) alone() {
	s.Topology = ""
	s.Nemeses = slices.DeleteFunc(slices.Clone(s.Nemeses), func(n string) bool { return slices.Contains(groupNemeses, n) })
}

// Parts lists what can be left out of the scene. One lock stays.
func (s *Scene) Parts() (all []string) {
	all = append(all, s.Nemeses...)
	for _, f := range s.faults() {
		if *f.chance > 0 {
			all = append(all, f.name)
		}
	}
	for _, p := range s.extras() {
		all = append(all, p.name)
	}
	for _, l := range s.Locks {
		if len(s.Locks) > 1 {
			all = append(all, l.part())
		}
	}
	return all
}

// part names the lock in a shell: without spaces.
func (l Lock) part() string { return strings.ReplaceAll(l.Kind+"/"+l.Name, " ", "+") }

// without switches a part off. It reports false if the scene has no such part.
func (s *Scene) without(part string) bool {
	if !slices.Contains(s.Parts(), part) {
		return false
	}
	for _, f := range s.faults() {
		if f.name == part {
			*f.chance = 0
		}
	}
	for _, p := range s.extras() {
		if p.name == part {
			p.off()
		}
	}
	s.Nemeses = slices.DeleteFunc(slices.Clone(s.Nemeses), func(n string) bool { return n == part })
	s.Locks = slices.DeleteFunc(slices.Clone(s.Locks), func(l Lock) bool { return l.part() == part })
	return true
}

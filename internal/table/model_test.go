package table

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	schedules = flag.Int("schedules", 20000, "how many schedules TestModel runs; a tenth with -short")
	first     = flag.Uint64("first", 1, "the seed of the first schedule of TestModel")
	story     = flag.Bool("story", true, "shrink a schedule that breaks an invariant, and print its actions")
)

// The model test runs the tables of two processes against a Redis in process that runs the real scripts, in virtual time, without any
// goroutine. A schedule is a list of numbers: the first one sets the world up, and each of the others chooses an action
// and all that the action leaves open. MODEL_SEED=n repeats the schedule of a seed, with its actions.

// scheduleLength is how many choices a schedule has.
const scheduleLength = 160

func scheduleOf(seed uint64) []uint32 {
	r := rand.New(rand.NewPCG(seed, 7)) // to be repeated
	s := make([]uint32, scheduleLength)
	for i := range s {
		s[i] = r.Uint32()
	}
	return s
}

// result is what came of a schedule.
type result struct {
	broken string // the invariant that broke, and how; empty if none did
	steps  int
	used   int // how many choices were used
	log    []string
}

// play runs a schedule.
func play(choices []uint32, logging bool) result {
	w := newWorld(choices[0])
	w.logging = logging
	return w.play(choices)
}

func (w *world) play(choices []uint32) (r result) {
	defer func() {
		r.steps, r.log = w.step, w.log
		for _, n := range w.names {
			n.server.leave()
		}
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			r.broken = string(f)
		}
	}()
	for i, c := range choices[1:] {
		r.used = i + 2
		w.act(c)
	}
	w.logf("-- the end")
	w.random = uint64(choices[0])
	w.finish()
	return r
}

// invariant returns the name of the invariant that broke.
func (r *result) invariant() string {
	name, _, _ := strings.Cut(r.broken, ":")
	return name
}

// shrink returns a shorter schedule that breaks the same invariant.
func shrink(choices []uint32, limit time.Duration) []uint32 {
	began := time.Now()
	first := play(choices, false)
	best := choices[:first.used]
	try := func(shorter []uint32) bool {
		r := play(shorter, false)
		if r.broken == "" || r.invariant() != first.invariant() {
			return false
		}
		best = shorter[:r.used]
		return true
	}
	for size := len(best) / 2; size > 0 && time.Since(began) < limit; {
		dropped := false
		for at := len(best) - size; at > 0 && time.Since(began) < limit; at-- {
			if at+size <= len(best) && try(slices.Delete(slices.Clone(best), at, at+size)) {
				dropped = true
			}
		}
		if !dropped || size > 1 {
			size /= 2
		}
	}
	return best
}

// fail shrinks a schedule that broke an invariant, and reports it.
func fail(t *testing.T, seed string, choices []uint32) {
	t.Helper()
	if !*story {
		r := play(choices, false)
		t.Fatalf("%s", r.broken)
	}
	shrunk := shrink(choices, 20*time.Second)
	r := play(shrunk, true)
	t.Fatalf("%s\nseed %s, %d choices left\n%s", r.broken, seed, len(shrunk), strings.Join(r.log, "\n"))
}

// TestMain has the garbage of the scripts collected less often, which takes a fifth of the time otherwise.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// run runs schedules until there were so many schedules, or so many steps.
func run(t *testing.T, from uint64, schedules, steps int) (done int) {
	t.Helper()
	i := 0
	for ; i < schedules && (steps == 0 || done < steps); i++ {
		seed := from + uint64(i) // small
		choices := scheduleOf(seed)
		r := play(choices, false)
		done += r.steps
		if r.broken != "" {
			t.Logf("broken after %d schedules by seed %d", i+1, seed)
			fail(t, strconv.FormatUint(seed, 10), choices)
		}
	}
	return done
}

func TestModel(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("MODEL_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		run(t, seed, 1, 0)
		return
	}
	limit := *schedules
	if testing.Short() {
		limit /= 10
	}
	steps := run(t, *first, limit, 0)
	t.Logf("%d steps", steps)
}

// TestModelOfBefore repeats schedules that once broke an invariant.
func TestModelOfBefore(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1026368, 1037863, 1116453, 3160135, 4156614, 5025334, 100156933} {
		run(t, seed, 1, 0)
	}
}

// TestModelAtLength runs a million steps.
func TestModelAtLength(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	t.Parallel()
	began := time.Now()
	steps := run(t, 1_000_000, 1<<30, 1_000_000)
	t.Logf("%d steps in %v", steps, time.Since(began))
}

// FuzzTable takes its choices from the fuzzer.
func FuzzTable(f *testing.F) {
	for seed := range uint64(8) {
		var raw []byte
		for _, c := range scheduleOf(seed) {
			raw = binary.LittleEndian.AppendUint32(raw, c)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 8 || len(raw) > 4000 {
			t.Skip()
		}
		var choices []uint32
		for ; len(raw) >= 4; raw = raw[4:] {
			choices = append(choices, binary.LittleEndian.Uint32(raw))
		}
		if r := play(choices, false); r.broken != "" {
			fail(t, "of the fuzzer", choices)
		}
	})
}

func (f *flight) String() string {
	return fmt.Sprintf("%v from c%d (left %v, dead %v, executed %v)", f.call.Args, f.proc.index, f.left, f.dead, f.executed)
}

func (s Step) String() string {
	switch s.Do {
	case Ask:
		return fmt.Sprintf("ask %v", s.Call.Args)
	case Sleep:
		return fmt.Sprintf("sleep %v, listens %v %q", s.Pause, s.Heard != nil, s.Listen)
	default:
	}
	return fmt.Sprintf("done: got %v, err %v", s.Got != nil, s.Err)
}

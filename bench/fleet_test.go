package main

import (
	"bytes"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// numbered is a lock that excludes nobody, and knows its client.
type numbered struct {
	open

	client int64
}

func (n numbered) Handle(string) Handle { return n }

func TestHandlesOfAFleetHaveClientsOfTheirOwn(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	e := entrant{open: func(Cell) (Library, error) { return numbered{client: opened.Add(1)}, nil }}
	lib, err := openFleet(e, Cell{Goroutines: 100})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for range 100 {
		seen[lib.Handle("a").(numbered).client] = true
	}
	if len(seen) != 100 || opened.Load() != 100 {
		t.Errorf("100 handles have %d of %d clients", len(seen), opened.Load())
	}
	broken := entrant{open: func(Cell) (Library, error) { return nil, errNothing }}
	if _, err := openFleet(broken, Cell{Goroutines: 2}); err == nil {
		t.Error("a client that cannot be opened is ignored")
	}
}

func TestTurnsOfClientsAreCounted(t *testing.T) {
	t.Parallel()
	a := testArena(t)
	a.taken.Store(90)
	a.handOffs.Store(90)
	waits := Waits{}
	for range 90 {
		waits.add(30 * time.Millisecond)
	}
	tally := &Tally{Pairs: []int64{29, 31, 30}, Waits: waits, Longest: 40 * time.Millisecond}
	spent := usage{calls: map[string]float64{"evalsha": 180, "ssubscribe": 9, "ping": 90, "set": 9}, script: 900, cpu: 1800}
	m, err := contendedMetrics(a, []*Tally{tally}, spent, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for metric, want := range map[string]float64{
		mHandOffs: 90, mPerHandOff: 3.2, mScripts: 2, mSubscribe: 0.1, mPings: 1, mScriptCPU: 10, mCPU: 20,
		mFewest: 29, mMost: 31, mWaitMax: 40, mRound: 0.9, // 30 ms, and a round takes 33.3
	} {
		near(t, metric, m[metric], want)
	}
}

func TestPingsAndServerTimeAreMeasured(t *testing.T) {
	t.Parallel()
	l := testLab(t)
	rdb := l.single.nodes[0]
	if err := l.single.reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		rdb.Ping(t.Context())
		rdb.Eval(t.Context(), "return redis.call('set', 'a', 1)", nil)
		rdb.Get(t.Context(), "a") // not a command of a library
	}
	u, err := l.single.used(t.Context(), "rlock")
	if err != nil {
		t.Fatal(err)
	}
	if u.all() != 6 || u.sum("ping") != 3 || u.sum("eval", "evalsha") != 3 || u.script <= 0 || u.cpu <= 0 {
		t.Errorf("%+v", u)
	}
}

func TestTurnsMeasureGapsAndOverlaps(t *testing.T) {
	t.Parallel()
	a := testArena(t)
	a.turn(1, 0)
	time.Sleep(500 * time.Millisecond)
	a.turn(2, 0) // this gap is before the counting phase
	a.phase.Store(phaseCount)
	time.Sleep(5 * time.Millisecond)
	a.turn(1, 0)
	if gap := time.Duration(a.gap.Load()); gap < 5*time.Millisecond || gap >= 500*time.Millisecond || a.overlaps.Load() != 0 {
		t.Errorf("a gap of %v, %d overlaps", gap, a.overlaps.Load())
	}
	a.inside.Store(3)
	a.turn(1, 0)
	if a.overlaps.Load() != 1 {
		t.Errorf("%d overlaps of 1", a.overlaps.Load())
	}
}

func TestTheVictimIsTheWaiterWhoseTurnIsNext(t *testing.T) {
	t.Parallel()
	const hold = 400 * time.Millisecond // longer than a busy machine delays a goroutine
	a := testArena(t)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				a.turn(ownerID(i%4, 0), hold)
			}
		}
	}()
	victim, err := nextInLine(t.Context(), a, Cell{Processes: 4, Hold: hold, Warmup: 4 * hold})
	if owner := int(a.last.Load() >> 32); err != nil || victim != (owner+1)%4 {
		t.Errorf("%d after %d: %v", victim, owner, err)
	}
}

func TestEveryFaultIsMeasured(t *testing.T) {
	l := testLab(t)
	sc := faults()
	for _, fault := range []string{faultKill, faultStop, faultCut, faultQueue} {
		c := Cell{
			Library: "rlock", Fault: fault, Processes: 3, Goroutines: 1, Names: 1, Hold: 20 * time.Millisecond,
			Warmup: 500 * time.Millisecond, Measure: time.Second,
		}
		m, err := l.measure(t.Context(), sc, c)
		if err != nil {
			t.Errorf("%s: %v", fault, err)
		} else if m[mGap] <= 0 || m[mGap] > 3000 { // the most is what it measures, 1 s, and a stall of this machine
			t.Errorf("%s: a gap of %v ms", fault, m[mGap])
		}
	}
}

func TestTheWorstRoundOfFaultsCounts(t *testing.T) {
	t.Parallel()
	s := samples{"rlock": {{mGap: 30}, {mGap: 500}, {mGap: 20}}, rlockFair: {{mGap: 25}, nil}}
	r := result{scenario: faults(), sizes: []sizeResult{{id: "1 of 2", samples: s, notes: map[string]string{rlockFair: "failed"}}}}
	if text := r.markdown(); !strings.Contains(text, "| 1 of 2 | 500 | 25 (failed) |") {
		t.Error(text)
	}
	if len(charts(r)) != 0 {
		t.Error("the scenario has a plot")
	}
	var out bytes.Buffer
	watch := []guarded{{library: "rlock", scenario: "S12", size: "1 of 2", metric: mGap, lowIsGood: true, worst: true}}
	found := map[string]samples{"S12 1 of 2": {"old rlock": s["rlock"], "new rlock": s[rlockFair], "redsync": {{mGap: 7}}}}
	err := writeComparison(&out, found, watch, []string{"redsync"})
	if fields := strings.Fields(out.String()); err != nil || fields[len(fields)-1] != "7" || !strings.Contains(out.String(), " 500 ") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestComparedFiguresAreMeasured(t *testing.T) {
	t.Parallel()
	scs, watch := compared(&options{})
	measured := map[string]bool{}
	for _, sc := range scs {
		for _, sz := range sc.sizes {
			if key := (guarded{scenario: sc.id, size: sz.id}).cell(); measured[key] {
				t.Errorf("%s is measured twice", key)
			} else {
				measured[key] = true
			}
		}
	}
	names := map[string]bool{}
	for _, g := range watch {
		if !measured[g.cell()] || names[g.name()] {
			t.Errorf("%s is never measured, or listed twice", g.name())
		}
		names[g.name()] = true
	}
	for _, want := range []string{
		"rlock, S9 256 × 1ms: hand-offs/s", "rlock-fair, S10 128: hand-offs/s", "rlock, S4 4 × 8: between processes/s",
		"rlock, S1 distinct names: script µs to the floor", "rlock-fair, S12 3 killed in front: longest gap ms",
		"rlock-plain, S13 one caller: latency µs", "rlock, S14 128 × 0s: pairs/s", "rlock, S15 10: commands",
	} {
		if !names[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestComparingMeasuresWhatOnlyNames checks that no scenario is left out without a word.
func TestComparingMeasuresWhatOnlyNames(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		scs, watch := compared(&options{only: sc.id})
		if len(scs) != 1 || scs[0].id != sc.id || len(watch) == 0 {
			t.Errorf("-only %s: %d scenarios, %d figures", sc.id, len(scs), len(watch))
		}
	}
	for _, args := range [][]string{{"-only", "S1,S99"}, {"-libraries", "floor,flour"}} {
		if err := command(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestRoundsOfLongCellsAreFew(t *testing.T) {
	t.Parallel()
	long := func(sc scenario) (n int) {
		for _, sz := range sc.sizes {
			if sz.rounds > 0 {
				n++
			}
		}
		return n
	}
	sc := fleets()[0]
	if changed := sc.inRounds(7); changed.rounds != 7 || long(changed) != 0 {
		t.Error("-rounds does not set the rounds of all sizes")
	}
	if long(sc) == 0 {
		t.Error("1,024 clients take as many rounds as four, or -rounds has changed the scenario")
	}
}

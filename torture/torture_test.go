package torture

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/testkit/connect"
)

var (
	seed     = flag.Uint64("seed", 0, "the seed of the workload and the nemeses; 0 means a random one")
	topology = flag.String("topology", "", "run the scenes of this topology (single, sentinel, cluster or red) until the duration is over")
	only     = flag.String("scene", "", "run only this scene")
	dump     = flag.String("dump", "", "write the history to this file, as JSON")
	recheck  = flag.String("recheck", "", "check a history that -dump wrote to this file, and run nothing")
	brief    = flag.Bool("brief", false, "end a scene when each of its nemeses has struck, and leave out the scenes that the simulation plays too")
	duration = flag.Duration("duration", 0, "how long to run; 0 means each scene once")
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	if os.Getenv(ChildEnv) != "" {
		ChildMain()
		return
	}
	goleak.VerifyTestMain(m, connect.Leaks()...)
}

// quiet is a logger that drops the messages of go-redis about broken connections.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000)
	}
	t.Logf("seed %d", *seed)
	var safe, unsafe Figures
	defer func() { t.Logf("safe scenes: %v\n\nunsafe scenes: %v", &safe, &unsafe) }()
	run := func(scene Scene, seed uint64) {
		t.Run(fmt.Sprintf("%s/%d", scene.Name, seed), func(t *testing.T) {
			figures := judge(t, Run(t, lasting(scene)), seed)
			if scene.Safe {
				safe.add(figures)
			} else {
				unsafe.add(figures)
			}
		})
	}
	if *only == "regressions" {
		for _, r := range Regressions {
			run(chosen(t, r.Seed, func(s Scene) bool { return s.Name == r.Scene })[0], r.Seed)
		}
		return
	}
	for round, start := *seed, time.Now(); round == *seed || time.Since(start) < *duration; round++ {
		for _, scene := range chosen(t, round, wanted) {
			run(scene, round)
		}
	}
}

// wanted reports whether the flags ask for a scene.
func wanted(s Scene) bool {
	if *only+*topology == "" {
		return !s.Long && (!*brief || !s.Played)
	}
	return (*only == "" || s.Name == *only) && (*topology == "" || s.Topology == *topology)
}

// lasting returns the scene with the duration that the flags ask for.
func lasting(s Scene) Scene {
	if *brief && len(s.Nemeses) > 0 {
		s.Duration = 0 // each nemesis strikes at least once
	}
	return s
}

// TestBriefHasEveryNemesis checks that -brief leaves out no fault that only real servers, kernels and networks show.
func TestBriefHasEveryNemesis(t *testing.T) {
	defer func(before bool) { *brief = before }(*brief)
	*brief = true
	struck := map[string]bool{
		n8KillPubSub: true, n4HoldPassing: true, // of what the simulation plays: subscriptions that are cut, grants that arrive too late
	}
	for _, scene := range chosen(t, 1, wanted) {
		for _, name := range scene.Nemeses {
			struck[name] = true
		}
	}
	*brief = false
	for _, scene := range chosen(t, 1, wanted) {
		for _, name := range scene.Nemeses {
			require.True(t, struck[name], "%s of the scene %s", name, scene.Name)
		}
	}
}

// chosen returns the wanted scenes with seeds derived from the given one. It fails the test if there are none.
func chosen(t *testing.T, seed uint64, wanted func(Scene) bool) []Scene {
	t.Helper()
	scenes := slices.DeleteFunc(Scenes(seed), func(s Scene) bool { return !wanted(s) })
	if len(scenes) == 0 {
		t.Fatalf("no such scene: %q of topology %q", *only, *topology)
	}
	return scenes
}

// TestRecheck checks a dumped history again, for example after a change of the checkers.
func TestRecheck(t *testing.T) {
	if *recheck == "" {
		t.Skip("needs -recheck")
	}
	raw, err := os.ReadFile(*recheck)
	require.NoError(t, err)
	var h History
	require.NoError(t, json.Unmarshal(raw, &h))
	judge(t, &h, h.Scene.Seed/100)
}

// judge reports the checkers' verdict on a history.
func judge(t *testing.T, h *History, seed uint64) Figures {
	t.Helper()
	if *dump != "" {
		raw, err := json.Marshal(h)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(*dump, raw, 0o600))
	}
	report := Check(h)
	t.Logf("%s: %v\n%s", h.Scene.Name, &report.Figures, h.Timeline())
	if len(report.Broken) == 0 {
		return report.Figures
	}
	n := len(report.Broken)
	// At the end, with the marks of .ci/run: of a long output, it shows these lines.
	t.Errorf("nemeses:\n%s\n%d promises broken; the first ones:\nfailed: %s\nrepeat with: make torture SCENE=%s SEED=%d", h.Timeline(), n,
		strings.ReplaceAll(strings.Join(report.Broken[:min(n, 20)], "\n"), "\n", "\nfailed: "), h.Scene.Name, seed)
	return report.Figures
}

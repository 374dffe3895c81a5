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
)

var (
	seed     = flag.Uint64("seed", 0, "of the workload and the nemeses; 0: another one each time")
	topology = flag.String("topology", "", "single, sentinel, cluster or red: play its scenes until the duration is over")
	only     = flag.String("scene", "", "play this scene alone")
	dump     = flag.String("dump", "", "write what was noted to this file, as JSON")
	again    = flag.String("again", "", "check what -dump wrote to this file, and play nothing")
	duration = flag.Duration("duration", 0, "how long to play; 0: each scene once")
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	if os.Getenv(ChildEnv) != "" {
		ChildMain()
		return
	}
	// go-redis's pool tries a dead server once a second, and only then sees that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// quiet drops what go-redis logs about the connections that are broken.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes long")
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000)
	}
	t.Logf("seed %d", *seed)
	var safe, unsafe Figures
	defer func() { t.Logf("where nothing may go wrong: %v\n\nand where it may: %v", &safe, &unsafe) }()
	perform := func(scene Scene, seed uint64) {
		t.Run(fmt.Sprintf("%s/%d", scene.Name, seed), func(t *testing.T) {
			figures := judge(t, Play(t, scene), seed)
			if scene.Safe {
				safe.add(figures)
			} else {
				unsafe.add(figures)
			}
		})
	}
	if *only == "regressions" {
		for _, r := range Regressions {
			perform(chosen(t, r.Seed, func(s Scene) bool { return s.Name == r.Scene })[0], r.Seed)
		}
		return
	}
	for round, start := *seed, time.Now(); round == *seed || time.Since(start) < *duration; round++ {
		for _, scene := range chosen(t, round, func(s Scene) bool {
			return (*only == "" || s.Name == *only) && (*topology == "" || s.Topology == *topology) && (*only+*topology != "" || !s.Long)
		}) {
			perform(scene, round)
		}
	}
}

// chosen returns the scenes made of a seed that are wanted, at least one.
func chosen(t *testing.T, seed uint64, wanted func(Scene) bool) []Scene {
	t.Helper()
	scenes := slices.DeleteFunc(Scenes(seed), func(s Scene) bool { return !wanted(s) })
	if len(scenes) == 0 {
		t.Fatalf("no such scene: %q of topology %q", *only, *topology)
	}
	return scenes
}

// TestAgain checks a history that was dumped: with other eyes, if the checkers have changed since.
func TestAgain(t *testing.T) {
	if *again == "" {
		t.Skip("-again")
	}
	raw, err := os.ReadFile(*again)
	require.NoError(t, err)
	var h History
	require.NoError(t, json.Unmarshal(raw, &h))
	judge(t, &h, h.Scene.Seed/100)
}

// judge reports what the checkers say of a history.
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
	t.Errorf("%d promises broken; the first ones:\n%s\n\nwhat the nemeses did:\n%s\nagain: make torture SCENE=%s SEED=%d",
		n, strings.Join(report.Broken[:min(n, 20)], "\n"), h.Timeline(), h.Scene.Name, seed)
	return report.Figures
}

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
	for round, start := uint64(0), time.Now(); round == 0 || time.Since(start) < *duration; round++ {
		scenes := slices.DeleteFunc(Scenes(*seed+round), func(s Scene) bool {
			return *only != "" && s.Name != *only || *topology != "" && s.Topology != *topology || *only+*topology == "" && s.Long
		})
		if len(scenes) == 0 {
			t.Fatalf("no scene %q of topology %q", *only, *topology)
		}
		for _, scene := range scenes {
			t.Run(fmt.Sprintf("%s/%d", scene.Name, *seed+round), func(t *testing.T) {
				figures := judge(t, Play(t, scene), *seed+round)
				if scene.Safe {
					safe.add(figures)
				} else {
					unsafe.add(figures)
				}
			})
		}
	}
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

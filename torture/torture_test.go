package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/testkit/connect"
)

var (
	seed     = flag.Uint64("seed", 0, "the seed of the workload and the nemeses; 0 means a random one")
	topology = flag.String("topology", "", "run the scenes of this topology (single, sentinel or cluster)")
	only     = flag.String("scene", "", "run only this scene")
	brief    = flag.Bool("brief", false, "end a scene when each of its nemeses has struck")
	duration = flag.Duration("duration", 0, "start again with another seed until then; 0 means each scene once")
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
	for round, start := *seed, time.Now(); round == *seed || time.Since(start) < *duration; round++ {
		scenes := slices.DeleteFunc(Scenes(round), func(s Scene) bool {
			return *only != "" && s.Name != *only || *topology != "" && s.Topology != *topology
		})
		if len(scenes) == 0 {
			t.Fatalf("no such scene: %q of topology %q", *only, *topology)
		}
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			for _, scene := range scenes {
				if *brief {
					scene.Duration = 0
				}
				t.Run(scene.Name, func(t *testing.T) {
					t.Parallel()
					play(t, scene)
				})
			}
		})
	}
}

// play runs a scene and fails the test if it breaks a promise.
func play(t *testing.T, scene Scene) {
	t.Helper()
	h := Run(t, scene)
	t.Logf("%s: %v\n%s", scene.Name, h, h.Timeline())
	if broken := Check(h); len(broken) > 0 {
		fail(t, scene, broken)
	}
}

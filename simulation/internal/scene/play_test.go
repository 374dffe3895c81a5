package scene

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "play this seed of the swarm, see TestSeed")
	resultFlag = flag.String("result", "", "write the result to this file, as JSON")
	logFlag    = flag.Bool("log", false, "write every event to the standard output")
)

// TestSwarm plays a few seeds in this process. Without the changed runtime, a run is another one each time.
func TestSwarm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for range 3 {
		seed := 1 + rand.Uint64N(1e9)
		synctest.Test(t, func(t *testing.T) {
			res := Play(Swarm(seed), seed, nil)
			require.Empty(t, res.Broken, "seed %d, %s", seed, res.Scene)
		})
	}
}

// TestSeed plays one seed in a process of its own, because what a process makes only once would change the next run. `make sim` runs it.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("runs with make sim")
	}
	// The collector would run whenever it likes, so a run does without. Beyond the limit it may not be replayable.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(2 << 30)
	var log io.Writer
	if *logFlag {
		buffered := bufio.NewWriterSize(os.Stdout, 1<<20)
		defer func() { require.NoError(t, buffered.Flush()) }()
		log = buffered
	}
	var res Result
	synctest.Test(t, func(*testing.T) { res = Play(Swarm(*seedFlag), *seedFlag, log) })
	text, err := json.Marshal(res)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(*resultFlag, text, 0o600))
}

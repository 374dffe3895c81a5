package scene

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
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
	storyFlag  = flag.Int("story", 0, "write so many events to the standard output that led to the first broken promise")
	smaller    = smallerFlags()
)

func smallerFlags() *Smaller {
	var m Smaller
	m.Flags(flag.CommandLine)
	return &m
}

// TestSwarm plays a few seeds in this process. Without the changed runtime, a run is another one each time.
func TestSwarm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for seed := uint64(1); seed <= 3; seed++ {
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
	limitCPU(t)
	s, seed, err := smaller.Of(Swarm(*seedFlag), *seedFlag)
	require.NoError(t, err)
	var to io.Writer
	if *logFlag {
		buffered := bufio.NewWriterSize(os.Stdout, 64<<20) // for the same reason as below
		defer func() { require.NoError(t, buffered.Flush()) }()
		to = buffered
		_, _ = fmt.Fprintln(to, "scene:", &s)
	}
	var log io.Writer
	var told *Log
	if *logFlag || *storyFlag > 0 {
		told = NewLog(to, s)
		log = told
	}
	// While a goroutine writes to a file, which may take long, another one runs instead, whatever the seed says. So what rlock writes to the
	// standard error, for lack of a log, goes nowhere.
	stderr := os.Stderr
	os.Stderr = nil
	defer func() { os.Stderr = stderr }()
	var res Result
	synctest.Test(t, func(*testing.T) { res = Play(s, seed, log) })
	if *storyFlag > 0 {
		for _, event := range told.Story(*storyFlag) {
			_, _ = fmt.Fprintln(os.Stdout, event)
		}
	}
	res.Seed = *seedFlag
	text, err := json.Marshal(res)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(*resultFlag, text, 0o600))
}

package turns

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"

	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

var (
	firstFlag = flag.Uint64("first", 1, "the first seed")
	seedsFlag = flag.Uint64("seeds", 40, "how many seeds")
	logFlag   = flag.Bool("log", false, "write every event to the standard output")
)

// TestTurns plays seeds.
func TestTurns(t *testing.T) {
	var to io.Writer
	if *logFlag {
		to = os.Stdout
	}
	for seed := *firstFlag; seed < *firstFlag+*seedsFlag; seed++ {
		s := Draw(seed)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res := Play(s, seed, simnet.NewTrace(to))
				if len(res.Broken) > 0 {
					t.Errorf("seed %d: %v\n%+v", seed, res.Broken, s)
				}
				t.Logf("seed %d: %+v of %+v", seed, res, s)
			})
		})
	}
}

package differential

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

var (
	commands = flag.Int("commands", 40_000, "how many commands are compared")
	seedFlag = flag.Uint64("seed", 0, "repeats the rounds of a seed; 0 draws one")
)

// perRound is how many commands a round has.
const perRound = 500

// TestDifferential compares the simulated Redis with a redis-server. If it fails, -seed repeats it.
func TestDifferential(t *testing.T) {
	r := startReal(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	done, replied := 0, map[string]int{}
	for round := uint64(0); done < *commands; round++ {
		steps := newGenerator(seed, round).round(perRound)
		done += len(steps)
		check(t, fmt.Sprintf("seed %d, round %d", seed, round), steps, &simulated{}, r)
		count(replied, steps)
	}
	for _, s := range scripts() {
		require.Positive(t, replied[s.digest], "seed %d: the script %q never replied anything but an error", seed, s.name)
	}
	t.Logf("%d commands are equal, among them %d calls of %d scripts that were no errors", done, sum(replied), len(replied))
}

// check fails the test if the outcomes of steps differ, with the fewest steps that show it.
func check(t *testing.T, what string, steps []step, a, b place) {
	t.Helper()
	at, outcomes := differ(steps, a, b)
	if at < 0 {
		return
	}
	fewest := shrink(steps[:at+1], a, b)
	_, last := differ(fewest, a, b)
	var story strings.Builder
	for _, s := range fewest {
		fmt.Fprintln(&story, s)
	}
	t.Fatalf("%s: step %d: %v\nsimulated %s\nreal      %s\n\nthe fewest steps are these:\n%ssimulated %s\nreal      %s",
		what, at, steps[at], show(outcomes[0]), show(outcomes[1]), story.String(), show(last[0]), show(last[1]))
}

// show returns an outcome as a text.
func show(outcome any) string {
	switch o := outcome.(type) {
	case string:
		return strconv.Quote(o)
	case []any:
		all := make([]string, len(o))
		for i, v := range o {
			all[i] = show(v)
		}
		return "[" + strings.Join(all, " ") + "]"
	}
	return fmt.Sprintf("%T(%v)", outcome, outcome)
}

// count counts the calls of scripts that replied no error.
func count(replied map[string]int, steps []step) {
	for i, outcome := range (&simulated{}).play(steps) {
		if _, failed := outcome.(simredis.Err); failed || steps[i].what != command {
			continue
		}
		switch args := steps[i].args; args[0] {
		case "EVALSHA":
			replied[args[1]]++
		case "EVAL":
			replied[digestOf(args[1])]++
		}
	}
}

func sum(counts map[string]int) (all int) {
	for _, n := range counts {
		all += n
	}
	return all
}

package differential

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

var (
	commands = flag.Int("commands", enough, "how many commands are compared")
	seedFlag = flag.Uint64("seed", 1, "the rounds of this seed; 0 draws one")
	slots    = flag.Bool("slots", false, "compares clusters on random commands while slots move")
)

// enough is how many commands show every script many times. They take some 20 s of CPU.
const enough = 100_000

// perRound is how many commands a round has.
const perRound = 500

// perTalk is how many commands a round of talks has. One command in talksOf is one of talks' rounds.
const (
	perTalk = 60
	talksOf = 500
)

// TestDifferential compares the simulated Redis with a redis-server. If it fails, -seed repeats it.
func TestDifferential(t *testing.T) {
	r := startGenuine(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	done, replied := 0, map[string]int{}
	for round := uint64(0); done < *commands; round++ {
		steps := newGenerator(seed, round).round(perRound)
		done += perRound
		at, outcomes, others := differ(steps, &simulated{}, r)
		if at >= 0 {
			t.Fatalf("seed %d, round %d: %s\n\n%s", seed, round, difference(at, steps, outcomes, others), story(steps[:at+1], &simulated{}, r))
		}
		count(replied, steps, outcomes)
	}
	all, rarest := 0, script{}
	for _, s := range scripts() {
		all += replied[s.digest]
		if rarest.digest == "" || replied[s.digest] < replied[rarest.digest] {
			rarest = s
		}
	}
	t.Logf("%d commands are equal, among them %d calls of %d scripts that were no errors", done, all, len(scripts()))
	t.Logf("the rarest was %q, %d times", rarest.name, replied[rarest.digest])
	if *commands >= enough {
		require.Positive(t, replied[rarest.digest], "seed %d: the script %q never replied anything but an error", seed, rarest.name)
	}
}

// TestTalks compares connections with their users, their transactions and their subscriptions, and servers that refuse commands.
func TestTalks(t *testing.T) {
	r := startGenuineTalks(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	for round := range uint64(*commands / talksOf) {
		steps := newGenerator(seed, round).talks(perTalk)
		if at, outcomes, others := differ(steps, &simulatedTalks{}, r); at >= 0 {
			t.Fatalf("seed %d, round %d: %s\n\n%s", seed, round, difference(at, steps, outcomes, others), story(steps[:at+1], &simulatedTalks{}, r))
		}
	}
}

// difference tells which step has different outcomes.
func difference(at int, steps []step, first, second []any) string {
	if at < 0 {
		return "no difference, when the steps are played once more"
	}
	return fmt.Sprintf("step %d: %v\nsimulated %s\nreal      %s", at, steps[at], show(first[at]), show(second[at]))
}

// story tells the fewest of some steps that show a difference.
func story(steps []step, a, b place) string {
	var text strings.Builder
	fewest := shrink(steps, a, b)
	fmt.Fprintln(&text, "the fewest steps that show a difference:")
	for _, s := range fewest {
		fmt.Fprintln(&text, s)
	}
	at, first, second := differ(fewest, a, b)
	return text.String() + difference(at, fewest, first, second)
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
func count(replied map[string]int, steps []step, outcomes []any) {
	for i, outcome := range outcomes {
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

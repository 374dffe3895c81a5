package differential

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// planted are faults of a simulated Redis, which the comparison must find.
var planted = map[string]*simulated{
	"a key dies in the millisecond in which it expires": {plant: func(s *simredis.Server) {
		for _, key := range s.Keys() {
			if s.Do("PTTL", key) == int64(0) {
				s.Do("DEL", key)
			}
		}
	}},
	"a lease is 1 ms too long": {plant: func(s *simredis.Server) {
		for _, key := range s.Keys() {
			if s.Do("PTTL", key) == int64(3000) {
				s.Do("PEXPIRE", key, "3001")
			}
		}
	}},
	"a number has one digit more": {falsify: func(reply any) any {
		if text, ok := reply.(string); ok && strings.HasSuffix(text, "e+15") {
			return strings.Replace(text, "e+15", ".0e+15", 1)
		}
		return reply
	}},
	"an error has another text": {falsify: func(reply any) any {
		if reply == simredis.Err("ERR value is not an integer or out of range") {
			return simredis.Err("ERR value is no integer or out of range")
		}
		return reply
	}},
	"a grant is not delivered":  {lose: func(payload string) bool { return strings.HasPrefix(payload, "6 ") }},
	"scripts are not forgotten": {falsify: func(reply any) any { return unless(reply, "NOSCRIPT") }},
}

// unless returns a reply, but none that is such an error.
func unless(reply any, code string) any {
	if err, ok := reply.(simredis.Err); ok && strings.HasPrefix(string(err), code) {
		return nil
	}
	return reply
}

// plantedTalks are faults of a simulated Redis with connections.
var plantedTalks = map[string]*simulatedTalks{
	"a right is kept that was taken away": {plant: func(_ *simredis.Server, args []string) []string {
		return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "-set" || arg == "-eval" })
	}},
	"a channel needs no right": {plant: func(_ *simredis.Server, args []string) []string {
		if is(args, "ACL", "SETUSER") {
			return append(args, "allchannels")
		}
		return args
	}},
	"what a script is denied has another text": {falsify: func(item any) any { return renamed(item, "executing the script can't", "cannot") }},
	"a key that is denied is called a command": {falsify: func(item any) any {
		return renamed(item, "NOPERM this user has no permissions to access one of the keys", "NOPERM this user has no permissions to run one of the keys")
	}},
	"a script needs no memory": {falsify: func(item any) any {
		if err, ok := item.(simredis.Err); ok && strings.HasPrefix(string(err), "OOM") && strings.Contains(string(err), "script: ") {
			return nil
		}
		return item
	}},
	"a replica takes writes":           {plant: func(_ *simredis.Server, args []string) []string { return instead(args, "REPLICAOF", "UNWATCH") }},
	"a transaction with an error runs": {falsify: func(item any) any { return unless(item, "EXECABORT") }},
	"a pattern does not count": {falsify: func(item any) any {
		if list, ok := item.([]any); ok && len(list) == 3 && list[0] == "psubscribe" {
			return []any{list[0], list[1], int64(0)}
		}
		return item
	}},
	"a kill forgets those who listen": {plant: func(_ *simredis.Server, args []string) []string {
		if is(args, "CLIENT", "KILL") && slices.Contains(args, "pubsub") {
			return []string{"EXISTS", "nosuch"}
		}
		return args
	}},
	"ACL LOG has only the last one": {plant: func(s *simredis.Server, args []string) []string {
		if is(args, "ACL", "LOG") && len(args) == 2 {
			return append(args, "1")
		}
		return args
	}},
}

// is reports whether a command begins with these words. An empty second word is any.
func is(args []string, first, second string) bool {
	return args[0] == first && (second == "" || len(args) > 1 && args[1] == second)
}

// instead returns another command, with the same reply, in the place of one.
func instead(args []string, command, other string) []string {
	if args[0] == command && len(args) > 1 && args[1] != "NO" {
		return []string{other}
	}
	return args
}

// renamed returns an error with another text.
func renamed(item any, from, to string) any {
	if err, ok := item.(simredis.Err); ok {
		return simredis.Err(strings.Replace(string(err), from, to, 1))
	}
	return item
}

// hunt returns the fewest steps that show a fault, or nil if some rounds do not. The rounds are always the same.
func hunt(faulty, right place) []step {
	return huntIn(faulty, right, 60, func(g *generator) []step { return g.round(perRound) })
}

func huntIn(faulty, right place, rounds uint64, play func(g *generator) []step) []step {
	for round := range rounds {
		steps := play(newGenerator(1, round))
		if at, _, _ := differ(steps, faulty, right); at >= 0 {
			return shrink(steps[:at+1], faulty, right)
		}
	}
	return nil
}

// TestPlantedFaultsAreFound checks that the comparison can fail.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	for fault, faulty := range planted {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			fewest := hunt(faulty, &simulated{})
			require.NotEmpty(t, fewest)
			require.Less(t, len(fewest), perRound/10, "%v", fewest)
			t.Logf("%d steps: %v", len(fewest), fewest)
		})
	}
	require.Empty(t, hunt(&simulated{}, &simulated{}), "two that are equal")
}

func TestPlantedFaultsOfConnectionsAreFound(t *testing.T) {
	t.Parallel()
	talks := func(g *generator) []step { // without the numbers of commands, which would show at once that another one came
		return slices.DeleteFunc(g.talks(perTalk), func(s step) bool { return len(s.args) > 0 && s.args[0] == "INFO" })
	}
	for fault, faulty := range plantedTalks {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			fewest := huntIn(faulty, &simulatedTalks{}, 300, talks)
			require.NotEmpty(t, fewest)
			require.Less(t, len(fewest), perTalk/4, "%v", fewest)
			t.Logf("%d steps: %v", len(fewest), fewest)
		})
	}
	require.Empty(t, huntIn(&simulatedTalks{}, &simulatedTalks{}, 30, talks), "two that are equal")
}

// TestPlantedExpiryIsFound checks the same with a redis-server: its clock stands exactly where it has to.
func TestPlantedExpiryIsFound(t *testing.T) {
	fewest := hunt(planted["a key dies in the millisecond in which it expires"], startGenuine(t))
	require.NotEmpty(t, fewest)
	t.Logf("%d steps: %v", len(fewest), fewest)
}

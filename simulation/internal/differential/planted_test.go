package differential

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
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

// hunt returns the fewest steps that show a fault, or nil if some rounds do not. The rounds are always the same.
func hunt(faulty, right place) []step {
	for round := range uint64(60) {
		steps := newGenerator(1, round).round(perRound)
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

// TestPlantedExpiryIsFound checks the same with a redis-server: its clock stands exactly where it has to.
func TestPlantedExpiryIsFound(t *testing.T) {
	fewest := hunt(planted["a key dies in the millisecond in which it expires"], startGenuine(t))
	require.NotEmpty(t, fewest)
	t.Logf("%d steps: %v", len(fewest), fewest)
}

package scene

import (
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPartsAreLeftOut leaves each part of many scenes out, and then all.
func TestPartsAreLeftOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		s := Swarm(seed)
		parts := s.Parts()
		for _, part := range parts {
			m := Smaller{Without: part}
			without, _, err := m.Of(s, seed)
			require.NoError(t, err)
			require.NotContains(t, without.Parts(), part, "seed %d", seed)
			require.Equal(t, parts, s.Parts(), "the scene itself stays as it is")
		}
		left := s
		for len(left.Parts()) > 0 {
			m := Smaller{Without: left.Parts()[0]}
			next, _, err := m.Of(left, seed)
			require.NoError(t, err)
			require.Less(t, len(next.Parts()), len(left.Parts()), "seed %d", seed)
			require.NotEmpty(t, next.Locks)
			left = next
		}
		bare(t, reflect.ValueOf(left), seed)
	}
}

// bare checks that all which a scene may have or not is left out, so that a new field is a part, too.
func bare(t *testing.T, scene reflect.Value, seed uint64) {
	t.Helper()
	for i := range scene.NumField() {
		switch name, v := scene.Type().Field(i).Name, scene.Field(i); {
		case v.Kind() == reflect.Struct:
			bare(t, v, seed)
		case name == "Locks" || name == "Options":
			require.Equal(t, 1, v.Len(), name)
		case v.Kind() == reflect.Slice:
			require.Zero(t, v.Len(), "seed %d: %s", seed, name)
		case v.Kind() == reflect.Float64 || v.Kind() == reflect.Bool && name != "Unsafe":
			require.True(t, v.IsZero(), "seed %d: %s", seed, name)
		}
	}
}

func TestSmallerScenes(t *testing.T) {
	t.Parallel()
	s := Scene{Processes: 4, Workers: 3, Duration: time.Hour, Locks: []Lock{{kindLock, "a"}}}
	same, seed, err := (&Smaller{}).Of(s, 7)
	require.NoError(t, err)
	require.Equal(t, s, same)
	require.EqualValues(t, 7, seed)

	m := Smaller{Until: 90 * time.Second, Processes: 2, Workers: 1, Schedule: 3}
	less, seed, err := m.Of(s, 7)
	require.NoError(t, err)
	require.Equal(t, Scene{Processes: 2, Workers: 1, Duration: 90 * time.Second, Locks: s.Locks}, less)
	require.NotEqualValues(t, 7, seed, "another schedule of the same scene")
	require.Equal(t, " UNTIL=1m30s PROCESSES=2 WORKERS=1 SCHEDULE=3", m.String())

	m.Without = "late,fair/{q}"
	var read Smaller
	fs := flag.NewFlagSet("", flag.PanicOnError)
	read.Flags(fs)
	require.NoError(t, fs.Parse(m.Args()))
	require.Equal(t, m, read)

	_, _, err = m.Of(s, 7)
	require.ErrorContains(t, err, `no "late" to leave out`)
	_, _, err = (&Smaller{Without: strings.Join(s.Parts(), ",")}).Of(s, 7)
	require.NoError(t, err, "the only lock stays")
}

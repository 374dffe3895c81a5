package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
)

func TestNamesWithBraces(t *testing.T) {
	t.Parallel()
	n := NewNames(Plain, "a{b}c", "client")
	require.Equal(t, []any{"a{b}c", "redisson_unlock_latch:a{b}c:client"}, n.Keys)
	require.Equal(t, "redisson_lock__channel:a{b}c", n.Channel)
	require.Equal(t, any(n.Channel), n.Boxed)
	require.Equal(t, "a{b}c:suffix", suffixed("a{b}c", "suffix"))
}

// TestAllocationsOfNames matters to handles that are made for one use. Four names are boxed, as they are sent.
func TestAllocationsOfNames(t *testing.T) { // not parallel: it counts allocations
	clientID := strings.Repeat("c", 36)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { NewNames(Plain, "order:1234567890", clientID) }), 6.0)
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]struct{ single, cluster bool }{
		"":                            {false, false},
		"name":                        {true, true},
		"a{b}c":                       {true, true},
		"a{}c":                        {true, false},
		"a{b":                         {true, false},
		"a}b":                         {true, false},
		"}":                           {true, false},
		strings.Repeat("x", 64<<10):   {true, true},
		strings.Repeat("x", 64<<10+1): {false, false},
	} {
		for cluster, want := range map[bool]bool{false: ok.single, true: ok.cluster} {
			err := Plain.CheckName(name, cluster)
			if want {
				require.NoError(t, err, "%.20q on a cluster: %v", name, cluster)
			} else {
				require.ErrorIs(t, err, fault.ErrInvalidName, "%.20q on a cluster: %v", name, cluster)
			}
		}
	}
}

// TestSlot has the slots that Redis computes by CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint16{
		"": 0, "foo": 12182, "bar": 5061, "123456789": 12739, "{foo}.bar": 12182, "x{bar}": 5061, "{}foo": 9500,
	} {
		require.Equal(t, want, Slot(key), key)
	}
	for _, k := range Kinds {
		for _, name := range []string{"name", "a{b}c"} {
			n := NewNames(k, name, "client")
			h := NewHolder(k, n, "client", 1)
			for _, key := range h.Keys(n) {
				require.Equal(t, Slot(name), Slot(key), "a cluster keeps %s with %s", key, name)
			}
		}
	}
}

func TestOpposite(t *testing.T) {
	t.Parallel()
	require.Equal(t, ReadSide, MainSide.Opposite())
	require.Equal(t, MainSide, ReadSide.Opposite())
}

package place

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatAChannelIsAbout has far more channels than a client hears at a time. It knows those that it hears, and few others.
func TestWhatAChannelIsAbout(t *testing.T) {
	t.Parallel()
	var o Origins[int]
	require.Zero(t, o.Of("c1"))
	heard := make(map[string]bool)
	for i := range 10_000 {
		heard[fmt.Sprint("c", i)] = true
		delete(heard, fmt.Sprint("c", i-100))
		o.Note(fmt.Sprint("c", i), i, func(channel string) (uint64, bool) { return 0, heard[channel] })
		for k := max(0, i-99); k <= i; k++ {
			require.Equal(t, k, o.Of(fmt.Sprint("c", k)))
		}
		require.LessOrEqual(t, len(o.channels), 201)
	}
}

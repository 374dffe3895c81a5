package fairness_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/table/internal/fairness"
)

// TestReleases checks that the latest release of each of the latest few names is remembered.
func TestReleases(t *testing.T) {
	t.Parallel()
	var r fairness.Releases[int]
	require.Nil(t, r.Of(1))
	for key := 1; key <= 8; key++ {
		r.Add(fairness.Release[int]{Key: key, Own: 1})
	}
	r.Add(fairness.Release[int]{Key: 1, Own: 2})
	for key := 1; key <= 8; key++ {
		require.NotNil(t, r.Of(key), "a second release of a name takes no second place")
	}
	require.Equal(t, uint64(2), r.Of(1).Own, "the latest one counts")
	r.Add(fairness.Release[int]{Key: 9})
	require.Nil(t, r.Of(1), "the one that is there for longest makes way")
	require.NotNil(t, r.Of(2))
	require.NotNil(t, r.Of(9))
}

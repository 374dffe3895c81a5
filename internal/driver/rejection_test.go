package driver_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

func TestUnreplicated(t *testing.T) {
	t.Parallel()
	few := driver.Unreplicated(nil, "%d of %d replicas", 1, 2)
	require.Equal(t, fault.Unreplicated, few.Fate)
	require.False(t, few.Transient)
	require.False(t, few.InDoubt())
	require.ErrorIs(t, few, fault.ErrNotReplicated)
	require.ErrorContains(t, few, "1 of 2 replicas")
	refused := driver.Unreplicated(driver.Rejected(errors.New("READONLY no"), "READONLY no", false), "Redis refuses WAIT")
	require.ErrorIs(t, refused, fault.ErrNotReplicated)
	require.ErrorContains(t, refused, "Redis refuses WAIT: READONLY no")
	require.True(t, refused.Stale)
	require.False(t, refused.Transient)
}

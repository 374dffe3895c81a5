package driver_test

import (
	"errors"
	"strings"
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

// TestAlone: the errors of a node of a cluster say what to use instead, and match what they matched before. Other errors stay.
func TestAlone(t *testing.T) {
	t.Parallel()
	for text, explained := range map[string]bool{
		"MOVED 1 127.0.0.1:1": true, "ASK 1 127.0.0.1:1": true, "CROSSSLOT Keys in request don't hash to the same slot": true,
		"CLUSTERDOWN Hash slot not served": true, "TRYAGAIN Multiple keys request during rehashing of slot": true,
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -MOVED 1 127.0.0.1:1": true,
		"NOPERM MOVED ": false, "READONLY You can't write": false, "ERR unknown command": false,
	} {
		reply := errors.New(text)
		before, f := driver.Rejected(reply, text, false), driver.Alone(driver.Rejected(reply, text, false), "pkg.NewClusterClient")
		require.ErrorIs(t, f, reply)
		require.Equal(t, explained, strings.Contains(f.Error(), "a node of a cluster") && strings.HasSuffix(f.Error(), " use pkg.NewClusterClient: "+text), f)
		f.Err = before.Err
		require.Equal(t, before, f)
	}
}

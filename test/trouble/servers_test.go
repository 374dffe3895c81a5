package trouble

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestErrorsOfOldServersAreClassified covers Redis 6.2, which adds a prefix to the error of a command in a script.
// docs/servers.md documents the test runs on old servers.
func TestErrorsOfOldServersAreClassified(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	const before = "ERR Error running script (call to f_3f978495885997a04cd2e6d60eeeb18a528395b2): @user_script:10: @user_script: 10: "
	for _, state := range []string{
		"NOREPLICAS Not enough good replicas to write.", "READONLY You can't write against a read only replica.",
	} {
		require.True(t, testkit.Transient(client, testkit.ServerError(state)), state)
		require.True(t, testkit.Transient(client, testkit.ServerError(before+"-"+state)), state)
		require.True(t, testkit.Transient(client, testkit.ServerError("@user_script: 1: -"+state)), state)
	}
	require.False(t, testkit.Transient(client, testkit.ServerError(before+"-WRONGTYPE Operation against a key holding the wrong kind of value")))
	require.False(t, testkit.Transient(client, testkit.ServerError("ERR no such thing: -READONLY")))
}

package rlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestErrorsOfOldServersAreClassified covers Redis 6.2, which adds a prefix to the error of a command in a script.
// docs/servers.md documents the test runs on old servers.
func TestErrorsOfOldServersAreClassified(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	const before = "ERR Error running script (call to f_3f978495885997a04cd2e6d60eeeb18a528395b2): @user_script:10: @user_script: 10: "
	for _, state := range []string{
		"NOREPLICAS Not enough good replicas to write.", "READONLY You can't write against a read only replica.",
	} {
		require.True(t, client.Transient(serverError(state)), state)
		require.True(t, client.Transient(serverError(before+"-"+state)), state)
		require.True(t, client.Transient(serverError("@user_script: 1: -"+state)), state)
	}
	require.False(t, client.Transient(serverError(before+"-WRONGTYPE Operation against a key holding the wrong kind of value")))
	require.False(t, client.Transient(serverError("ERR no such thing: -READONLY")))
}

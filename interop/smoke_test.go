package interop_test

import (
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestAMultiLockOfBothLanguages(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, a, b := redistest.Start(t), newName(), newName()
		inGo := newMultiLock(newClient(t, server.Client(t)), a, b)
		thread := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1)
		inJava, member := thread.lock("multi", a, b), thread.lock("lock", b)

		require.NoError(t, inJava.Lock())
		ok, err := inGo.TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, inJava.Unlock())
		require.NoError(t, inGo.Lock(t.Context()))
		ok, err = member.TryLock()
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, inGo.Unlock(t.Context()))
	})
}

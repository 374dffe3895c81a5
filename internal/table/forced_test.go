package table

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

func TestTheLatestUnlocksByForceAreRemembered(t *testing.T) {
	t.Parallel()
	table, _ := lineTable()
	one, two := table.Key("one", wire.PlainFamily), table.Key("two", wire.PlainFamily)
	since := table.forcedSince
	require.False(t, since(one, 0, 0))
	table.noteForced(one, 10)
	require.True(t, since(one, 0, 0))
	require.True(t, since(one, 0, 9))
	require.False(t, since(one, 0, 10), "it was not later")
	require.False(t, since(one, table.forcings, 0))
	require.False(t, since(two, 0, 0))
	table.noteForced(two, 20)
	require.False(t, since(one, 0, 10), "the later one was another")
	table.noteForced(one, 9)
	require.True(t, since(one, 2, 0))
	require.False(t, since(one, 2, 10), "none was later")
	before := table.forcings
	for i := range 100 {
		table.noteForced(table.Key(string(rune('a'+i)), wire.PlainFamily), 0)
	}
	require.True(t, since(one, 0, 10), "what is forgotten may have been there")
	require.False(t, since(one, table.forcings-10, 0))
	table.noteForced(two, 0)
	require.True(t, since(two, before, 30), "nobody knows when it was")
}

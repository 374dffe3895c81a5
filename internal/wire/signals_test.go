package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	const id = "00000000-0000-4000-8000-000000000001"
	for channel, want := range map[string]bool{
		"redisson_sc:{a}":                          true,
		"redisson_sc:a{b}c":                        true,
		"redisson_sc:{a}:" + id:                    false,
		"redisson_sc:a{b}c:" + id:                  false,
		"redisson_sc:{a}:another client":           true,
		"redisson_countdownlatch__channel__{a}":    true,
		"redisson_countdownlatch__channel__{a{b}}": true,
		"redisson_countdownlatch__channel__":       false,
		"redisson_lock__channel:{redisson_sc:a}":   false,
		"redisson_sc":                              false,
		"":                                         false,
	} {
		require.Equal(t, want, wire.Signals(channel, id), channel)
	}
	require.True(t, wire.Signals("redisson_sc:{a}", ""), "a hub without an id has no channel of its own")
}

package pump

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestANameIsWatchedUntilItIsUnsubscribed has local queues ask for a watch and leave it in every order.
func TestANameIsWatchedUntilItIsUnsubscribed(t *testing.T) {
	t.Parallel()
	var w Watches[string]
	watched := func() string {
		h, _ := w.Of("channel")
		return h
	}
	require.Empty(t, watched())
	_, ended := w.Unsubscribed("channel")
	require.False(t, ended, "it never was")
	w.Begin("channel", "one")
	w.Begin("channel", "two")
	require.Equal(t, "one", watched())
	w.End("channel")
	h, ended := w.Unsubscribed("channel")
	require.False(t, ended, "a queue still asks for it")
	require.Equal(t, "one", h)
	w.End("channel")
	require.Equal(t, "one", watched(), "it is still subscribed")
	w.Begin("channel", "three")
	w.Unsubscribed("channel")
	require.Equal(t, "one", watched(), "a queue asked for it again before that")
	w.End("channel")
	h, ended = w.Unsubscribed("channel")
	require.True(t, ended)
	require.Equal(t, "one", h)
	require.Empty(t, watched())
	require.Zero(t, w.Len())
}

// TestOnePumpAtATime frees a lock before and after the pump for it is sent.
func TestOnePumpAtATime(t *testing.T) {
	t.Parallel()
	var p Pumps[string]
	require.True(t, p.Begin("channel", "one"))
	require.True(t, p.Begin("another", "two"))
	require.False(t, p.Begin("channel", "one"))
	require.Equal(t, "one", p.Send("channel"))
	require.False(t, p.End("channel").Again, "it was sent after the lock was freed")

	require.True(t, p.Begin("channel", "one"))
	p.Send("channel")
	require.False(t, p.Begin("channel", "one"))
	ended := p.End("channel")
	require.True(t, ended.Again, "it may have been executed before the lock was freed")

	require.Equal(t, 1, p.Repeat("channel", ended))
	require.True(t, p.Has("channel"))
	require.False(t, p.Begin("channel", "one"))
	ended = p.End("channel")
	require.False(t, ended.Again, "it had not been sent again")
	require.Equal(t, 2, p.Repeat("channel", ended))
	p.End("channel")
	require.False(t, p.Has("channel"))
	require.True(t, p.Has("another"))
}

package conform

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// silenceIsNotContention has Redis not answer: every verb says so, and in time.
func silenceIsNotContention(f *fixture) {
	const timeout = 6 * time.Second
	var network testkit.Outage
	client := testkit.NewClient(f, network.Behind(f, f.rdb), append(slices.Clip(f.opts), rlock.WithCommandTimeout(timeout))...)
	warm := f.newLock(client, f.name)
	require.NoError(f, warm.Lock(f.Context()))
	require.NoError(f, warm.Unlock(f.Context()))
	network.Silent.Store(true)
	const wait = 50 * time.Millisecond
	type outcome struct {
		what string
		err  error
		took time.Duration
	}
	outcomes := make(chan outcome)
	calls, passed := 0, redistest.Stopwatch(f)
	call := func(what string, verb testkit.Verb, d time.Duration) {
		calls++
		l := f.newLock(client, testkit.NewName())
		go func() {
			began := passed()
			err := verb(f.Context(), l, rlock.Wait(d))
			outcomes <- outcome{what, err, passed() - began}
		}()
	}
	for what, verb := range testkit.Verbs {
		call(what+" with a short wait", verb, wait)
		call(what+" with a single attempt", verb, 0)
	}
	for range calls {
		o := testkit.Within(f, "a call returns", outcomes)
		require.ErrorIs(f, o.err, rlock.ErrUnavailable, o.what)
		require.NotErrorIs(f, o.err, rlock.ErrNotAcquired, o.what)
		require.Less(f, o.took, timeout*4/5, "%s: a fifth of the command timeout, and what a busy machine adds", o.what)
		if !f.kind.Groups {
			require.NotErrorIs(f, o.err, context.DeadlineExceeded, "%s: the caller's context has no deadline", o.what)
		}
	}
	network.Silent.Store(false)
	other := f.rival()
	require.NoError(f, other.Lock(f.Context(), rlock.Wait(testkit.ALongTime)), "nothing is left behind")
	require.NoError(f, other.Unlock(f.Context()))
}

package claims

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAnEndlessWait waits for as long as a Duration can say, or with a deadline that is too far for a Duration. The wait is
// not over at once: neither a refusal nor an error that passes ends it.
func TestAnEndlessWait(t *testing.T) {
	t.Parallel()
	type call struct {
		server  *testkit.FakeServer
		waiting <-chan error
	}
	calls := make(map[string]call)
	for kind, k := range testkit.Kinds {
		for what, wait := range map[string]func(l testkit.Locker) error{
			"Wait": func(l testkit.Locker) error { return l.Lock(t.Context(), rlock.Wait(math.MaxInt64)) },
			"a deadline": func(l testkit.Locker) error {
				far, cancel := context.WithDeadline(t.Context(), time.Unix(1<<40, 0))
				defer cancel()
				return l.Lock(far)
			},
		} {
			for why, reply := range map[string]any{"refused": int64(-50), "loading": testkit.ServerError("LOADING data")} {
				server, client := testkit.NewFakeServer(t, rlock.WithCommandTimeout(testkit.ALongTime))
				server.Fake("acquire", reply)
				lock := k.Make(client, "name")
				calls[kind+", "+what+", "+why] = call{server, testkit.Async(func() error { return wait(lock) })}
			}
		}
	}
	testkit.Stays(t, "the calls wait", func() bool {
		for what, c := range calls {
			if len(c.waiting) > 0 {
				t.Errorf("%s: %v", what, <-c.waiting)
			}
		}
		return !t.Failed()
	})
	for _, c := range calls {
		c.server.Fake("acquire", int64(0))
	}
	for what, c := range calls {
		require.NoError(t, testkit.Within(t, what, c.waiting))
	}
}

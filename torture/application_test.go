package torture

import (
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestApplicationsDiffer checks that every sort of application is drawn, and that none panics in this process.
func TestApplicationsDiffer(t *testing.T) {
	type sort struct{ embeds, wraps, panics, repeats bool }
	drawn := make(map[sort]bool)
	for seed := range uint64(200) {
		for _, apart := range []bool{false, true} {
			app := Site{Seed: seed, Apart: apart}.application(func(Moment) {})
			var s sort
			if app.wrapper != nil {
				_, s.embeds = app.wrapper(nil).(embedding)
				_, s.wraps = app.wrapper(nil).(wrapping)
			}
			s.panics, s.repeats = app.panics, app.repeats
			drawn[s] = true
			require.False(t, app.panics && !apart)
		}
	}
	require.Len(t, drawn, 3*2*2)
}

// TestHooksOfApplications checks that the hook panics under scripts alone, runs them again, and says so before.
func TestHooksOfApplications(t *testing.T) {
	t.Parallel()
	script := redis.NewScript("return redis.call('INCR', KEYS[1])")
	for _, name := range []string{"panics", "repeats"} {
		rdb := redistest.Embedded(t)
		require.NoError(t, script.Load(t.Context(), rdb).Err())
		app := Site{}.application(func(Moment) {})
		doubts, panics := 0, 0
		app.panics, app.repeats, app.doubt = name == "panics", name == "repeats", func(Moment) { doubts++ }
		rdb.AddHook(app)
		run := func(call func() error) {
			defer func() {
				if recover() != nil {
					panics++
				}
			}()
			require.NoError(t, call())
		}
		const calls = 5000
		for i := range calls {
			run(func() error { return rdb.Incr(t.Context(), "other").Err() })
			if i%2 == 0 {
				run(func() error { return script.EvalSha(t.Context(), rdb, []string{name}).Err() })
				continue
			}
			run(func() error {
				_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { return script.EvalSha(t.Context(), p, []string{name}).Err() })
				return err
			})
		}
		other, ran := must(rdb.Get(t.Context(), "other").Int()), must(rdb.Get(t.Context(), name).Int())
		require.Equal(t, calls, other, "commands that are no scripts run once")
		require.Positive(t, doubts)
		if app.panics {
			require.Equal(t, doubts, panics)
			require.Less(t, ran, calls, "some panics come before")
			require.Greater(t, ran, calls-doubts, "others come after")
		} else {
			require.Zero(t, panics)
			require.Equal(t, calls+doubts, ran)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestTheEndOfAProcessIsReported checks that a process that ends by itself is a fault, and one that is made to end is none.
func TestTheEndOfAProcessIsReported(t *testing.T) {
	t.Parallel()
	a := newArena(t, Scene{Topology: topologySingle, Mix: mix()})
	for range 3 {
		a.spawn(formPlain, 1)
	}
	for _, c := range a.children {
		a.eventually("the process has started", func() bool { return len(a.collector.clientsOf(c.site.Name)) > 0 })
	}
	a.children[0].kill()
	a.children[1].stop()
	require.Empty(t, a.collector.found)
	a.children[2].signal(syscall.SIGTERM)
	<-a.children[2].ended
	require.Len(t, a.collector.found, 1)
	require.True(t, strings.HasPrefix(a.collector.found[0], a.children[2].site.Name+": the process ended by itself"))
}

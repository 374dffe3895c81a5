package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest/host"
)

// most returns how long a call may take, and what this machine may add to it.
func (c *cell) most() time.Duration {
	const (
		commandTimeout = 5 * time.Second
		floor          = commandTimeout / 5 // an attempt gets it, whatever the wait
	)
	slack := 2 * time.Second
	if host.Virtual { // such a machine adds nothing
		slack = 100 * time.Millisecond
	}
	switch {
	case c.method.unlocks && c.kind == "multi":
		return 2*commandTimeout + slack // the first member comes after all others
	case c.method.unlocks:
		return commandTimeout + slack
	case c.bound.waits:
		return max(c.bound.after, floor) + slack
	}
	return c.bound.after + slack
}

// late reports whether a call outlasted its bound.
func (c *cell) late() bool { return c.ran >= c.most() }

// check compares an outcome with what rlock promises. Nobody else has any of the locks.
func (c *cell) check(t *testing.T, what string) {
	t.Helper()
	require.False(t, c.late(), what)
	require.False(t, c.method.acquires && c.err == nil, what) // "false, nil" would say that somebody else has it
	require.False(t, errors.Is(c.err, rlock.ErrUnavailable) && errors.Is(c.err, rlock.ErrLost), what)
	if c.kind == latch && (c.fault == "out of memory" || c.fault == "a read-only replica") && errors.Is(c.err, rlock.ErrNotAcquired) {
		return // such a server can still say that the latch is closed
	}
	require.NotErrorIs(t, c.err, rlock.ErrNotAcquired, what)
	if errors.Is(c.err, context.Canceled) || c.err == nil || c.method.name == "Hold.Extend" && errors.Is(c.err, context.DeadlineExceeded) {
		return
	}
	unavailable := errors.Is(c.err, rlock.ErrUnavailable)
	if c.fault == "out of memory" {
		require.False(t, unavailable, "waiting does not help: %s", what)
		require.ErrorContains(t, c.err, "OOM", what)
		return
	}
	require.True(t, unavailable || c.method.held && errors.Is(c.err, rlock.ErrNotHeld), what)
}

// TestMeasured writes the measured section of the page. It runs with make errors only, because it takes a minute.
func TestMeasured(t *testing.T) {
	if !*update {
		t.Skip("only make errors measures")
	}
	texts := make([]string, len(faults))
	t.Run("faults", func(t *testing.T) {
		for i, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				texts[i] = fmt.Sprintf("### %s\n\n%s\n\n%s\n", strings.ToUpper(f.name[:1])+f.name[1:], f.what, compress(f.measure(t, bounds)))
			})
		}
	})
	section(t, page, "measured", strings.Join(texts, "\n"))
}

// line is a row of the measured table: methods and kinds that are alike, and their outcomes under each bound.
type line struct {
	methods, kinds []string
	alike          string
	outcomes       [][]*cell
}

func (l *line) add(methods, kinds []string, outcomes [][]*cell) {
	for _, m := range methods {
		if !slices.Contains(l.methods, m) {
			l.methods = append(l.methods, m)
		}
	}
	for _, k := range kinds {
		if !slices.Contains(l.kinds, k) {
			l.kinds = append(l.kinds, k)
		}
	}
	for i := range outcomes {
		l.outcomes[i] = append(l.outcomes[i], outcomes[i]...)
	}
}

// lines returns a line for each method and kind.
func lines(cells []*cell) (all []*line) {
	for m := range methods {
		for _, kind := range kinds {
			l := &line{methods: []string{methods[m].name}, kinds: []string{kind}}
			exists := false
			for b := range bounds {
				i := slices.IndexFunc(cells, func(c *cell) bool {
					return c.method == &methods[m] && c.kind == kind && c.bound == &bounds[b]
				})
				var outcome *cell
				if i >= 0 {
					outcome, exists = cells[i], true
				}
				l.outcomes = append(l.outcomes, []*cell{outcome})
				l.alike += outcome.alike() + ";"
			}
			if exists {
				all = append(all, l)
			}
		}
	}
	return all
}

// join joins the lines for which same reports true.
func join(all []*line, same func(a, b *line) bool) (joined []*line) {
	for _, l := range all {
		if i := slices.IndexFunc(joined, func(other *line) bool { return same(other, l) }); i >= 0 {
			joined[i].add(l.methods, l.kinds, l.outcomes)
		} else {
			joined = append(joined, l)
		}
	}
	return joined
}

// compress returns a table in which the kinds that behave alike share a row, and so do methods of the same kinds.
func compress(cells []*cell) string {
	rows := join(lines(cells), func(a, b *line) bool { return a.alike == b.alike && slices.Equal(a.methods, b.methods) })
	rows = join(rows, func(a, b *line) bool { return a.alike == b.alike && slices.Equal(a.kinds, b.kinds) })
	heads := []string{"method", "kinds"}
	for _, b := range bounds {
		heads = append(heads, b.name)
	}
	text := table(heads...)
	for _, l := range rows {
		cells := []string{"`" + strings.Join(l.methods, "`, `") + "`", kindsOf(l.kinds)}
		for _, o := range l.outcomes {
			cells = append(cells, shown(o))
		}
		text += row(cells...)
	}
	return text
}

// kindsOf names kinds, and says "all locks" for all kinds of locks, or for all that have the method.
func kindsOf(some []string) string {
	n := 0 // how many of them are locks, which come first
	for n < len(some) && slices.Contains(locks, some[n]) {
		n++
	}
	switch {
	case slices.Equal(some[:n], locks):
		some = append([]string{"all locks"}, some[n:]...)
	case slices.Equal(some[:n], locks[:len(locks)-2]):
		some = append([]string{"all locks but multi, red"}, some[n:]...)
	}
	return strings.Join(some, ", ")
}

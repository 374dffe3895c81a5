package claims

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// TestWhatIsPrinted has the kind and the name, and nothing by which somebody else could act as a holder.
func TestWhatIsPrinted(t *testing.T) {
	t.Parallel()
	c := testkit.NewClient(t, redistest.Embedded(t), rlock.WithKeyPrefix("app:"))
	lock, fenced, rw := c.NewLock("a"), c.NewLock("b", rlock.Fenced()), c.NewRWLock("c")
	multi := rlock.NewMultiLock(lock, c.NewFairLock("d"))
	semaphore := c.NewSemaphore("e", rlock.Total(2))
	held := func(of handles.Any) *rlock.Hold { return testkit.Must(of.Acquire(t.Context())) }
	token := held(fenced)
	for _, printed := range []struct {
		value fmt.Stringer
		want  string
	}{
		{lock, `lock "a"`},
		{fenced, `fenced lock "b"`},
		{c.NewFairLock("d", rlock.Fenced()), `fenced fair lock "d"`},
		{c.NewSpinLock("s"), `spin lock "s"`},
		{rw, `read-write lock "c"`},
		{rw.Reader(), `read lock "c"`},
		{rw.Writer(), `write lock "c"`},
		{multi, `multi lock of "a", "d"`},
		{rlock.NewRedLock(lock, fenced), `red lock of "a", "b"`},
		{semaphore, `semaphore "e"`},
		{c.NewPlainSemaphore("f"), `plain semaphore "f"`},
		{c.NewCountDownLatch("g"), `count-down latch "g"`},
		{c.NewElection("h"), `election "h"`},
		{held(lock), `hold of lock "a"`},
		{token, fmt.Sprintf(`hold of fenced lock "b" with token %d`, token.Token())},
		{held(rw.Reader()), `hold of read lock "c"`},
		{held(rlock.NewMultiLock(c.NewLock("i"), c.NewLock("j"))), `hold of multi lock of "i", "j"`},
		{held(semaphore), `hold of semaphore "e"`},
		{c.NewLock("line\nbreak"), `lock "line\nbreak"`},
		{c.NewLock(strings.Repeat("x", 100)), `lock "` + strings.Repeat("x", 64) + `"...`},
		{c.NewLock(""), `lock ""`},
	} {
		for _, verb := range []string{"%v", "%s", "%+v"} {
			require.Equal(t, printed.want, fmt.Sprintf(verb, printed.value))
		}
	}
	borrowed, ok := rlock.HoldFrom(token.Context(), fenced)
	require.True(t, ok)
	require.Equal(t, token.String(), borrowed.String())
	require.NotContains(t, fmt.Sprint(token.Context(), rlock.WithOwner(token.Context())), c.ID(), "contexts are printed, too")
}

// TestNothingIsPrinted has nil and zero values, which must not panic.
func TestNothingIsPrinted(t *testing.T) {
	t.Parallel()
	var none *rlock.Client
	for want, values := range map[string][]fmt.Stringer{
		"no lock":            {(*rlock.Lock)(nil), new(rlock.Lock), none.NewLock("a"), new(rlock.Client).NewFairLock("a")},
		"no read-write lock": {(*rlock.RWLock)(nil), new(rlock.RWLock), none.NewRWLock("a")},
		"no multi lock":      {(*rlock.MultiLock)(nil), new(rlock.MultiLock)},
		"no red lock":        {(*rlock.RedLock)(nil), new(rlock.RedLock)},
		"no semaphore":       {(*rlock.Semaphore)(nil), new(rlock.Semaphore), none.NewSemaphore("a")},
		"no plain semaphore": {(*rlock.PlainSemaphore)(nil), new(rlock.PlainSemaphore), none.NewPlainSemaphore("a")},
		"no count-down latch": {
			(*rlock.CountDownLatch)(nil), new(rlock.CountDownLatch), none.NewCountDownLatch("a"),
		},
		"no election": {(*rlock.Election)(nil), new(rlock.Election), none.NewElection("a")},
		"no hold":     {(*rlock.Hold)(nil), new(rlock.Hold)},
	} {
		for _, value := range values {
			require.Equal(t, want, value.String())
			require.Equal(t, want, fmt.Sprint(value))
		}
	}
	require.Equal(t, "multi lock of no locks", rlock.NewMultiLock().String())
	require.NotPanics(t, func() { _ = fmt.Sprint(rlock.NewRedLock(nil), rlock.EnsureOwner(context.Background())) })
}

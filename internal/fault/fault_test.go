package fault_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
)

func TestFates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err                        *fault.Error
		inDoubt, replied, timedOut bool
	}{
		{err: nil},
		{err: &fault.Error{Fate: fault.Rejected, Err: io.EOF}, replied: true},
		{err: &fault.Error{Fate: fault.Partial, Err: io.EOF}, replied: true},
		{err: &fault.Error{Fate: fault.Unreplicated, Err: io.EOF}, replied: true},
		{err: &fault.Error{Fate: fault.NotSent, Err: fault.ErrNoAnswer}},
		{err: &fault.Error{Fate: fault.InDoubt, Err: fault.ErrNoAnswer}, inDoubt: true},
		{err: &fault.Error{Fate: fault.Left, Err: io.EOF}, inDoubt: true},
		{err: &fault.Error{Fate: fault.Left, Err: fault.ErrNoAnswer}, inDoubt: true, timedOut: true},
	} {
		require.Equal(t, c.inDoubt, c.err.InDoubt(), "%+v", c.err)
		require.Equal(t, c.replied, c.err.Replied(), "%+v", c.err)
		require.Equal(t, c.timedOut, c.err.TimedOut(), "%+v", c.err)
		require.False(t, c.err.WrongType())
	}
	wrong := &fault.Error{Code: "WRONGTYPE", Err: io.EOF}
	require.True(t, wrong.WrongType())
	require.ErrorIs(t, wrong, io.EOF)
	require.EqualError(t, wrong, "EOF")
}

func TestWhatAnErrorOfRedisIsAbout(t *testing.T) {
	t.Parallel()
	denied := &fault.Error{Code: "NOPERM", Err: errors.New("NOPERM no")}
	require.EqualError(t, denied, "the user of Redis lacks a right (see SECURITY.md, or run: rlock doctor): NOPERM no")
	require.Equal(t, io.EOF, (&fault.Error{Err: io.EOF}).Of("lock", "a", "a").Err)
	for kind, want := range map[string]string{
		"lock": "--kinds lock", "fenced fair": "--kinds 'fenced fair'", "read": "--kinds read", "count-down latch": "--kinds 'count-down latch'",
	} {
		require.ErrorContains(t, denied.Of(kind, "a", "a"), "run: rlock doctor "+want+")", kind)
	}
	require.ErrorContains(t, denied.Of("lock", "a", "app:a"), "--key-prefix app:)")
	require.ErrorContains(t, denied.Of("lock", "a", "a'b c:a"), "--key-prefix 'a'\\''b c:')")
	require.ErrorContains(t, denied.Of("lock", "a", "other"), "run: rlock doctor --kinds lock)")
	require.NotContains(t, denied.Error(), "--", "it is a copy")
	require.ErrorIs(t, denied.Of("lock", "a", "a"), denied.Err)
	wait := &fault.Error{Fate: fault.Unreplicated, Code: "NOPERM", Err: fmt.Errorf("refused: %w", denied.Needs("--acks 1"))}
	require.EqualError(t, wait, "refused: the user of Redis lacks a right (see SECURITY.md, or run: rlock doctor --acks 1): NOPERM no")
	for code, ofServer := range map[string]bool{
		"NOPERM": true, "WRONGPASS": true, "OOM": true, "MOVED": true, "unknown": true, "WRONGTYPE": false, "the": false, "value": false,
	} {
		require.Equal(t, ofServer, (&fault.Error{Code: code, Err: io.EOF}).OfServer(), code)
	}
	for _, code := range []string{"NOAUTH", "WRONGPASS"} {
		require.EqualError(t, &fault.Error{Code: code, Err: io.EOF},
			"Redis refuses the login of the redis client (look at its user name and password): EOF")
	}
	for _, text := range []string{
		"ERR unknown command 'AUTH', with args beginning with: 'secret' ", "ERR unknown command `AUTH`, with args beginning with: `secret`, ",
	} {
		err := &fault.Error{Code: "unknown", Err: errors.New(text)}
		require.NotContains(t, err.Error(), "secret")
		require.Contains(t, err.Error(), "ERR unknown command")
	}
	require.False(t, (*fault.Error)(nil).LoginRefused())
	require.False(t, (*fault.Error)(nil).OfServer())
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, fault.ErrLost, fault.ErrNotHeld, "a lost lock is not held")
	require.NotErrorIs(t, fault.ErrNotHeld, fault.ErrLost)
	require.NotErrorIs(t, fault.ErrLost, fault.ErrClosed)
	require.ErrorIs(t, fault.ErrRefused, fault.ErrNotAcquired)
	require.NotErrorIs(t, fault.ErrNotAcquired, fault.ErrRefused)
	for _, err := range []error{
		fault.ErrNotAcquired, fault.ErrRefused, fault.ErrNotHeld, fault.ErrLost, fault.ErrReentered, fault.ErrUpgrade,
		fault.ErrNotReplicated, fault.ErrClosed, fault.ErrInvalidName, fault.ErrInvalidOption,
	} {
		require.True(t, fault.Sentinel(err), "%v", err)
		require.True(t, fault.Sentinel(fmt.Errorf("because: %w", err)), "%v", err)
		require.True(t, strings.HasPrefix(err.Error(), "rlock: "), "%v", err)
	}
	for _, err := range []error{nil, io.EOF, fault.ErrNoAnswer, fault.ErrLate, fault.ErrReply, &fault.Error{Err: io.EOF}} {
		require.False(t, fault.Sentinel(err), "%v", err)
	}
}

func TestOpError(t *testing.T) {
	t.Parallel()
	err := error(&fault.OpError{Op: "lock", Name: "name", Err: fault.ErrClosed})
	require.EqualError(t, err, `rlock: lock "name": client is closed`, "the prefix comes once")
	require.ErrorIs(t, err, fault.ErrClosed)
	require.EqualError(t, &fault.OpError{Op: "unlock", Name: "a\nb", Err: io.EOF}, `rlock: unlock "a\nb": EOF`)
	var op *fault.OpError
	require.ErrorAs(t, errors.Join(io.EOF, err), &op)
	require.Equal(t, "lock", op.Op)
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                        `""`,
		"name":                    `"name"`,
		"\x00\"":                  `"\x00\""`,
		strings.Repeat("x", 64):   `"` + strings.Repeat("x", 64) + `"`,
		strings.Repeat("x", 65):   `"` + strings.Repeat("x", 64) + `"...`,
		strings.Repeat("ä", 1000): `"` + strings.Repeat("ä", 64) + `"...`,
	} {
		require.Equal(t, want, fault.Quote(name))
	}
}

func TestAnOpErrorNamesTheOperationTheLockAndWhatIsWrong(t *testing.T) {
	t.Parallel()
	inner := &fault.OpError{Op: "try acquire", Name: "a", Err: fault.ErrRefused}
	require.EqualError(t, inner, `rlock: try acquire "a": not acquired`)
	outer := &fault.OpError{Op: "lock", What: `multi lock of "a", "b"`, Err: inner}
	require.EqualError(t, outer, `rlock: lock multi lock of "a", "b": try acquire "a": not acquired`)
	require.ErrorIs(t, outer, fault.ErrNotAcquired)
}

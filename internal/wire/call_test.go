package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
)

func TestArgv(t *testing.T) {
	t.Parallel()
	full := Args{
		Holder: "holder", Millis: 30_000, Number: 7, Channel: "channel", Publish: PublishSharded, Extra: 3, Other: "other",
	}
	cases := map[string]struct {
		call Call
		want []any
	}{
		"acquire": {
			Call{Script: lockAcquire, Args: full},
			[]any{"holder", int64(30_000), int64(7), "channel", "SPUBLISH", 3, "other"},
		},
		"release": {
			Call{Script: lockRelease, Args: full},
			[]any{"holder", int64(30_000), int64(7), "channel", "SPUBLISH", 3},
		},
		"inspect": {Call{Script: lockInspect, Args: full}, []any{"holder"}},
		"nothing": {
			Call{Script: lockAcquire},
			[]any{"", int64(0), int64(0), "", "", "", ""},
		},
		"renewal": {Call{Script: lockRenew, Args: full, Argv: []any{int64(1), "a", "b"}}, []any{int64(1), "a", "b"}},
	}
	for what, c := range cases {
		require.Equal(t, c.want, c.call.AppendArgv(nil), what)
		require.Equal(t, append([]any{"before"}, c.want...), c.call.AppendArgv([]any{"before"}), what)
	}
	for p, want := range map[Publish]string{
		"": "", PublishPlain: "PUBLISH", PublishSharded: "SPUBLISH", PublishNode: "NODE",
	} {
		c := Call{Script: lockRelease, Args: Args{Publish: p}}
		require.Equal(t, want, c.AppendArgv(nil)[4])
	}
}

func TestKeyAndNumbers(t *testing.T) {
	t.Parallel()
	c := Call{Script: lockInspect, Keys: []any{"first", "second"}}
	require.Equal(t, "first", c.Key())
	require.Equal(t, 3, c.Numbers())
	c = Call{Script: lockAcquire}
	require.Zero(t, c.Numbers(), "a single number, not in a list")
	c = Call{Script: lockRenew, Argv: []any{int64(1), "a", "b"}}
	require.Equal(t, 2, c.Numbers(), "one for each lock")
}

func TestReply(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		reply Reply
		want  bool
	}{
		"granted":              {Reply{}, true},
		"granted with a token": {Reply{N: 42}, true},
		"refused":              {Reply{N: -1}, false},
		"not replicated":       {Reply{N: 42, Err: &fault.Error{Fate: fault.Unreplicated}}, true},
		"refused, and neither replicated": {
			Reply{N: -30_001, Err: &fault.Error{Fate: fault.Unreplicated}}, false,
		},
		"rejected": {Reply{Err: &fault.Error{Fate: fault.Rejected}}, false},
		"in doubt": {Reply{Err: &fault.Error{Fate: fault.InDoubt}}, false},
		"left":     {Reply{Err: &fault.Error{Fate: fault.Left}}, false},
	} {
		require.Equal(t, c.want, c.reply.Acquired(), what)
	}
	for n, want := range map[int64]time.Duration{
		-1: 0, -2: time.Millisecond, -30_001: 30 * time.Second, -1 << 62: maxHint * time.Millisecond,
		-1 << 63: maxHint * time.Millisecond,
	} {
		r := Reply{N: n}
		require.Equal(t, want, r.Hint(), "reply %d", n)
	}
}

func TestMillis(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1999 * time.Microsecond: 2, time.Hour: 3_600_000,
	} {
		require.Equal(t, want, Millis(d), "%v", d)
	}
}

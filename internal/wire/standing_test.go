package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNamesOfTheLine(t *testing.T) {
	t.Parallel()
	channels := map[Family]string{PlainFamily: "redisson_lock__channel", RWFamily: "redisson_rwlock"}
	for kind, keys := range map[string][]any{
		"write": {"name", "redisson_unlock_latch:{name}:waiters", "redisson_unlock_latch:{name}:client"},
		"read":  {"name", "redisson_unlock_latch:{name}:waiters", "redisson_unlock_latch:{name}:client"},
		"fenced write": {
			"name", "redisson_unlock_latch:{name}:waiters", "redisson_lock_token:{name}", "redisson_unlock_latch:{name}:client",
		},
		"lock": {"name", "redisson_unlock_latch:{name}:waiters", "redisson_unlock_latch:{name}:client"},
		"spin": {"name", "redisson_unlock_latch:{name}:waiters", "redisson_unlock_latch:{name}:client"},
		"fenced": {
			"name", "redisson_unlock_latch:{name}:waiters", "redisson_lock_token:{name}", "redisson_unlock_latch:{name}:client",
		},
	} {
		n := NewNames(Kinds[kind], "name", "client")
		channel := channels[Kinds[kind].Family]
		require.Equal(t, keys, n.LineKeys, kind)
		require.Equal(t, channel+":{name}", n.Base(), kind)
		require.Equal(t, channel+":{name}:client", n.Own(), kind)
		require.Equal(t, channel+":{name}:rlock-twin", n.Twin(), kind)
		for _, c := range []string{n.Base(), n.Own(), n.Twin()} {
			require.Equal(t, Slot("name"), Slot(c), kind)
		}
		for _, key := range n.LineKeys {
			name, _ := key.(string)
			require.Equal(t, Slot("name"), Slot(name), kind)
		}
	}
	for kind, k := range Kinds {
		n := NewNames(k, "a{b}c", "client")
		if k.Line == nil {
			require.Empty(t, n.LineKeys, kind)
			require.Empty(t, n.Own(), kind)
			require.Empty(t, n.Base(), kind)
			continue
		}
		require.Equal(t, channels[k.Family]+":a{b}c:client", n.Own(), kind)
		require.Equal(t, k.Line.Stands(), k.Side == MainSide, kind)
		for _, s := range []*Script{k.Line.Acquire, k.Line.Release, k.Line.Force, k.Line.Pump} {
			if s == nil {
				continue
			}
			require.NotEqual(t, Untold, s.Announces, kind)
			h := NewHolder(k, n, "client", 7)
			keys := n.LineKeys
			if s == k.Line.Release {
				c := h.Give(n, time.Minute, 0, nil)
				keys = c.Keys
			}
			require.Len(t, keys, s.Keys+1, kind)
		}
	}
}

func TestCallsOfTheLine(t *testing.T) {
	t.Parallel()
	const base = "redisson_lock__channel:{name}"
	for what, c := range map[string]struct {
		call func(*Holder, *Names) Call
		kind *Kind
		want []any
	}{
		"waits": {func(h *Holder, n *Names) Call { return h.Stand(n, time.Minute, 3*time.Second) }, Plain, []any{
			"client:7", int64(60_000),
		}},
		"waits with a lease of its own": {func(h *Holder, n *Names) Call { return h.Stand(n, time.Second, time.Second) }, Fenced, []any{
			"client:7", int64(1000), "1000",
		}},
		"does not wait": {func(h *Holder, n *Names) Call { return h.Stand(n, time.Second, 0) }, Spin, []any{
			"client:7", int64(1000), "",
		}},
		"waits to be woken": {func(h *Holder, n *Names) Call { return h.Stand(n, time.Second, Woken) }, Plain, []any{
			"client:7", int64(1000), "0",
		}},
		"leaves before it is woken": {func(h *Holder, n *Names) Call { return h.Give(n, time.Minute, Woken, nil) }, Fenced, []any{
			"client:7", base, "0|t", "PUBLISH", int64(60_000),
		}},
		"leaves": {func(h *Holder, n *Names) Call { return h.Give(n, time.Minute, 3*time.Second, nil) }, Plain, []any{
			"client:7", base, "3000", "PUBLISH", int64(60_000),
		}},
		"never stood there": {func(h *Holder, n *Names) Call { return h.Give(n, 0, 0, nil) }, Fenced, []any{
			"client:7", base,
		}},
		"next": {func(h *Holder, n *Names) Call {
			next := NewHolder(Fenced, n, "client", 8)
			return h.Give(n, 0, 3*time.Second, &Next{Holder: &next, Lease: time.Minute, Term: time.Second})
		}, Fenced, []any{
			"client:7", base, "3000|t", "PUBLISH", int64(0), "client:8|1000|t", int64(60_000),
		}},
		"next needs no token": {func(h *Holder, n *Names) Call {
			next := NewHolder(Spin, n, "client", 8)
			return h.Give(n, 0, time.Second, &Next{Holder: &next, Lease: time.Minute, Term: time.Minute})
		}, Fenced, []any{
			"client:7", base, "1000|t", "PUBLISH", int64(0), "client:8|60000", int64(60_000),
		}},
		"next needs a token": {func(h *Holder, n *Names) Call {
			next := NewHolder(Fenced, n, "client", 8)
			return h.Give(n, 0, time.Second, &Next{Holder: &next, Lease: time.Minute, Term: time.Minute})
		}, Plain, []any{
			"client:7", base, "1000",
		}},
		"writes": {func(h *Holder, n *Names) Call { return h.Stand(n, time.Minute, 3*time.Second) }, Write, []any{
			"client:7:write", int64(60_000),
		}},
		"force of a write lock": {func(_ *Holder, n *Names) Call { return FencedWrite.ForceCall(n, true) }, FencedWrite, []any{
			"", int64(0), int64(0), "redisson_rwlock:{name}", "PUBLISH", "write", "",
		}},
		"force of readers": {func(_ *Holder, n *Names) Call { return Read.ForceCall(n, true) }, Read, []any{
			"", int64(0), int64(0), "redisson_rwlock:{name}", "PUBLISH", "read", "",
		}},
		"pump": {func(_ *Holder, n *Names) Call { return Plain.PumpCall(n, "b") }, Plain, []any{"b", int64(0), int64(0), base, "PUBLISH"}},
		"force": {func(_ *Holder, n *Names) Call { return Spin.ForceCall(n, true, "a:1", "b:2") }, Spin, []any{
			"", int64(0), int64(0), base, "PUBLISH", "-", "a:1\nb:2",
		}},
	} {
		h, n := holderOf(c.kind, 7)
		call := c.call(&h, n)
		call.Args.Publish = PublishPlain
		require.Equal(t, c.want, call.AppendArgv(nil), what)
		keys := n.LineKeys
		if c.kind == Plain && call.Script == Plain.Line.Release && call.Args.Millis == 0 && call.Args.Other == nil {
			keys = keys[:2] // it touches no tombstones
		}
		require.Equal(t, keys, call.Keys, what)
	}
}

func TestOnlyWhatIsNotAsUsualIsSentToTheLine(t *testing.T) {
	t.Parallel()
	h, n := holderOf(Plain, 7)
	for publish, more := range map[Publish][]any{PublishPlain: nil, PublishSharded: {"SPUBLISH"}} {
		stand, give := h.Stand(n, time.Minute, 3*time.Second), h.Give(n, 0, 0, nil)
		stand.Args.Publish, give.Args.Publish = publish, publish
		want := []any{"client:7", int64(60_000)}
		if more != nil {
			want = append(append(want, "3000"), more...)
		}
		require.Equal(t, want, stand.AppendArgv(nil))
		want = []any{"client:7", "redisson_lock__channel:{name}"}
		if more != nil {
			want = append(append(want, ""), more...)
		}
		require.Equal(t, want, give.AppendArgv(nil))
	}
}

func TestCommonCallsOfTheLineAllocateNothing(t *testing.T) {
	for _, k := range []*Kind{Plain, Fenced, Spin, Write} {
		h, n := holderOf(k, 7)
		var c Call
		require.Zero(t, testing.AllocsPerRun(10, func() { c = h.Stand(n, time.Minute, 3*time.Second) }))
		require.Zero(t, testing.AllocsPerRun(10, func() { c = h.Stand(n, time.Minute, 0) }))
		require.Zero(t, testing.AllocsPerRun(10, func() { c = h.Give(n, 0, 3*time.Second, nil) }))
		require.Zero(t, testing.AllocsPerRun(10, func() { c = h.Give(n, 0, 0, nil) }))
		require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = n.Own(), n.Base() }))
		require.NotEmpty(t, c.Keys)
	}
}

func TestAReadReleaseHasTheKeyOfItsHold(t *testing.T) {
	t.Parallel()
	h, n := holderOf(Read, 7)
	c := h.Give(n, time.Minute, 0, nil)
	c.Args.Publish = PublishPlain
	require.Equal(t, []any{"client:7", int64(60_000), int64(7), "redisson_rwlock:{name}", "PUBLISH"}, c.AppendArgv(nil))
	require.Equal(t, []any{
		"name", "redisson_unlock_latch:{name}:waiters", "{name}:client:7:rwlock_timeout:1", "redisson_unlock_latch:{name}:client",
	}, c.Keys)
}

func TestRepliesOfTheLine(t *testing.T) {
	t.Parallel()
	r := Reply{N: -31, List: []int64{-31, 5, 1, 2}}
	place, ok := r.Position()
	require.True(t, ok)
	require.Equal(t, Position{At: 5, Watch: true, Ahead: 2}, place)
	require.False(t, r.Acquired())
	require.Equal(t, 30*time.Millisecond, r.Hint())
	for _, n := range []int64{0, 7, -1} {
		r = Reply{N: n}
		_, ok = r.Position()
		require.False(t, ok, "acquired, or a tombstone")
	}
	require.Equal(t, Given{Freed: true}, (&Reply{N: 1}).Gave())
	require.Equal(t, Given{}, (&Reply{}).Gave())
	require.Equal(t, Given{Freed: true, At: 5, What: ToNext, Token: 9, Watch: true, Others: 3},
		(&Reply{N: 1, List: []int64{1, 5, 2, 9, 1, 3}}).Gave())
	require.NotEqual(t, ToNext, (&Reply{N: 1, List: []int64{1, 5, 256 + 2, 0, 0, 0}}).Gave().What, "no script replies that")
}

func TestParseMessage(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]Message{
		"7":                            {Subject: Watch},
		"8":                            {Subject: AskAgain},
		"6 1 2 3 4":                    {Subject: Granted, Number: 1, At: 2, Term: 3 * time.Millisecond, Token: 4},
		"6 1 2 30000 0":                {Subject: Granted, Number: 1, At: 2, Term: 30 * time.Second},
		"":                             {},
		"0":                            {},
		"1":                            {},
		"6":                            {},
		"6 ":                           {},
		"6 1 2 3":                      {},
		"6 1 2 3 4 5":                  {},
		"6 1 2 3 x":                    {},
		"6 -1 2 3 4":                   {},
		"61 2 3 4":                     {},
		"7 ":                           {},
		"9 1 2 3 4":                    {},
		"6 1 2 9300000000000000 4":     {},
		"6 99999999999999999999 2 3 4": {},
	} {
		m, ok := ParseMessage(payload)
		require.Equal(t, want, m, payload)
		require.Equal(t, want.Subject != 0, ok, payload)
	}
}

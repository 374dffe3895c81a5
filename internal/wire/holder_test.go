package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holderOf returns a holder of a kind, and the names of its lock.
func holderOf(k *Kind, number int64) (Holder, *Names) {
	n := NewNames(k, "name", "client")
	return NewHolder(k, n, "client", number), n
}

func TestFields(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct {
		field, channel string
		keys           []string
	}{
		"lock": {"client:7", "redisson_lock__channel:{name}", []string{
			"name", "redisson_unlock_latch:{name}:client",
		}},
		"fenced": {"client:7", "redisson_lock__channel:{name}", []string{
			"name", "redisson_lock_token:{name}", "redisson_unlock_latch:{name}:client",
		}},
		"spin": {"client:7", "", []string{"name", "redisson_unlock_latch:{name}:client"}},
		"fair": {"client:7", "redisson_lock__channel:{name}", []string{
			"name", "redisson_lock_queue:{name}", "redisson_lock_timeout:{name}", "redisson_unlock_latch:{name}:waiters",
			"redisson_unlock_latch:{name}:client",
		}},
		"read": {"client:7", "redisson_rwlock:{name}", []string{
			"name", "{name}:client:7:rwlock_timeout:1", "redisson_unlock_latch:{name}:client",
		}},
		"write": {"client:7:write", "redisson_rwlock:{name}", []string{"name", "redisson_unlock_latch:{name}:client"}},
		"fenced fair": {"client:7", "redisson_lock__channel:{name}", []string{
			"name", "redisson_lock_queue:{name}", "redisson_lock_timeout:{name}", "redisson_unlock_latch:{name}:waiters",
			"redisson_lock_token:{name}", "redisson_unlock_latch:{name}:client",
		}},
		"fenced write": {"client:7:write", "redisson_rwlock:{name}", []string{
			"name", "redisson_lock_token:{name}", "redisson_unlock_latch:{name}:client",
		}},
	} {
		h, n := holderOf(Kinds[kind], 7)
		require.Equal(t, want.field, h.Field, kind)
		require.Equal(t, want.channel, n.Channel, kind)
		require.Equal(t, want.keys, h.Keys(n), kind)
	}
}

// TestKeysOfCalls checks that each script gets the keys that it touches, and the tombstones only where it needs them.
func TestKeysOfCalls(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second
	for kind, k := range Kinds {
		h, n := holderOf(k, 7)
		other, _ := holderOf(k, 6)
		all := h.keys(n)
		tombstones := all[len(all)-1]

		acquire := h.Acquire(n, lease, other.Field)
		require.Same(t, k.Acquire, acquire.Script, kind)
		require.Len(t, acquire.Keys, k.Acquire.Keys+1, kind)
		require.Equal(t, tombstones, acquire.Keys[k.Acquire.Keys], kind)
		require.Equal(t, other.Field, acquire.Args.Other, kind)

		count := h.Count(n, 2, lease)
		require.Equal(t, all[:k.Count.Keys], count.Keys, kind)
		require.Equal(t, 2, count.Args.Extra, kind)

		if k.Queues { // its scripts write even if the tombstones are not needed
			require.Equal(t, all, h.Release(n, 0).Keys, kind)
		} else {
			require.Equal(t, all[:k.Release.Keys], h.Release(n, 0).Keys, kind)
		}
		release := h.Release(n, time.Minute)
		require.Equal(t, tombstones, release.Keys[len(release.Keys)-1], kind)
		require.Equal(t, int64(60_000), release.Args.Millis, kind)

		require.Equal(t, all[:k.Inspect.Keys], h.Inspect(n).Keys, kind)
		require.Equal(t, n.Keys[:min(k.Inspect.Keys, len(n.Keys)-1)], k.InspectCall(n).Keys, kind)
		require.Nil(t, k.InspectCall(n).Args.Holder, kind)
		if k.Queues {
			require.Equal(t, n.Keys, k.ForceCall(n, false).Keys, kind)
		} else {
			require.Equal(t, n.Keys[:k.Force.Keys], k.ForceCall(n, false).Keys, kind)
		}

		for _, c := range []Call{acquire, count, release, h.Inspect(n)} {
			require.Equal(t, "name", c.Key(), kind)
			require.Equal(t, h.Field, c.Args.Holder, kind)
		}
		if k.HandOver == nil {
			continue
		}
		handOver := h.HandOver(n, &other, lease)
		require.Equal(t, other.Field, handOver.Args.Channel, kind)
		require.Equal(t, tombstones, handOver.Keys[k.HandOver.Keys], kind)
	}
}

// TestCallsShareTheKeys checks that a call of a kind whose keys are all passed makes no list of its own.
func TestCallsShareTheKeys(t *testing.T) {
	for kind, k := range Kinds {
		h, n := holderOf(k, 7)
		var c Call
		require.Zero(t, testing.AllocsPerRun(10, func() { c = h.Acquire(n, time.Second, nil) }), kind)
		require.NotEmpty(t, c.Keys)
		require.Zero(t, testing.AllocsPerRun(10, func() { c = h.Inspect(n) }), kind)
	}
}

func TestCallsOfAQueue(t *testing.T) {
	t.Parallel()
	for _, k := range []*Kind{Fair, FencedFair} {
		h, n := holderOf(k, 7)
		seat := NewSeat(n, "client", 3)
		require.Equal(t, "redisson_lock__channel:{name}:client:-3", seat.Channel)
		argv := func(c Call) []any {
			c.Args.Publish = PublishPlain
			require.Equal(t, n.Keys, c.Keys, k.Name())
			return c.AppendArgv(nil)
		}
		require.Equal(t, []any{
			"client:7", int64(60_000), int64(7), n.Channel, "PUBLISH", int64(10_000), "client:-3", int64(3000), int64(1),
		}, argv(h.Queue(n, time.Minute, 10*time.Second, 3*time.Second, seat, true)))
		require.Equal(t, []any{
			"client:7", int64(60_000), int64(7), n.Channel, "PUBLISH", int64(-1),
		}, argv(h.Acquire(n, time.Minute, nil)), "it does not queue")
		require.Equal(t, []any{"client:7", int64(0), int64(7), n.Channel, "PUBLISH", "client:-3"}, argv(h.Leave(n, 0, seat)))
		require.Equal(t, []any{"client:7", int64(60_000), int64(7), n.Channel, "PUBLISH", ""}, argv(h.Release(n, time.Minute)))
	}
	r := Reply{N: 1, List: []int64{1, 7, 5, 3000, 9}}
	m, ok := r.GaveHere()
	require.True(t, ok)
	require.Equal(t, Message{Subject: Granted, Number: 7, At: 5, Term: 3 * time.Second, Token: 9}, m)
	_, ok = (&Reply{N: 1}).GaveHere()
	require.False(t, ok)
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind *Kind
		keys []any
	}{
		{Plain, []any{"name", "name"}},
		{Read, []any{"name", "{name}:client:1:rwlock_timeout:1", "name", "{name}:client:2:rwlock_timeout:1"}},
	} {
		call := NewRenewal(c.kind.Renew, 30*time.Second, 2)
		require.Empty(t, call.Keys, "nothing yet")
		for number := range int64(2) {
			h, _ := holderOf(c.kind, number+1)
			call.Renew(&h, "name")
		}
		require.Equal(t, c.keys, call.Keys)
		require.Equal(t, []any{int64(30_000), "client:1", "client:2"}, call.AppendArgv(nil))
		require.Equal(t, 2, call.Numbers())
	}
}

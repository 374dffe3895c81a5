package simredis

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// hear returns a subscriber that notes what it gets.
func hear(log *[]string, name string) *Subscriber {
	return &Subscriber{
		Send: func(channel, payload string) { *log = append(*log, fmt.Sprint(name, " ", channel, " ", payload)) },
		SendMatching: func(pattern, channel, payload string) {
			*log = append(*log, fmt.Sprint(name, " ", pattern, " ", channel, " ", payload))
		},
	}
}

func TestMessagesComeInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var log []string
	a, b := hear(&log, "a"), hear(&log, "b")
	f.Subscribe("c", b, false)
	f.Subscribe("c", a, false)
	f.Subscribe("c", b, false) // once more changes nothing
	f.SubscribePattern("c*", a)
	f.SubscribePattern("d*", b)
	require.Equal(t, int64(3), f.do("PUBLISH c 1"))
	require.Equal(t, int64(3), f.eval("local n = redis.call('PUBLISH', 'c', 2)\nredis.call('PUBLISH', 'd', 3)\nreturn n"))
	require.Equal(t, []string{"b c 1", "a c 1", "a c* c 1", "b c 2", "a c 2", "a c* c 2", "b d* d 3"}, log)
	require.Equal(t, []any{"c", int64(2), "d", int64(0)}, f.do("PUBSUB NUMSUB c d"), "patterns do not count")
	require.Equal(t, int64(2), f.do("PUBSUB NUMPAT"))
}

func TestShardedChannelsAreApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var log []string
	f.Subscribe("c", hear(&log, "plain"), false)
	f.Subscribe("c", hear(&log, "sharded"), true)
	f.SubscribePattern("*", hear(&log, "all"))
	require.Equal(t, int64(1), f.do("SPUBLISH c 1"))
	require.Equal(t, int64(2), f.do("PUBLISH c 2"))
	require.Equal(t, []string{"sharded c 1", "plain c 2", "all * c 2"}, log)
	require.Equal(t, []any{"c", int64(1)}, f.do("PUBSUB SHARDNUMSUB c"))
	require.Equal(t, []any{"c"}, f.do("PUBSUB SHARDCHANNELS"))
	require.Equal(t, []string{"c"}, f.Channels())
}

func TestDropEndsAllSubscriptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var log []string
	a, b := hear(&log, "a"), hear(&log, "b")
	for _, sub := range []*Subscriber{a, b} {
		f.Subscribe("c", sub, false)
		f.Subscribe("d", sub, false)
		f.Subscribe("c", sub, true)
		f.SubscribePattern("*", sub)
	}
	f.Drop(a)
	f.Unsubscribe("d", b, false)
	require.Equal(t, int64(2), f.do("PUBLISH c 1"))
	require.Equal(t, int64(1), f.do("PUBLISH d 2"))
	require.Equal(t, int64(1), f.do("SPUBLISH c 3"))
	f.UnsubscribePattern("*", b)
	require.Equal(t, int64(0), f.do("PUBLISH d 4"))
	require.Equal(t, []string{"b c 1", "b * c 1", "b * d 2", "b c 3"}, log)
	require.Equal(t, []string{"c"}, f.Channels())
}

package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// Rule T.1: what a message says of a number counts only if it comes on the channel of the lock for which that number waits.
func TestAMessageCountsForTheLockOfItsChannel(t *testing.T) {
	t.Parallel()
	for _, k := range []*wire.Kind{wire.Plain, wire.Fair, wire.Write} {
		for _, name := range []string{"name", "{name}"} {
			c := &lineClient{epoch: 1}
			table := New(config.Config{ClientID: "c", CommandTimeout: modelCommand, PollInterval: modelPoll, FairWait: 10 * time.Second}, task.New(), c, c)
			var n notice.List
			h := &Handle{Key: table.Key(name, k.Family), Kind: k, Name: name}
			a := &Attempt{Handle: h, Lease: wire.FirstTerm}
			require.Equal(t, Ask, table.Admit(a, start, &n).Do)
			s := table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1_000_000, 0, 0}}, start, &n)
			require.Equal(t, Sleep, s.Do)
			granted := wire.Message{Subject: wire.Granted, Number: a.grant.holder.Number, At: 1_000_000, Term: wire.FirstTerm}
			ends := wire.Message{Subject: wire.EndsSoon, Number: granted.Number, Term: time.Millisecond}
			rest := a.place.AskAt
			for _, other := range []string{"name", "{name}", "{name}:y", "name:"} {
				if other == name {
					continue
				}
				n := wire.NewNames(k, other, "c")
				channels := []string{n.Channel, n.Own(), n.Channel + ":d", n.Channel + ":c:-1:-1"}
				if k.Queues {
					channels = append(channels, wire.NewSeat(n, "c", 1).Channel)
				}
				for _, channel := range channels {
					var n notice.List
					table.Hear(channel, granted, start, &n)
					table.Hear(channel, ends, start, &n)
				}
			}
			require.Equal(t, rest, a.place.AskAt, "%v %s", k.Name(), name)
			require.Nil(t, a.got, "%v %s", k.Name(), name)
			table.Hear(s.Listen, ends, start, &n)
			require.Less(t, a.place.AskAt, rest)
			table.Hear(s.Listen, granted, start, &n)
			require.NotNil(t, a.got)
			n.Deliver(c)
		}
	}
}

// The locks x and {x} have one channel of Redisson's. A pump for one of them is none for the other, and a message there is a reason to
// look after both.
func TestPumpsAndWatchesOfTwoLocksWithOneChannel(t *testing.T) {
	t.Parallel()
	table, c := lineTable()
	var handles [2]*Handle
	var n notice.List
	for i, name := range []string{"name", "{name}"} {
		h := &Handle{Key: table.Key(name, wire.PlainFamily), Kind: wire.Plain, Name: name}
		a := &Attempt{Handle: h, Lease: wire.FirstTerm}
		require.Equal(t, Ask, table.Admit(a, start, &n).Do)
		require.Equal(t, Sleep, table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, 1, 0}}, start, &n).Do)
		handles[i] = h
	}
	base := handles[0].Names().Base()
	require.Equal(t, base, handles[1].Names().Base())
	table.Freed(base, &n)
	n.Deliver(c)
	for _, h := range handles {
		require.Contains(t, c.told, "pump "+h.Names().Own())
		call := table.PumpCall(h.Names().Own())
		require.Equal(t, h.Key.Name, call.Keys[0])
		require.Equal(t, h.Names().LineKeys, call.Keys)
	}
}

package transport

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestQuestionsThatAreAskedTogetherArePipelines(t *testing.T) {
	t.Parallel()
	s := &stub{info: driver.Info{Bounded: true, Batches: 4}, pipe: func(driver.Node, wire.Call) wire.Reply { return wire.Reply{N: 7} }}
	c, _ := open(t, Config{Crowd: 6}, s)
	const n = batchSize + 10
	together := Together{Conn: c}
	var awaits []func() wire.Reply
	var all []string
	for i := range n {
		await, way := together.Add(t.Context(), Question{Call: acquire(fmt.Sprint(i)), Slot: WaitSlot}, nil)
		require.Zero(t, way)
		awaits, all = append(awaits, await), append(all, fmt.Sprint(i))
	}
	require.Empty(t, s.sent(), "nothing goes out before")
	together.Send()
	for _, await := range awaits {
		require.EqualValues(t, 7, await().N)
	}
	require.Len(t, s.piped(), 2)
	require.ElementsMatch(t, [][]string{all[:batchSize], all[batchSize:]}, s.piped(), "in their order")
}

func TestQuestionsThatAreAskedTogetherGoToTheirNodes(t *testing.T) {
	t.Parallel()
	s := &stub{
		info: driver.Info{Bounded: true, Cluster: true, Batches: 4}, run: granted,
		pipe: func(driver.Node, wire.Call) wire.Reply { return wire.Reply{} },
	}
	c, _ := open(t, Config{Crowd: 6}, s)
	for _, routed := range []bool{false, true} { // the first ones go out by themselves: to learn the topology may take long
		together := Together{Conn: c}
		var awaits []func() wire.Reply
		var ways []int
		for _, key := range []string{"a", "b", "a", "b"} { // which is also the name of its node
			await, way := together.Add(t.Context(), Question{Call: acquire(key), Slot: WaitSlot}, nil)
			awaits, ways = append(awaits, await), append(ways, way)
		}
		together.Send()
		for _, await := range awaits {
			require.Nil(t, await().Err)
		}
		if !routed {
			require.Equal(t, []int{-1, -1, -1, -1}, ways)
			c.routed.Store(true)
			continue
		}
		require.Equal(t, []int{0, 1, 0, 1}, ways)
		require.ElementsMatch(t, [][]string{{"a", "a"}, {"b", "b"}}, s.piped())
	}
}

// A node that hangs keeps none of the callers for longer than one of them, and each late reply finds its way.
func TestQuestionsThatAreAskedTogetherHaveOneBound(t *testing.T) {
	t.Parallel()
	for _, batches := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			const hangs = 10 * time.Second
			s := &stub{info: driver.Info{Batches: batches}}
			s.run = func(context.Context, wire.Call) wire.Reply { time.Sleep(hangs); return wire.Reply{} }
			s.pipe = func(_ driver.Node, c wire.Call) wire.Reply {
				if c.Key() == "0" {
					time.Sleep(hangs)
				}
				return wire.Reply{}
			}
			c, _ := open(t, Config{Crowd: 6, CommandTimeout: time.Second}, s)
			late := make(lateReplies, 3)
			together := Together{Conn: c}
			var awaits []func() wire.Reply
			for i := range 3 {
				await, _ := together.Add(t.Context(), Question{Call: acquire(fmt.Sprint(i)), Slot: WaitSlot}, late)
				awaits = append(awaits, await)
			}
			start := time.Now()
			together.Send()
			for _, await := range awaits {
				r := await()
				require.ErrorIs(t, r.Err, fault.ErrNoAnswer)
				require.Equal(t, fault.Left, r.Err.Fate)
			}
			require.Equal(t, time.Second, time.Since(start))
			for range awaits {
				require.Nil(t, late.next(t).Err)
			}
		})
	}
}

func TestQuestionsWhoseContextHasEndedAreNotSent(t *testing.T) {
	t.Parallel()
	s := &stub{info: driver.Info{Bounded: true, Batches: 4}}
	c, tasks := open(t, Config{Crowd: 6}, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	together := Together{Conn: c}
	await, _ := together.Add(ctx, Question{Call: acquire("a"), Slot: WaitSlot}, nil)
	together.Send()
	r := await()
	require.ErrorIs(t, r.Err, fault.ErrNotSent)
	require.ErrorIs(t, r.Err, context.Canceled)
	require.Empty(t, s.sent())
	require.Zero(t, tasks.Count())
}

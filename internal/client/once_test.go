package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// oneShot is a client with the calls of the tests' latch.
type oneShot struct {
	*Client
	latch *wire.Latch
}

func (f *fixture) oneShot() *oneShot {
	c := f.client()
	return &oneShot{c, wire.NewLatch(name, c.cfg.Table.ClientID)}
}

// down counts down once.
func (o *oneShot) down(ctx context.Context) wire.Reply {
	if !o.tasks.Begin() {
		return network()
	}
	defer o.tasks.End()
	number := o.table.Number()
	return o.once(ctx, o.latch.CountDown(number), o.latch.Mark(number), &Wait{client: o.Client, brief: true})
}

// lose makes the server lose the replies to some commands: to the first ones that ask for it.
func (f *fixture) lose(command string, times int) {
	f.instead(func(c string, run func() wire.Reply) wire.Reply {
		if c == command && times > 0 {
			times--
			run()
			return network()
		}
		return run()
	})
}

func TestACallIsSentAgainUntilItHasAReply(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(9)
		o := f.oneShot()
		require.EqualValues(f, 8, o.down(f.Context()).N)
		require.Equal(f, []string{"count down"}, f.took())
		f.lose("count down", 3)
		r := o.down(f.Context())
		require.Nil(f, r.Err)
		require.EqualValues(f, 7, r.N)
		require.EqualValues(f, 7, f.count(), "it counted once")
		f.until(time.Minute)
		require.Equal(f, []string{"count down", "count down", "count down", "count down"}, f.took(), "nothing is left to do")
		require.Less(f, o.table.Number(), int64(10))
	})
}

func TestTroubleThatPassesIsWaitedOut(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(9)
		o := f.oneShot()
		over := time.Now().Add(commandTimeout / 2)
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			if time.Now().Before(over) {
				return busy()
			}
			return run()
		})
		r := o.down(f.Context())
		require.Nil(f, r.Err)
		require.EqualValues(f, 8, f.count())
		require.Greater(f, time.Since(f.start), commandTimeout/2)
	})
}

func TestAnErrorThatStaysIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		o := f.oneShot()
		f.instead(func(string, func() wire.Reply) wire.Reply { return rejected("WRONGTYPE") })
		r := o.down(f.Context())
		require.True(f, r.Err.WrongType())
		require.Zero(f, time.Since(f.start))
		f.until(time.Minute)
		require.Empty(f, f.took(), "no mark: no command is under way")
	})
}

// TestAGivenUpCallDoesNotCountLater: a command that arrives after its caller gave up, and after its mark, does nothing.
func TestAGivenUpCallDoesNotCountLater(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(9)
		o := f.oneShot()
		var late []func() wire.Reply
		f.instead(func(command string, run func() wire.Reply) wire.Reply {
			if command == "count down" {
				late = append(late, run)
				return network()
			}
			return run()
		})
		r := o.down(f.Context())
		require.True(f, r.Err.InDoubt(), "its outcome is unknown")
		require.ErrorIs(f, r.Err, fault.ErrUnavailable)
		require.InDelta(f, commandTimeout, time.Since(f.start), float64(2*time.Second))
		require.LessOrEqual(f, time.Since(f.start), commandTimeout)
		f.until(commandTimeout + time.Second)
		require.Equal(f, []string{"mark"}, f.took())
		require.Greater(f, len(late), 3)
		for _, run := range late {
			run()
		}
		require.EqualValues(f, 9, f.count())
	})
}

// TestTheEndOfItsContextEndsACall: the command goes on, but finds that its number was given up.
func TestTheEndOfItsContextEndsACall(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(9)
		o := f.oneShot()
		f.instead(func(command string, run func() wire.Reply) wire.Reply {
			if command == "count down" {
				time.Sleep(commandTimeout / 10)
			}
			return run()
		})
		ctx, cancel := context.WithTimeout(f.Context(), commandTimeout/20)
		defer cancel()
		r := o.down(ctx)
		require.Equal(f, fault.Left, r.Err.Fate)
		require.Equal(f, commandTimeout/20, time.Since(f.start))
		f.until(commandTimeout)
		require.EqualValues(f, 9, f.count(), "the mark came first")
		require.Equal(f, []string{"mark", "count down"}, f.took())
	})
}

// TestAMarkIsSentUntilItHasAReply: also while the client is closed, which waits for it.
func TestAMarkIsSentUntilItHasAReply(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(9)
		o := f.oneShot()
		down := time.Now().Add(commandTimeout + 3*time.Second)
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			if time.Now().Before(down) {
				return network()
			}
			return run()
		})
		require.True(f, o.down(f.Context()).Err.InDoubt())
		synctest.Wait() // the operation ends after its call has returned
		require.Equal(f, 1, o.tasks.Count(), "the mark")
		require.Empty(f, f.took())
		o.Close()
		require.GreaterOrEqual(f, time.Since(f.start), commandTimeout+2*time.Second)
		require.Equal(f, []string{"mark"}, f.took())
		require.Zero(f, o.tasks.Count())
	})
}

// TestAMarkEnds: two minutes later no command can be on its way any more.
func TestAMarkEnds(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		o := f.oneShot()
		f.refuseConnections()
		require.True(f, o.down(f.Context()).Err.InDoubt())
		f.until(2*commandTimeout + wire.MarkMemory - time.Second)
		require.Equal(f, 1, o.tasks.Count())
		f.until(2*commandTimeout + wire.MarkMemory + 2*time.Second)
		require.Zero(f, o.tasks.Count())
	})
}

// Close gives up after a command timeout, and nothing is sent after it.
func TestAMarkEndsWithClose(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		o := f.oneShot()
		f.refuseConnections()
		require.True(f, o.down(f.Context()).Err.InDoubt())
		o.Close()
		sent := 0
		f.instead(func(string, func() wire.Reply) wire.Reply { sent++; return network() })
		f.until(time.Hour)
		require.Zero(f, sent)
		require.Zero(f, o.tasks.Count())
	})
}

func TestCloseEndsACallThatPauses(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		o := f.oneShot()
		f.instead(func(string, func() wire.Reply) wire.Reply { return busy() })
		var r wire.Reply
		down := f.async(func() error {
			r = o.down(f.Context())
			return errors.Join(r.Err)
		})
		f.until(commandTimeout / 2)
		require.False(f, down.over())
		o.Close()
		require.True(f, down.over())
		require.False(f, r.Err.InDoubt(), "nothing is unknown")
	})
}

func TestSettledCallsAreForgottenInTime(t *testing.T) {
	t.Parallel()
	var s finished
	require.Nil(t, s.take("a"))
	for number := range int64(20) {
		s.add("a", number)
	}
	s.add("b", 77)
	require.Equal(t, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", s.take("a"))
	require.Equal(t, "77", s.take("b"))
	require.Equal(t, "16 17 18 19", s.take("a"))
	require.Nil(t, s.take("a"))
	require.Empty(t, s.numbers)
	require.Zero(t, s.total)
	for number := range int64(maxFinished + 1) {
		s.add(number, number)
	}
	require.Len(t, s.numbers, 1, "there are not more and more")
}

// TestOnlyCallsOfOneCommandAreSettled: of another one a command may be on its way.
func TestOnlyCallsOfOneCommandAreSettled(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(9)
		o := f.oneShot()
		f.lose("count down", 1)
		require.Nil(f, o.down(f.Context()).Err)
		require.Empty(f, o.finished.numbers)
		require.Nil(f, o.down(f.Context()).Err)
		require.Len(f, o.finished.numbers, 1)
		f.lose("count down", 1000)
		require.True(f, o.down(f.Context()).Err.InDoubt())
		f.until(time.Minute)
		require.Empty(f, o.finished.numbers)
	})
}

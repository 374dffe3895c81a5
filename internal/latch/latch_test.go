package latch

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
)

const (
	poll  = 5 * time.Second
	start = clock.Instant(time.Hour)
)

func newSet() *Set {
	return New(&config.Config{
		PollInterval: poll, CommandTimeout: 5 * time.Second, Random: func(time.Duration) time.Duration { return 0 },
	})
}

func rung(w *Waiter) bool {
	select {
	case <-w.bell.C():
		return true
	default:
		return false
	}
}

// asks requires the waiter to ask now.
func asks(t *testing.T, w *Waiter, now clock.Instant) {
	t.Helper()
	require.Equal(t, Ask, w.Next(now).Do)
}

// sleeps requires the waiter to sleep, and returns its step.
func sleeps(t *testing.T, w *Waiter, now clock.Instant) Step {
	t.Helper()
	s := w.Next(now)
	require.Equal(t, Sleep, s.Do)
	return s
}

// done requires the waiter to go on.
func done(t *testing.T, w *Waiter) {
	t.Helper()
	require.Equal(t, Step{Do: Done}, w.Next(start))
}

func TestTheFirstWaiterAsksForAll(t *testing.T) {
	t.Parallel()
	s := newSet()
	first := s.Join("a", 0, false)
	asks(t, first, start)
	second := s.Join("a", 0, false)
	require.Nil(t, sleeps(t, second, start).Wake)
	require.Equal(t, 1, s.Len())
	first.Answered(3, start)
	require.True(t, first.Told())
	require.False(t, second.Told(), "the question was sent before it came")
	asks(t, first, start)
	first.Answered(3, start)
	require.True(t, second.Told())
	step := sleeps(t, first, start)
	require.NotNil(t, step.Wake)
	require.True(t, step.Listen)
	require.Equal(t, start.Add(poll), step.Until)
	require.False(t, sleeps(t, first, start).Listen, "once")
	asks(t, first, start.Add(poll))
	first.Answered(0, start.Add(poll))
	done(t, first)
	done(t, second)
	_, unlisten := first.Leave(start)
	require.Nil(t, unlisten)
	_, unlisten = second.Leave(start)
	require.Equal(t, step.Wake, unlisten)
	require.Zero(t, s.Len())
}

func TestOnlyThoseWhoCameBeforeTheQuestionGoOn(t *testing.T) {
	t.Parallel()
	s := newSet()
	first := s.Join("a", 0, false)
	asks(t, first, start)
	late := s.Join("a", 0, false)
	rung(late)
	first.Answered(0, start)
	done(t, first)
	require.True(t, rung(late))
	asks(t, late, start)
	other := s.Join("b", 0, false)
	asks(t, other, start)
	late.Answered(-1, start)
	done(t, late)
	require.Equal(t, Sleep, s.Join("b", 0, false).Next(start).Do)
}

func TestAMessageLetsThoseThroughWhoCameBeforeItsSubscription(t *testing.T) {
	t.Parallel()
	s := newSet()
	var all []*Waiter
	for _, orders := range []uint64{4, 6, 5} { // they may come out of order
		all = append(all, s.Join("a", orders, false))
	}
	asks(t, all[0], start)
	all[0].Answered(1, start)
	require.EqualValues(t, 6, sleeps(t, all[0], start).Orders)
	s.Opened("b", 9)
	s.Opened("a", 4)
	require.Equal(t, Sleep, all[0].Next(start).Do)
	s.Opened("a", 6)
	done(t, all[0])
	done(t, all[2])
	waiting, sure := s.Ready("a", 6)
	require.Equal(t, 1, waiting)
	require.False(t, sure)
	_, sure = s.Ready("a", 7)
	require.True(t, sure)
	require.True(t, rung(all[1]))
	all[1].OnMessage()
	asks(t, all[1], start)
	s.Opened("a", 7)
	all[1].Answered(1, start)
	done(t, all[1])
}

func TestWhatThisProcessSawCountsForThoseWhoCameBefore(t *testing.T) {
	t.Parallel()
	s := newSet()
	before := s.Join("a", 0, false)
	asks(t, before, start)
	moment := s.Moment()
	after := s.Join("a", 0, false)
	s.Seen("a", moment)
	done(t, before)
	asks(t, after, start)
}

func TestTheNextWaiterTakesOver(t *testing.T) {
	t.Parallel()
	s := newSet()
	first, second := s.Join("a", 0, true), s.Join("a", 0, true)
	asks(t, first, start)
	first.Abandoned(true)
	last, _ := first.Leave(start)
	require.False(t, last.Refused)
	require.ErrorIs(t, last.Silence(), fault.ErrNoConnection)
	require.True(t, rung(second))
	asks(t, second, start)
	second.Answered(1, start)
	require.True(t, rung(second), "it wants to know")
	step := sleeps(t, second, start)
	third := s.Join("a", 0, false)
	asks(t, second, start)
	second.Answered(1, start)
	second.OnMessage()
	asks(t, second, start)
	second.Abandoned(false)
	last, _ = second.Leave(start)
	require.True(t, last.Refused)
	require.True(t, rung(third))
	asks(t, third, start)
	third.Answered(1, start)
	require.False(t, sleeps(t, third, start).Listen, "they share what they listen with")
	last, unlisten := third.Leave(start)
	require.True(t, last.Refused)
	require.Equal(t, step.Wake, unlisten)
}

func TestAQuestionThatFailsIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := newSet()
	w, other := s.Join("a", 0, false), s.Join("a", 0, false)
	asks(t, w, start)
	outage := &fault.Error{Fate: fault.InDoubt, Transient: true, Err: errors.New("reset")}
	w.Failed(outage, start)
	until := sleeps(t, w, start).Until
	require.Greater(t, until, start)
	w.OnMessage()
	require.Equal(t, until, sleeps(t, w, start).Until, "a message does not hasten it")
	asks(t, w, until)
	w.Failed(outage, until)
	require.Greater(t, sleeps(t, w, until).Until.Sub(until), until.Sub(start), "the pauses get longer")
	last, _ := other.Leave(until)
	require.ErrorIs(t, last.Err, outage)
}

func TestAnErrorThatStaysEndsEveryWait(t *testing.T) {
	t.Parallel()
	s := newSet()
	w, other := s.Join("a", 0, false), s.Join("a", 0, false)
	asks(t, w, start)
	late := s.Join("a", 0, false)
	denied := &fault.Error{Fate: fault.Rejected, Code: "NOPERM", Err: errors.New("NOPERM")}
	w.Failed(denied, start)
	for _, covered := range []*Waiter{w, other} {
		step := covered.Next(start)
		require.Equal(t, Done, step.Do)
		require.Equal(t, error(denied), step.Err)
	}
	asks(t, late, start)
}

// caller is a waiter of the random test, with the steps in which it came and asked; -1 means that it has not asked.
type caller struct {
	*Waiter

	joined, asked int
}

// TestNobodyIsForgotten has waiters come, ask, hear and leave at random. In the end all go on once the first one asks, and nobody
// goes on who came after the latch was open last.
func TestNobodyIsForgotten(t *testing.T) {
	t.Parallel()
	const busy = 200 // the steps in which waiters come
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newSet()
		var all []*caller
		opened := -1 // when the latch was open last
		for step := 0; step < busy || len(all) > 0; step++ {
			require.Less(t, step, 2*busy, "seed %d: somebody is forgotten", seed)
			now := start
			switch n := random.IntN(20); {
			case step >= busy:
				opened, now = step, start.Add(2*poll)
			case n < 6:
				all = append(all, &caller{s.Join("a", uint64(step), n < 3), step, -1})
			case n < 7:
				opened = step
				s.Opened("a", uint64(step))
			case n < 9 && len(all) > 0:
				all[random.IntN(len(all))].OnMessage()
			case n < 10 && len(all) > 0:
				i := random.IntN(len(all))
				if all[i].asked >= 0 {
					all[i].Abandoned(false)
				}
				all[i].Leave(now)
				all = slices.Delete(all, i, i+1)
			}
			all = slices.DeleteFunc(all, func(c *caller) bool {
				if c.asked >= 0 && random.IntN(3) > 0 {
					return false // no reply yet
				}
				if c.asked >= 0 {
					count := int64(1)
					if opened >= c.asked {
						count = 0
					}
					c.asked = -1
					c.Answered(count, now)
				}
				next := c.Next(now)
				switch next.Do {
				case Ask:
					c.asked = step
				case Done:
					require.LessOrEqual(t, c.joined, opened, "seed %d", seed)
					c.Leave(now)
				case Sleep:
				}
				return next.Do == Done
			})
		}
		require.Zero(t, s.Len())
	}
}

// TestAMessageIsNotLostWithTheWaiterThatTookIt: the waiter is let through before it can say that it has a message. The next one then
// looks.
func TestAMessageIsNotLostWithTheWaiterThatTookIt(t *testing.T) {
	s := newSet()
	first := s.Join("a", 0, false)
	moment := s.Moment()
	second := s.Join("a", 1, false)
	asks(t, first, start)
	first.Answered(1, start)
	if first.Next(start).Do == Ask {
		first.Answered(1, start)
		sleeps(t, first, start)
	}
	sleeps(t, second, start)
	s.Seen("a", moment)
	require.True(t, rung(second))
	sleeps(t, second, start)
	first.OnMessage()
	done(t, first)
	first.Leave(start)
	require.True(t, rung(second))
}

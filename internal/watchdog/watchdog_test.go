package watchdog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAlarmsOnlyMoveEarlier(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		noted := func(name string) Work { return Work{Deliver: func() { f.record("%s", name) }} }
		f.alarmAt(10*time.Second, noted("first look"))
		f.alarmAt(5*time.Second, noted("second look"))
		f.alarmAt(20*time.Second, noted("no look"))
		f.until(time.Minute)
		require.Equal(f, []string{"5s first look"}, f.recorded())
		f.alarmAt(2*time.Minute, Work{})
		f.until(2 * time.Minute)
		require.Equal(f, []string{"2m0s second look"}, f.recorded())
	})
}

func TestAnAlarmInThePastIsDueAtOnce(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.until(time.Second)
		f.alarmAt(0, Work{Deliver: func() { f.record("look") }})
		f.until(time.Second)
		require.Equal(f, []string{"1s look"}, f.recorded())
	})
}

// TestAnAlarmInThePastAfterALook is about bubbles of Go 1.25: there, a timer that has fired never returns from a Reset to the past, and a
// user's test never ends.
func TestAnAlarmInThePastAfterALook(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.alarmAt(time.Second, Work{})
		f.until(time.Second)
		f.alarmAt(0, Work{Deliver: func() { f.record("look") }})
		f.until(2 * time.Second)
		require.Equal(f, []string{"1s look"}, f.recorded())
	})
}

func TestNoticesFollowTheWork(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.alarmAt(time.Second, Work{
			Release: []func(){func() { f.record("release a") }, func() { f.record("release b") }},
			Deliver: func() { f.record("deliver") },
		})
		f.until(time.Second)
		require.Equal(f, []string{"1s release a", "1s release b", "1s deliver"}, f.recorded())
	})
}

func TestRenewalsGoInPipelines(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 50*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.batches(500, "a", "b", "c", "d", "e", "f", "g")})
		f.until(2 * time.Second)
		require.Equal(f, []string{
			"1s 1000 locks to the server [a b]",
			"1.05s a renewed as of 1s", "1.05s b renewed as of 1s",
			"1.05s 2000 locks to the server [c d e f]", // the node is fast
			"1.1s c renewed as of 1.05s", "1.1s d renewed as of 1.05s", "1.1s e renewed as of 1.05s", "1.1s f renewed as of 1.05s",
			"1.1s 500 locks to the server [g]",
			"1.15s g renewed as of 1.1s",
		}, f.recorded())
		require.Empty(f, f.watchdog.rounds)
	})
}

func TestASlowNodeGetsNoLongerPipelines(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 200*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.batches(1000, "a", "b", "c")})
		f.until(2 * time.Second)
		require.Equal(f, []string{
			"1s 1000 locks to the server [a]", "1.2s a renewed as of 1s",
			"1.2s 1000 locks to the server [b]", "1.4s b renewed as of 1.2s",
			"1.4s 1000 locks to the server [c]", "1.6s c renewed as of 1.4s",
		}, f.recorded())
	})
}

func TestALateBatchJoinsTheRound(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 200*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.batches(10, "a")})
		f.until(1100 * time.Millisecond)
		f.alarmAt(1100*time.Millisecond, Work{Renew: f.batches(10, "b")})
		f.until(2 * time.Second)
		require.Equal(f, []string{
			"1s 10 locks to the server [a]", "1.2s a renewed as of 1s",
			"1.2s 10 locks to the server [b]", "1.4s b renewed as of 1.2s",
		}, f.recorded())
	})
}

func TestOnlyWantedBatchesAreSent(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		empty := f.batches(0, "a", "b")
		f.alarmAt(time.Second, Work{Renew: append(empty, f.batches(10, "c")...)})
		f.until(time.Second)
		f.alarmAt(2*time.Second, Work{Renew: empty})
		f.until(2 * time.Second)
		require.Equal(f, []string{"1s 10 locks to the server [c]", "1s c renewed as of 1s"}, f.recorded())
		require.Empty(f, f.watchdog.rounds)
	})
}

func TestASilentRoundIsSentOnAnotherConnection(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 1200*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.batches(1000, "a", "b")})
		f.until(time.Second)
		f.hang(nil, 0) // the other connection works
		f.alarmAt(1200*time.Millisecond, Work{})
		f.until(3 * time.Second)
		require.Equal(f, []string{
			"1s 1000 locks to the server [a]",
			"1.5s silent",
			"1.5s 1000 locks to the server [a]", "1.5s a renewed as of 1.5s",
			"1.5s 1000 locks to the server [b]", "1.5s b renewed as of 1.5s",
			"2.2s a renewed as of 1s", // the late reply
		}, f.recorded())
	})
}

func TestOnlyThePipelineThatStallsIsSentAgain(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 400*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.batches(1000, "a", "b", "c")})
		f.until(1100 * time.Millisecond)
		f.hang(nil, time.Hour)
		f.until(1500 * time.Millisecond)
		f.hang(nil, 0)
		f.until(2 * time.Second)
		require.Equal(f, []string{
			"1s 1000 locks to the server [a]", "1.4s a renewed as of 1s",
			"1.4s 1000 locks to the server [b]",
			"1.9s silent",
			"1.9s 1000 locks to the server [b]", "1.9s b renewed as of 1.9s",
			"1.9s 1000 locks to the server [c]", "1.9s c renewed as of 1.9s",
		}, f.recorded())
	})
}

func TestALateReplyDoesNotEndTheNextRound(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 700*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.batches(1, "a")})
		f.until(1400 * time.Millisecond)
		f.hang(nil, 400*time.Millisecond)
		f.until(1600 * time.Millisecond)
		f.alarmAt(1800*time.Millisecond, Work{Renew: f.batches(1, "b")})
		f.until(3 * time.Second)
		require.Equal(f, []string{
			"1s 1 locks to the server [a]", "1.5s silent", "1.5s 1 locks to the server [a]",
			"1.7s a renewed as of 1s", // the late reply
			"1.9s a renewed as of 1.5s", "1.9s 1 locks to the server [b]", "2.3s b renewed as of 1.9s",
		}, f.recorded())
	})
}

func TestAShortLeaseNeverWaitsForTheRoundOfALongOne(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 900*time.Millisecond)
		var long []Batch
		for _, name := range []string{"a", "b", "c"} {
			long = append(long, f.leased(1000, 30*time.Second, name)...)
		}
		f.alarmAt(time.Second, Work{Renew: long})
		f.until(1100 * time.Millisecond)
		f.hang(nil, 10*time.Millisecond)
		f.alarmAt(1100*time.Millisecond, Work{Renew: f.leased(1, 900*time.Millisecond, "s")})
		f.until(1500 * time.Millisecond)
		require.Equal(f, []string{
			"1s 1000 locks to the server [a]",
			"1.1s 1 locks to the server [s]", "1.11s s renewed as of 1.1s",
		}, f.recorded())
		f.until(1950 * time.Millisecond)
		require.Equal(f, []string{
			"1.9s a renewed as of 1s", "1.9s 1000 locks to the server [b]", "1.91s b renewed as of 1.9s",
			"1.91s 1000 locks to the server [c]", "1.92s c renewed as of 1.91s",
		}, f.recorded())
		require.Empty(f, f.watchdog.rounds)
	})
}

func TestThePauseBeforeAReSendGoesByTheShortestLease(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, time.Hour)
		both := append(f.leased(1, 30*time.Second, "long"), f.leased(1, 900*time.Millisecond, "short")...)
		f.alarmAt(time.Second, Work{Renew: both})
		f.until(time.Second)
		f.recorded()
		f.until(1100 * time.Millisecond)
		require.Equal(f, []string{"1.09s silent", "1.09s 1 locks to the server [short]"}, f.recorded())
		f.until(2100 * time.Millisecond)
		require.Contains(f, f.recorded(), "2s 1 locks to the server [long]")
	})
}

func TestSimilarLeasesShareARound(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 100*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.leased(1000, 5*time.Second, "a")})
		f.until(1050 * time.Millisecond)
		more := append(f.leased(1000, 5*time.Second, "b"), f.leased(10, 4*time.Second, "c")...)
		f.alarmAt(1050*time.Millisecond, Work{Renew: more})
		f.until(1150 * time.Millisecond)
		f.hang(nil, time.Hour)
		f.until(1700 * time.Millisecond)
		require.Equal(f, []string{
			"1s 1000 locks to the server [a]", "1.1s a renewed as of 1s",
			"1.1s 1010 locks to the server [c b]", "1.2s c renewed as of 1.1s", "1.2s b renewed as of 1.1s",
		}, f.recorded(), "the shorter lease comes first")
	})
}

func TestARenewalWithoutAReplyFails(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, time.Hour)
		f.alarmAt(0, Work{Renew: f.batches(1, "a")})
		f.until(commandTimeout)
		events := f.recorded()
		require.Contains(f, events, "3s a failed: no answer from Redis in time")
		require.Contains(f, events, fmt.Sprint(2*retryAfter, " silent"))
	})
}

func TestASickNodeDelaysNoRenewalElsewhere(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.bySlot = true
		f.hang(fakeNode("x"), time.Hour)
		f.alarmAt(time.Second, Work{Renew: f.batches(1, "x1", "y1", "x2", "nowhere")})
		f.until(time.Second)
		require.ElementsMatch(f, []string{
			"1s 2 locks to x [x1 x2]", "1s 1 locks to y [y1]", "1s 1 locks to the server [nowhere]",
			"1s y1 renewed as of 1s", "1s nowhere renewed as of 1s",
		}, f.recorded())
		f.until(1500 * time.Millisecond)
		require.Equal(f, []string{"1.5s silent", "1.5s 2 locks to x [x1 x2]"}, f.recorded())
	})
}

func TestAClosedClientRenewsNothing(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 400*time.Millisecond)
		f.alarmAt(time.Second, Work{Renew: f.batches(1000, "a", "b")})
		f.until(time.Second)
		f.tasks.Close()
		f.alarmAt(1100*time.Millisecond, Work{Renew: f.batches(1000, "c"), Deliver: func() { f.record("look") }})
		f.until(time.Minute)
		require.Equal(f, []string{
			"1s 1000 locks to the server [a]", "1.1s look", "1.4s a renewed as of 1s",
		}, f.recorded())
		require.Zero(f, f.tasks.Count())
		f.alarmAt(2*time.Minute, Work{Renew: f.batches(1000, "d"), Deliver: func() { f.record("look") }})
		f.until(3 * time.Minute)
		require.Equal(f, []string{"2m0s look"}, f.recorded())
	})
}

func TestCloseWaitsForTheRenewalUnderWay(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.hang(nil, 400*time.Millisecond)
		f.alarmAt(0, Work{Renew: f.batches(1, "a")})
		f.until(0)
		f.tasks.Close()
		f.tasks.Wait(f.Context())
		require.Equal(f, []string{"0s 1 locks to the server [a]", "400ms a renewed as of 0s"}, f.recorded())
	})
}

func TestAWatchdogThatIsStoppedDoesNothing(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{false, true} {
		t.Run(fmt.Sprint("started ", started), func(t *testing.T) {
			t.Parallel()
			run(t, func(f *fixture) {
				looked := Work{Deliver: func() { f.record("look") }}
				w := Of(f.watchdog.cfg, f, f, f.tasks)
				if started {
					w.Alarm(f.start.Add(time.Second))
				}
				ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
				defer cancel()
				w.Stop(ctx)
				f.works = append(f.works, looked)
				w.Alarm(f.start.Add(time.Second))
				f.until(time.Minute)
				require.Empty(f, f.recorded())
			})
		})
	}
}

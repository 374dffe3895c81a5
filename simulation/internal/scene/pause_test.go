package scene

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/simulation/internal/simseed"
)

// TestAStoppedProcessStandsStill stops goroutines and timers of two processes, one after the other. It needs the changed runtime:
// TestProcessesStop runs it.
func TestAStoppedProcessStandsStill(t *testing.T) {
	if !simseed.Deterministic {
		t.Skip("needs the changed runtime")
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var a, b simseed.Process
		happened := make(map[string]time.Duration)
		note := func(what string) { happened[what] = time.Since(began) }
		fromOutside := make(chan struct{})
		start := func(p *simseed.Process, name string) {
			p.Do(func() {
				go func() {
					time.Sleep(time.Second)
					note(name + " slept")
					done := make(chan struct{})
					go func() { // started by one that was started
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						defer cancel()
						<-ctx.Done()
						close(done)
					}()
					<-done
					note(name + " waited")
				}()
				time.AfterFunc(3*time.Second, func() { note(name + " called") })
				go func() {
					ticks := time.NewTicker(time.Second)
					defer ticks.Stop()
					for range 4 {
						<-ticks.C
					}
					note(name + " ticked")
				}()
			})
		}
		start(&a, "a")
		start(&b, "b")
		a.Do(func() {
			go func() {
				fromOutside <- struct{}{}
				note("a went on")
			}()
		})
		time.Sleep(500 * time.Millisecond)
		a.Stop()
		<-fromOutside // what it had sent arrives
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, map[string]time.Duration{
			"b slept": time.Second, "b waited": 2 * time.Second, "b called": 3 * time.Second, "b ticked": 4 * time.Second,
		}, happened)
		a.Continue()
		synctest.Wait()
		require.Equal(t, 10500*time.Millisecond, happened["a went on"])
		require.Equal(t, 10500*time.Millisecond, happened["a slept"])
		require.Equal(t, 10500*time.Millisecond, happened["a called"], "its timers fire late")
		require.NotContains(t, happened, "a waited")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 11500*time.Millisecond, happened["a waited"])
		require.Equal(t, 12*time.Second, happened["a ticked"], "most ticks were dropped")

		start(&b, "again")
		b.Stop()
		time.Sleep(time.Minute)
		require.NotContains(t, happened, "again slept")
		b.Continue()
		time.Sleep(10 * time.Second)
	})
}

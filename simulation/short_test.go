package simulation

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// TestShortGrant has a waiter whose question gets no reply be granted the lock meanwhile.
func TestShortGrant(t *testing.T) {
	for ms := 2040; ms < 2066; ms++ {
		unlockAfter := time.Duration(ms) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			w := simnet.NewWorld(1)
			w.Faults.Latency = time.Millisecond
			w.Keep = true
			open := func(name string) *rlock.Client {
				made, err := driver.Attach(w.NewLink(name).Open(), []rlock.Option{rlock.WithPollInterval(time.Hour), rlock.WithLogger(slog.New(slog.DiscardHandler))})
				if err != nil {
					t.Fatal(err)
				}
				return made.(*rlock.Client)
			}
			a, b := open("a"), open("b")
			held, err := a.NewLock("x").Acquire(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			asks, asked := 0, make(chan struct{}, 1)
			w.Silent = func(l *simnet.Link, args []string) bool {
				if l.Name == "b" && strings.Contains(strings.Join(args, " "), ":waiters") {
					if asks++; asks == 3 {
						asked <- struct{}{}
						return true
					}
				}
				return false
			}
			got := make(chan string, 1)
			go func() {
				h, err := b.NewLock("x").Acquire(context.Background())
				if err != nil {
					got <- err.Error()
					return
				}
				left := time.Until(h.Deadline())
				began := time.Now()
				select {
				case <-h.Done():
					got <- "left " + left.String() + ", lost after " + time.Since(began).String() + ": " + h.Err().Error()
				case <-time.After(10 * time.Second):
					got <- "left " + left.String() + ", held"
				}
				_ = h.Unlock(context.Background())
			}()
			<-asked
			at := time.Now()
			time.Sleep(unlockAfter)
			if err := held.Unlock(context.Background()); err != nil {
				t.Fatal(err)
			}
			freed := time.Now()
			t.Logf("question without a reply, unlocked %v later: %s; %v after the unlock", freed.Sub(at), <-got, time.Since(freed))
			_ = a.Close()
			_ = b.Close()
			time.Sleep(time.Minute)
		})
	}
}

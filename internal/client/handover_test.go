package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// contend has so many goroutines of each handle take the lock in turns, and returns when all have. Each holds it for a
// millisecond. It fails if two hold the lock at once. It returns the tokens that they had.
func (f *fixture) contend(goroutines, turns int, handles ...*Lock) (tokens map[uint64]bool) {
	f.Helper()
	var all sync.WaitGroup
	var inside atomic.Int32
	tokens = make(map[uint64]bool)
	for _, l := range handles {
		for range goroutines {
			all.Go(func() {
				for range turns {
					got, err := l.Take(f.Context(), Terms{Op: "lock"})
					if err != nil {
						f.Errorf("lock: %v", err)
						return
					}
					if inside.Add(1) != 1 {
						f.Error("two hold the lock")
					}
					tokens[got.Token()] = true
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					if err := l.Unlock(f.Context()); err != nil {
						f.Errorf("unlock: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	return tokens
}

// TestHandOver has the goroutines of one client pass the lock to each other without a message.
func TestHandOver(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(func(cfg *Config) { cfg.Table.HandOverTime = time.Hour }), wire.Fenced)
		tokens := f.contend(10, 10, l)
		f.free()
		commands := f.took()
		handed, released := 0, 0
		for _, c := range commands {
			switch c {
			case "hand over":
				handed++
			case "release":
				released++
			}
		}
		require.Equal(f, 100, handed+released)
		require.LessOrEqual(f, released, 4, "one in 32 hand-overs, and the last one")
		require.Less(f, len(commands), 115)
		require.Len(f, tokens, 100, "each holder has a token of its own")
	})
}

// TestTwoClients has goroutines of two clients contend: no turn waits for a timer.
func TestTwoClients(t *testing.T) {
	run(t, func(f *fixture) {
		f.slowly("acquire", 50*time.Microsecond, 50*time.Microsecond)
		f.contend(5, 20, f.newLock(), f.newLock())
		f.free()
		require.Less(f, time.Since(f.start), time.Second, "200 turns of a ms, and what they cost")
	})
}

// handOvers has a client hand its locks over, or, in the line, release them with the name of the next holder.
func (f *fixture) handOvers(cfg *Config) {
	cfg.Table.HandOvers, cfg.Table.HandOverTime = either(f, 0, 32), time.Hour
}

// TestHandOverToOneThatLeaves has the next holder stop waiting while the lock is being handed over to it.
func TestHandOverToOneThatLeaves(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(f.handOvers), wire.Plain)
		require.NoError(f, acquire(f.Context(), l))
		unit := either(f, time.Millisecond/2, 10*time.Millisecond) // it stands in the line after 100 ms
		next := f.async(func() error { return acquireWithin(f.Context(), l, 200*unit) })
		f.slowly(either(f, "release", "hand over"), 60*unit, 60*unit)
		f.until(150 * unit)
		unlock := f.async(func() error { return l.Unlock(f.Context()) })
		next.failed(fault.ErrRefused, 200*unit)
		unlock.succeeded(270 * unit)
		f.until(330 * unit)
		f.free()
		f.instead(nil)
		require.NoError(f, acquire(f.Context(), l))
		require.NoError(f, l.Unlock(f.Context()))
	})
}

// TestSilentHandOver has Redis not answer the hand-over: the refusal by the last holder does not stand for longer than f.
func TestSilentHandOver(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(f.handOvers), wire.Plain)
		require.NoError(f, acquire(f.Context(), l))
		next := f.async(func() error { return acquireWithin(f.Context(), l, 2*time.Second) })
		f.slowly(either(f, "release", "hand over"), time.Second, time.Second)
		begin := either(f, 50*time.Millisecond, time.Second) // it stands in the line after 100 ms
		f.until(begin)
		unlock := f.async(func() error { return l.Unlock(f.Context()) })
		next.ends(unavailable, 2*time.Second)
		unlock.succeeded(begin + 2*time.Second)
		f.until(4 * time.Second)
		f.free()
	})
}

// TestStorm has goroutines of three clients do everything at random, with commands that are slow, or fail, or whose reply
// is lost. No two hold the lock at once, and at the end nobody does.
func TestStorm(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, func(f *fixture) { storm(f, seed) }) })
	}
}

func storm(f *fixture, seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	f.instead(func(_ string, do func() wire.Reply) wire.Reply {
		time.Sleep(time.Duration(upTo(2000)) * time.Microsecond)
		switch upTo(20) {
		case 0:
			return busy()
		case 1:
			return network()
		case 2:
			do()
			return network()
		}
		r := do()
		time.Sleep(time.Duration(upTo(2000)) * time.Microsecond)
		return r
	})
	var all sync.WaitGroup
	var holder atomic.Pointer[string] // that is inside
	for i := range 3 {
		c := f.client()
		l := f.lock(c, wire.Plain)
		for j := range 4 {
			me := fmt.Sprintf("goroutine %d of client %d", j, i)
			all.Go(func() {
				for range 20 {
					ctx, cancel := f.Context(), context.CancelFunc(func() {})
					if upTo(2) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(upTo(20000))*time.Microsecond)
					}
					held, err := l.Take(ctx, Terms{Op: "acquire", ByHold: true})
					cancel()
					if err != nil {
						continue
					}
					if other := holder.Swap(&me); other != nil {
						f.Errorf("%s and %s hold the lock", me, *other)
					}
					time.Sleep(time.Duration(upTo(3000)) * time.Microsecond)
					holder.Store(nil)
					_ = held.Unlock(f.Context())
				}
			})
		}
	}
	all.Wait()
	f.instead(nil)
	f.until(time.Since(f.start) + time.Minute)
	f.free()
	for _, c := range f.clients {
		require.Zero(f, c.Table().Stats().Due, "grants with a due time")
		require.Zero(f, c.Hub().Listeners(""), "listeners")
	}
}

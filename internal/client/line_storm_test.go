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

	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestLineStorm has goroutines of five clients of all kinds of the line, and a process that knows of none, take a lock at random.
// Commands are slow, or fail, or their reply is lost, grants are late, subscriptions are cut, and a client is closed. No two hold
// the lock at once, and it never stays free for long while somebody stands in the line. If a right comes and goes, some of them
// stand there, and others do not.
func TestLineStorm(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runLine(t, func(f *fixture) { (&lineStorm{fixture: f}).run(seed) }) })
	}
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("rights come and go ", seed), func(t *testing.T) {
			runLine(t, func(f *fixture) {
				f.leftover = true // who leaves while a right is missing
				(&lineStorm{fixture: f, most: firstTerm + 300*time.Millisecond}).run(seed)
			})
		})
	}
}

// lineStorm is one storm.
type lineStorm struct {
	*fixture

	random sync.Mutex
	dice   *rand.Rand
	inside atomic.Pointer[string]
	over   atomic.Bool
	most   time.Duration // for how long the lock may stay free although somebody stands in the line
}

func (s *lineStorm) upTo(n int) int {
	s.random.Lock()
	defer s.random.Unlock()
	return s.dice.IntN(n)
}

func (s *lineStorm) pause(micros int) { time.Sleep(time.Duration(s.upTo(micros)) * time.Microsecond) }

func (s *lineStorm) enter(me string) {
	if other := s.inside.Swap(&me); other != nil {
		s.Errorf("%s and %s hold the lock at %v", me, *other, time.Since(s.start))
	}
	s.pause(3000)
	if !s.inside.CompareAndSwap(&me, nil) {
		s.Errorf("%s was not alone", me)
	}
}

func (s *lineStorm) run(seed uint64) {
	s.dice = rand.New(rand.NewPCG(seed, 1))
	s.instead(func(_ string, do func() wire.Reply) wire.Reply {
		s.pause(2000)
		switch s.upTo(40) {
		case 0:
			return busy()
		case 1:
			return network()
		case 2:
			do()
			return network()
		}
		r := do()
		s.pause(2000)
		return r
	})
	var all, aside sync.WaitGroup
	kinds := []*wire.Kind{wire.Plain, wire.Fenced, wire.Plain, wire.Spin, wire.Fenced}
	for i, kind := range kinds {
		c := s.client()
		l := s.lock(c, kind)
		if kind == wire.Spin {
			l.Configure(func(h *table.Handle) error {
				h.FirstDelay, h.MaxDelay = time.Millisecond, 16*time.Millisecond
				return nil
			})
		}
		for j := range 3 {
			all.Go(func() { s.loop(l, fmt.Sprintf("goroutine %d of client %d", j, i)) })
		}
	}
	aside.Go(s.trouble)
	aside.Go(s.watch)
	if seed%2 == 0 {
		aside.Go(s.java)
	}
	all.Wait()
	s.over.Store(true)
	aside.Wait()
	s.instead(nil)
	s.until(time.Since(s.start) + time.Minute)
	s.free()
	for _, c := range s.clients {
		require.Zero(s, c.Table().Stats().Due, "grants with a due time")
		require.Zero(s, c.Hub().Listeners(""), "listeners")
	}
}

func (s *lineStorm) loop(l *Lock, me string) {
	for range 20 {
		ctx, cancel := s.Context(), context.CancelFunc(func() {})
		if s.upTo(2) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(s.upTo(100_000))*time.Microsecond)
		}
		began := time.Now()
		t := Terms{Op: "acquire", ByHold: true}
		switch s.upTo(4) {
		case 0:
			t.Lease = time.Minute // its grant is confirmed by a question
		case 1:
			t.Lease = time.Second
		}
		held, err := l.Take(ctx, t)
		cancel()
		if waited := time.Since(began); waited > 2*s.most+3*time.Second {
			s.Errorf("%s waited for %v", me, waited)
		}
		if err != nil {
			continue
		}
		s.enter(me)
		_ = held.Unlock(s.Context())
	}
}

// java takes the lock as others do, which know of no line.
func (s *lineStorm) java() {
	sub := s.foreign()
	for !s.over.Load() {
		if s.takeForOthers(time.Minute) {
			s.enter("java")
			s.freeForOthers()
			s.pause(10_000) // otherwise it would always be the first to ask
		}
		select {
		case <-sub.arrives:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *lineStorm) trouble() {
	for !s.over.Load() {
		s.pause(300_000)
		switch s.upTo(4) {
		case 0:
			s.cut(time.Duration(s.upTo(30_000)) * time.Microsecond)
		case 1:
			s.server.mu.Lock()
			s.late = time.Duration(s.upTo(2000)) * time.Microsecond
			s.server.mu.Unlock()
		case 2:
			if s.upTo(4) == 0 {
				s.clients[s.upTo(2)].Close()
			}
		case 3:
			if s.most > 0 {
				s.deny(true)
				s.pause(20_000)
				s.deny(false)
			}
		}
	}
}

// watch looks for a lock that stays free although somebody stands in the line.
func (s *lineStorm) watch() {
	var since time.Time
	for !s.over.Load() {
		time.Sleep(time.Millisecond)
		if time.Since(s.start) > time.Minute {
			panic(fmt.Sprint("the storm does not end: ", s.held(), s.line()))
		}
		switch {
		case s.held() != nil || len(s.line()) == 0:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > s.most+200*time.Millisecond:
			s.Errorf("the lock is free, and somebody waits, since %v", since.Sub(s.start))
			return
		}
	}
}

package page

import (
	"context"
	"sync"
	"time"
)

const (
	// every is how often a look begins.
	every = 500 * time.Millisecond
	// rest is for how many times as long as a look took there is a pause after it, so that Redis is not busy with the page.
	rest = 4
)

// pace has the looks of its pollers take turns, with a pause after each.
type pace struct {
	turn chan struct{} // whoever has put its token in has the turn
	next time.Time     // before this, there is no look: of whoever has the turn
}

func newPace() *pace { return &pace{turn: make(chan struct{}, 1)} }

// take waits for a turn, which is not before a time. It returns false if ctx ends first.
func (p *pace) take(ctx context.Context, notBefore time.Time) bool {
	if !sleep(ctx, notBefore) {
		return false
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if !sleep(ctx, p.next) {
		<-p.turn
		return false
	}
	return true
}

// give ends a turn in which a look began at a time.
func (p *pace) give(begun time.Time) {
	ended := time.Now()
	p.next = ended.Add(rest * ended.Sub(begun))
	<-p.turn
}

// sleep sleeps until a time. It returns false if ctx ends first.
func sleep(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// poller looks again and again while it has users.
type poller struct {
	pace  *pace
	first func(context.Context) // before the first look, out of turn
	look  func(context.Context)

	mu      sync.Mutex
	users   int
	cancel  context.CancelFunc
	running chan struct{} // closed when the latest loop has ended
}

func newPoller(pace *pace, first, look func(context.Context)) *poller {
	ended := make(chan struct{})
	close(ended)
	return &poller{pace: pace, first: first, look: look, running: ended}
}

// join adds a user, until the returned function is called.
func (p *poller) join() (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	if p.users == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		before, running := p.running, make(chan struct{})
		p.cancel, p.running = cancel, running
		go func() {
			defer close(running)
			<-before
			p.run(ctx)
		}()
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users--; p.users == 0 {
			p.cancel()
		}
	})
}

// wait waits until a poller without users has ended its last look.
func (p *poller) wait() {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	<-running
}

func (p *poller) run(ctx context.Context) {
	if p.first != nil {
		p.first(ctx)
	}
	for until := (time.Time{}); p.pace.take(ctx, until); {
		begun := time.Now()
		p.look(ctx)
		p.pace.give(begun)
		until = begun.Add(every)
	}
}

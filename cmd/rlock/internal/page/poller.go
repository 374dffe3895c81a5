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

// poller looks again and again while it has users.
type poller struct {
	look func(context.Context)

	mu      sync.Mutex
	users   int
	cancel  context.CancelFunc
	running chan struct{} // closed when the latest loop has ended
	next    time.Time     // before this, there is no look: of the latest loop, which is the only one that uses it
}

func newPoller(look func(context.Context)) *poller {
	ended := make(chan struct{})
	close(ended)
	return &poller{look: look, running: ended}
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
	until := p.next
	for {
		timer := time.NewTimer(time.Until(until))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		p.look(ctx)
		ended := time.Now()
		p.next = ended.Add(rest * ended.Sub(begun))
		until = begun.Add(every)
		if until.Before(p.next) {
			until = p.next
		}
	}
}

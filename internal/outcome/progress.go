package outcome

import (
	"sync/atomic"

	"github.com/go-rlock/rlock/internal/clock"
)

// Progress has what a call under way would say if it ended now. The zero value says that nothing is known. It is safe for concurrent
// use. A nil Progress is that of a call that nobody follows.
type Progress struct {
	at atomic.Pointer[func(now clock.Instant) Result]
}

// Follow sets what the call would say.
func (p *Progress) Follow(at func(now clock.Instant) Result) {
	if p != nil {
		p.at.Store(&at)
	}
}

// At returns what the call would say at a moment.
func (p *Progress) At(now clock.Instant) Result {
	if p == nil {
		return Result{}
	}
	if at := p.at.Load(); at != nil {
		return (*at)(now)
	}
	return Result{}
}

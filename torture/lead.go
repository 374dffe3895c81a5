package torture

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// verbLead runs an election. It takes the fenced lock of its name, as other turns do, so what holds for that holds for leaders: no two of
// them at a time, and rising terms.
const verbLead = "Run"

// elections is the name of the lock that only elections take.
const elections = "fenced-election"

// drawLead makes some turns of fenced locks elections.
func (w *worker) drawLead(p *plan) {
	if p.share.Kind != kindFenced || p.names[0] != elections && w.random.IntN(6) > 0 {
		return
	}
	p.verb, p.release, p.try = verbLead, releaseOnce, false
	p.lease, p.wait = 0, 0
	if p.names[0] == elections {
		p.hold += time.Duration(w.random.IntN(int(50 * time.Millisecond)))
	}
}

// lead campaigns, leads for the turn, and resigns.
func (s *section) lead(ctx context.Context) {
	ctx, opts, cancel := s.terms(ctx)
	defer cancel()
	campaign, end := context.WithCancel(ctx)
	defer end()
	election := s.clients[0].NewElection(s.Names[0], opts...)
	var hold *rlock.Hold
	var own error
	err := election.Run(campaign, func(ctx context.Context, term rlock.Token) error {
		if hold != nil { // after a loss that came when lead had returned
			return own
		}
		own = s.inside(ctx)
		if hold, _ = handles.HoldFrom(ctx, s.lock); hold == nil {
			return own
		}
		if term != hold.Token() {
			s.wrong("election: the term is %d, and the token %d", term, hold.Token())
		}
		s.led(ctx, election, hold)
		if hold.Err() != nil {
			end() // it would campaign again
		}
		return own
	})
	if hold == nil {
		s.answered(ctx, err)
		if err == nil || campaign.Err() == nil && errors.Is(err, rlock.ErrUnavailable) {
			s.wrong("election: Run returned %v without a call of lead", err)
		}
		return
	}
	s.Unlocked, s.ByDo, s.Unlock = now(), true, got
	if errors.Is(hold.Err(), rlock.ErrLost) {
		s.Unlock, s.Err = lost, hold.Err().Error()
	}
	if !same(err, own) {
		s.wrong("election: Run returned %v, and lead %v", err, own)
	}
	if election.IsLeader() {
		s.wrong("election: it leads after Run has returned")
	}
}

// led checks what a leader sees of its leadership, after its work and before it returns.
func (s *section) led(ctx context.Context, election *rlock.Election, hold *rlock.Hold) {
	over := s.judge().Leads(s, election, hold)
	if over == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	s.judge().Ends(ctx, s, over)
}

package torture

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
)

// tickets are the kinds of lock whose holds can be exported.
var tickets = []string{kindLock, kindSpin, kindFenced, kindFair, kindFencedFair, kindWrite, kindFencedWrite}

// handOff exports the hold and adopts it again. In between nobody else can have the lock, so the owner's belief has no gap. It returns
// the adopted hold, or nil if there is none: then the turn is over.
func (s *section) handOff(hold *rlock.Hold) *rlock.Hold {
	if s.depth > 1 || s.plan.release != releaseOnce || !slices.Contains(tickets, s.Kind) || s.random.IntN(8) > 0 {
		return hold
	}
	ctx, lease := context.Background(), 2*shortLease+time.Duration(s.random.IntN(int(watchdogTimeout)))
	s.unlocking(hold)
	if s.Over {
		return hold
	}
	s.Extended = now().Add(lease + commandTimeout) // Redis may keep the lock for that long, also if the process is killed
	s.emit(*s.Turn)
	from := now()
	s.Export = from
	ticket, err := hold.Export(ctx, rlock.Lease(lease))
	if s.gone(from, err, lost); err != nil {
		return nil
	}
	pause(ctx, time.Duration(s.random.IntN(int(3*time.Millisecond))))
	var opts []rlock.AcquireOption
	if s.lease > 0 {
		opts = append(opts, rlock.Lease(s.lease))
	}
	lock, _ := handle(s.clients, s.Kind, s.Names...).(*rlock.Lock)
	from = now()
	adopted, err := lock.Adopt(ctx, ticket, opts...)
	s.Refused = errors.Is(err, rlock.ErrNotHeld) && now() < s.good(lease)
	if s.gone(from, err, failed); err != nil {
		return nil
	}
	if token := uint64(adopted.Token()); s.Token > 0 && token <= s.Token {
		s.wrong("token: an adopted hold has the token %d, after %d", token, s.Token)
	} else {
		s.Token = token
	}
	if s.lease == 0 {
		s.Lease, s.Renewal = watchdogTimeout, watchdogTimeout
	}
	s.adopts(now())
	s.believe(adopted)
	s.emit(*s.Turn)
	if _, err := lock.Adopt(ctx, ticket); err == nil {
		s.wrong("ticket: one was adopted twice")
	} else {
		s.called(from, err)
	}
	return adopted
}

// adopts records that the owner has its lock again. The hold has a deadline of its own, and has not been unlocked.
func (t *Turn) adopts(at Moment) {
	t.Unlocking, t.Deadline, t.Over, t.Adopted = 0, 0, false, at
}

// good returns until when the ticket of the hold certainly is worth something. Its lease runs from when Redis ran the command, and the reply may
// have come long after that.
func (t *Turn) good(lease time.Duration) Moment { return t.Export.Add(lease - lease/10) }

// gone ends the turn if a step of a hand-off, which began at a moment, had an error. It may have freed the lock, or not yet.
func (s *section) gone(from Moment, err error, ifLost Answer) {
	if err == nil {
		return
	}
	s.Unlocked, s.Unlock, s.Err = now(), failed, err.Error()
	if s.called(from, err) == loss {
		s.Unlock = ifLost
	}
}

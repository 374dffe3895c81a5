package promises

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// Reentry checks a second acquisition by the owner of a hold.
func (j Judge) Reentry(who fmt.Stringer, hold, inner *rlock.Hold, err error) {
	switch {
	case err == nil && inner.Token() != hold.Token():
		j("token: a re-entry of %v has the token %d instead of %d", who, inner.Token(), hold.Token())
	case errors.Is(err, rlock.ErrNotAcquired) && hold.Err() == nil && hold.Context().Err() == nil:
		j("re-entry: the owner of %v was refused: %v", who, err)
	}
}

// Extended checks the deadline of a hold whose lease was extended by d, by a call that began at a moment.
func (j Judge) Extended(who fmt.Stringer, hold *rlock.Hold, d time.Duration, asked time.Time) {
	if least := asked.Add(d - d/100 - 5*time.Millisecond); hold.Deadline().Before(least) {
		j("extend: %v extended its lease by %v, which ends %v too early", who, d, least.Sub(hold.Deadline()))
	}
}

// Borrowed gets a hold from a context that carries it. It checks that this is the same, and that its unlock ends nothing.
func (j Judge) Borrowed(ctx context.Context, who fmt.Stringer, lock handles.Any, hold *rlock.Hold) {
	borrowed, ok := handles.HoldFrom(ctx, lock)
	if !ok {
		j("borrow: the context of a hold of %v does not carry it", who)
		return
	}
	before, says := hold.Err(), borrowed.Err()
	if before == nil && says != nil && hold.Err() == nil {
		j("borrow: what %v borrowed is over: %v", who, says)
	}
	if borrowed.Token() != hold.Token() {
		j("borrow: what %v borrowed has the token %d instead of %d", who, borrowed.Token(), hold.Token())
	}
	if err := borrowed.Unlock(context.Background()); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
		j("borrow: the unlock of what %v borrowed returned %v", who, err)
	}
	if err := hold.Err(); before == nil && err != nil && !errors.Is(err, rlock.ErrLost) && !errors.Is(err, rlock.ErrClosed) {
		j("borrow: the unlock of what %v borrowed ended its hold: %v", who, err)
	}
}

// Done checks what Do returned, given what its function did: the same, or the loss of the lock besides, on one line. It reports that.
func (j Judge) Done(who fmt.Stringer, own, err error) bool {
	ok := any(err) == any(own) || errors.Is(err, rlock.ErrLost) && (own == nil || errors.Is(err, own)) && !strings.Contains(err.Error(), "\n")
	if !ok {
		j("do: it returned %q to %v, and its function %v", err, who, own)
	}
	return ok
}

// Leads checks that a leader leads as long as it has its hold. It returns why that is over.
func (j Judge) Leads(who fmt.Stringer, election *rlock.Election, hold *rlock.Hold) error {
	over := hold.Err()
	if leads := election.IsLeader(); leads && over != nil {
		j("election: %v says that it leads although its hold is over: %v", who, over)
	} else if !leads && hold.Err() == nil {
		j("election: %v says that it does not lead although it has the lock", who)
	}
	return over
}

// Ends checks that a leader, whose function has not returned, has learned of the end of its lead by a loss.
func (j Judge) Ends(lead context.Context, who fmt.Stringer, over error) {
	if lead.Err() == nil {
		j("election: the context of the leader of %v goes on although its hold is over: %v", who, over)
	}
	if !errors.Is(over, rlock.ErrLost) && !errors.Is(over, rlock.ErrClosed) {
		j("election: %v has resigned before its function has returned: %v", who, over)
	}
}

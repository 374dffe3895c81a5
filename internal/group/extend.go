package group

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

// Extend lengthens the leases of the members, side by side, and returns as soon as enough of them have confirmed, or can no
// longer do so. The others go on in the background.
func (a *acquisition) Extend(ctx context.Context, d time.Duration) error {
	if why := a.Err(); why != nil {
		return a.endedAs(why)
	}
	if ctx.Err() != nil {
		return a.group.wrap(lease.EndOf(ctx), "extend")
	}
	members := a.held()
	errs := make([]error, len(members))
	results := make(chan unlocked, len(members))
	running, confirmed := 0, 0
	for i, h := range members {
		if h == nil || h.Err() != nil {
			errs[i] = errMissing
			continue
		}
		running++
		clientOf(h).Background(func() { results <- unlocked{i, h.Extend(ctx, d)} })
	}
	for confirmed < a.group.need && confirmed+running >= a.group.need {
		r := <-results
		running--
		if errs[r.member] = r.err; r.err == nil {
			confirmed++
		}
	}
	switch why := a.Err(); {
	case why != nil:
		return a.endedAs(why)
	case confirmed >= a.group.need:
		return nil
	case ctx.Err() != nil:
		return a.group.wrap(lease.EndOf(ctx), "extend")
	}
	return a.group.wrap(a.group.notExtended(errs), "extend")
}

// errMissing is the error of a member that is not held.
var errMissing = errors.New("not held")

// endedAs returns why the acquisition is over, with the operation and the group.
func (a *acquisition) endedAs(why error) error {
	if known := (*fault.OpError)(nil); errors.As(why, &known) {
		return why
	}
	return a.group.wrap(why, "extend")
}

// notExtended makes one error of the errors of members that did not confirm an extension. The group goes on, so the error must
// not say that it is lost, or held by another owner, as a member may be.
func (g *Group) notExtended(errs []error) error {
	for i, err := range errs {
		if fault.Sentinel(err) && !errors.Is(err, fault.ErrUnavailable) {
			errs[i] = errors.New(strings.TrimPrefix(err.Error(), "rlock: "))
		}
	}
	if g.quorum != nil {
		return g.quorum(g.need, g.named(errs))
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

package group

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// Extend lengthens the leases of the members, side by side, and returns as soon as enough of them have confirmed, or can no
// longer do so. The others go on in the background.
func (a *acquisition) Extend(ctx context.Context, d time.Duration) error {
	if why := a.Err(); why != nil {
		return a.endedAs(why)
	}
	if ctx.Err() != nil {
		return a.group.wrap(client.EndOf(ctx), "extend")
	}
	members := a.held()
	errs, answered := make([]error, len(members)), make([]bool, len(members))
	results := make(chan extended, len(members))
	running := 0
	confirmed := func() (n int) { // a member that is lost by now no longer counts
		for i, h := range members {
			if answered[i] && errs[i] == nil && h.Err() == nil {
				n++
			}
		}
		return n
	}
	for i, h := range members {
		if h == nil || h.Err() != nil {
			errs[i] = errMissing
			continue
		}
		running++
		clientOf(h).Alongside(func() error { return h.Extend(ctx, d) }, func(err error) { results <- extended{i, err} })
	}
	n := confirmed()
	for ; n < a.group.need && n+running >= a.group.need; n = confirmed() {
		r := <-results
		running--
		errs[r.member], answered[r.member] = r.err, true
	}
	switch why := a.Err(); {
	case why != nil:
		return a.endedAs(why)
	case n >= a.group.need:
		return nil
	}
	for i, h := range members {
		if answered[i] && errs[i] == nil {
			errs[i] = h.Err() // it was lost after it had confirmed
		}
	}
	err := a.group.rule().of(errs)
	if ctx.Err() != nil && !errors.Is(err, fault.ErrUnavailable) { // a cancellation by itself says nothing about Redis
		err = client.EndOf(ctx)
	}
	return a.group.wrap(err, "extend")
}

// extended is the result of the extension of one member.
type extended struct {
	member int
	err    error
}

// errMissing is the error of a member that is not held.
var errMissing = errors.New("not held")

// endedAs returns why the acquisition is over, with the operation and the group.
func (a *acquisition) endedAs(why error) error {
	if fault.Named(why) {
		return why
	}
	return a.group.wrap(why, "extend")
}

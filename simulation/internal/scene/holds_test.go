package scene

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// TestCheckersOfHoldsBite keeps and breaks the promises that [promises.Judge] checks on the holds of a client.
func TestCheckersOfHoldsBite(t *testing.T) {
	t.Parallel()
	elected := func(w *worker, check func(e *rlock.Election, led, other *rlock.Hold)) {
		e, x := w.clients[0].NewElection("x"), w.clients[0].NewLock("x", rlock.Fenced())
		ctx, resign := context.WithCancel(w.ctx)
		_ = e.Run(ctx, func(ctx context.Context, _ rlock.Token) error {
			defer resign()
			led, _ := rlock.HoldFrom(ctx, x)
			other, err := w.clients[0].NewLock("y", rlock.Fenced()).Acquire(w.ctx)
			if err == nil {
				check(e, led, other)
				err = other.Unlock(w.ctx)
			}
			return err
		})
	}
	for name, c := range map[string]struct {
		does func(j promises.Judge, w *worker, x *rlock.Lock, hold *rlock.Hold)
		says string // empty means that it breaks nothing
	}{
		"a re-entry": {func(j promises.Judge, w *worker, x *rlock.Lock, hold *rlock.Hold) {
			inner, err := x.Acquire(hold.Context())
			j.Reentry(w.process, hold, inner, err)
		}, ""},
		"a re-entry with another token": {func(j promises.Judge, w *worker, x *rlock.Lock, hold *rlock.Hold) {
			if hold.Unlock(w.ctx) == nil {
				inner, err := x.Acquire(w.ctx)
				j.Reentry(w.process, hold, inner, err)
			}
		}, "token: a re-entry of p0 has the token"},
		"a re-entry that is refused": {func(j promises.Judge, w *worker, _ *rlock.Lock, hold *rlock.Hold) {
			j.Reentry(w.process, hold, nil, rlock.ErrNotAcquired)
		}, "re-entry:"},
		"an extension": {func(j promises.Judge, w *worker, _ *rlock.Lock, hold *rlock.Hold) {
			asked := time.Now()
			require.NoError(t, hold.Extend(w.ctx, time.Hour))
			j.Extended(w.process, hold, time.Hour, asked)
		}, ""},
		"an extension that is shorter": {func(j promises.Judge, w *worker, _ *rlock.Lock, hold *rlock.Hold) {
			asked := time.Now()
			require.NoError(t, hold.Extend(w.ctx, time.Hour-2*time.Minute))
			j.Extended(w.process, hold, time.Hour, asked)
		}, "extend:"},
		"a hold that is borrowed": {func(j promises.Judge, w *worker, x *rlock.Lock, hold *rlock.Hold) {
			j.Borrowed(hold.Context(), w.process, x, hold)
		}, ""},
		"a hold that is not carried": {func(j promises.Judge, w *worker, x *rlock.Lock, hold *rlock.Hold) {
			j.Borrowed(w.ctx, w.process, x, hold)
		}, "borrow: the context of a hold of p0 does not carry it"},
		"another hold that is borrowed": {func(j promises.Judge, w *worker, x *rlock.Lock, hold *rlock.Hold) {
			if hold.Unlock(w.ctx) == nil {
				other, err := x.Acquire(w.ctx)
				require.NoError(t, err)
				j.Borrowed(other.Context(), w.process, x, hold)
			}
		}, "borrow: what p0 borrowed has the token"},
		"a leader": {func(j promises.Judge, w *worker, _ *rlock.Lock, hold *rlock.Hold) {
			if hold.Unlock(w.ctx) == nil {
				elected(w, func(e *rlock.Election, led, _ *rlock.Hold) { _ = j.Leads(w.process, e, led) })
			}
		}, ""},
		"a leader whose hold is over": {func(j promises.Judge, w *worker, _ *rlock.Lock, hold *rlock.Hold) {
			if hold.Unlock(w.ctx) == nil {
				elected(w, func(e *rlock.Election, _, _ *rlock.Hold) { _ = j.Leads(w.process, e, hold) })
			}
		}, "election: p0 says that it leads although its hold is over"},
		"a holder who does not lead": {func(j promises.Judge, w *worker, _ *rlock.Lock, hold *rlock.Hold) {
			_ = j.Leads(w.process, w.clients[0].NewElection("x"), hold)
		}, "election: p0 says that it does not lead although it has the lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, w, _ := stage(t)
				var broken error
				j := func(format string, args ...any) { broken = errors.Join(broken, fmt.Errorf(format, args...)) }
				x := w.clients[0].NewLock("x", rlock.Fenced())
				hold, err := x.Acquire(w.ctx)
				require.NoError(t, err)
				if c.does(j, w, x, hold); c.says == "" {
					require.NoError(t, broken)
					return
				}
				require.ErrorContains(t, broken, c.says)
			})
		})
	}
}

package group

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// These tests cover the classes of a group's errors: which of the errors of its members decide, and that no error is of
// two classes.

// checkClass checks that an error is of one class alone, or of none if want is nil.
func checkClass(t *testing.T, err, want error, what string) {
	t.Helper()
	require.Error(t, err, what)
	for _, class := range []error{fault.ErrNotAcquired, fault.ErrUnavailable, fault.ErrLost} {
		require.Equal(t, class == want, errors.Is(err, class), "%s: %v, %v", what, class, err)
	}
}

func TestTheErrorOfARedLockHasTheClassOfTheFailureThatEndedIt(t *testing.T) {
	t.Parallel()
	refused := &fault.OpError{Op: "acquire", Name: "m", Err: fault.ErrRefused}
	for what, c := range map[string]struct {
		errs []error
		want error
	}{
		"two refuse":                            {errs: []error{refused, nil, refused}, want: fault.ErrNotAcquired},
		"two refuse, one is broken":             {errs: []error{refused, errBroken, refused}, want: fault.ErrNotAcquired},
		"two refuse, one is denied":             {errs: []error{refused, errDenied, refused}, want: fault.ErrNotAcquired},
		"one refuses, one is broken":            {errs: []error{refused, errBroken, nil}, want: fault.ErrUnavailable},
		"one refuses, two are broken":           {errs: []error{refused, errBroken, errBroken}, want: fault.ErrUnavailable},
		"one is broken, one is denied":          {errs: []error{errBroken, errDenied, nil}, want: fault.ErrUnavailable},
		"one refuses, one is denied":            {errs: []error{refused, errDenied, nil}, want: fault.ErrUnavailable},
		"two are denied":                        {errs: []error{errDenied, nil, errDenied}},
		"two are denied, one is broken":         {errs: []error{errDenied, errBroken, errDenied}},
		"two are denied, one refuses":           {errs: []error{errDenied, refused, errDenied}},
		"the only one refuses":                  {errs: []error{refused}, want: fault.ErrNotAcquired},
		"the only one is broken":                {errs: []error{errBroken}, want: fault.ErrUnavailable},
		"of two, one refuses and one is broken": {errs: []error{errBroken, refused}, want: fault.ErrNotAcquired},
		"of two, one is broken":                 {errs: []error{nil, errBroken}, want: fault.ErrUnavailable},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, len(c.errs))
			for i, err := range c.errs {
				fakes[i].set(err)
				if c.want == nil && err != errDenied || c.want != nil && !errors.Is(err, c.want) { // the reply that decides comes first
					fakes[i].delay = time.Millisecond
				}
			}
			_, err := NewRed(members).Take(t.Context(), single)
			checkClass(t, err, c.want, what)
			require.Equal(t, c.want == fault.ErrNotAcquired, errors.Is(err, fault.ErrRefused), "%s: %v", what, err)
			require.ErrorContains(t, err, fmt.Sprintf("of %d members failed, %d are needed: member ", len(c.errs), len(c.errs)/2+1), what)
		})
	}
}

// TestARedLockOfAClosedClientSaysSo: a member that refused before the client was closed does not make an outage of that.
func TestARedLockOfAClosedClientSaysSo(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		fakes, members, _ := newMembers(t, 7)
		for i, err := range []error{nil, fault.ErrRefused, fault.ErrRefused, fault.ErrClosed, fault.ErrClosed, fault.ErrClosed, fault.ErrClosed} {
			fakes[i].set(err)
		}
		fakes[0].hangs = 2 * time.Millisecond
		fakes[5].delay, fakes[6].delay = time.Millisecond, time.Millisecond // while the first one is released
		_, err := NewRed(members).Take(t.Context(), client.Terms{Op: "acquire", Lease: leaseTime})
		require.ErrorIs(t, err, fault.ErrClosed)
		checkClass(t, err, nil, "closed")
	})
}

func TestACleanUpThatFailsDoesNotChangeTheClass(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ err, want error }{
		"refused": {&fault.OpError{Op: "acquire", Name: "m", Err: fault.ErrRefused}, fault.ErrNotAcquired},
		"denied":  {errDenied, nil},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 3)
			fakes[0].unlock = errBroken
			fakes[1].set(c.err)
			fakes[2].set(c.err)
			for _, g := range []*Group{NewMulti(members), NewRed(members)} {
				_, err := g.Take(t.Context(), single)
				checkClass(t, err, c.want, what)
			}
		})
	}
}

func TestTheErrorOfAnUnlockHasOneClass(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		errs []error // of the unlocks
		lost bool    // the first member was lost before
		red  bool
		want error
	}{
		"broken":                      {errs: []error{nil, errBroken}, want: fault.ErrUnavailable},
		"denied":                      {errs: []error{nil, errDenied}},
		"broken and denied":           {errs: []error{errBroken, errDenied}},
		"gone, and broken":            {errs: []error{fault.ErrLost, errBroken}, want: fault.ErrLost},
		"lost, and broken":            {errs: []error{nil, errBroken}, lost: true, want: fault.ErrLost},
		"lost, and denied":            {errs: []error{nil, errDenied}, lost: true, want: fault.ErrLost},
		"red, two broken":             {errs: []error{errBroken, errBroken, nil}, red: true, want: fault.ErrUnavailable},
		"red, one gone, two broken":   {errs: []error{fault.ErrLost, errBroken, errBroken}, red: true, want: fault.ErrUnavailable},
		"red, one gone, one broken":   {errs: []error{fault.ErrLost, errBroken, nil}, red: true, want: fault.ErrUnavailable},
		"red, two gone, one broken":   {errs: []error{fault.ErrLost, errBroken, fault.ErrLost}, red: true, want: fault.ErrLost},
		"red, one lost, two broken":   {errs: []error{nil, errBroken, errBroken}, lost: true, red: true, want: fault.ErrUnavailable},
		"red, one lost, the next too": {errs: []error{nil, fault.ErrLost, errBroken}, lost: true, red: true, want: fault.ErrLost},
		"red, of one":                 {errs: []error{errBroken}, red: true, want: fault.ErrUnavailable},
		"red, of two":                 {errs: []error{errBroken, fault.ErrLost}, red: true, want: fault.ErrLost},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, len(c.errs))
			g := NewMulti(members)
			if c.red {
				g = NewRed(members)
			}
			h, err := g.Take(t.Context(), forever)
			require.NoError(t, err)
			synctest.Wait()
			for i, err := range c.errs {
				fakes[i].unlock = err
			}
			if c.lost {
				fakes[0].set(errBroken) // it is not reacquired
				fakes[0].grant().lose(fakes[0].grant().confirmed(time.Now()))
				synctest.Wait()
			}
			err = h.Unlock(t.Context())
			checkClass(t, err, c.want, what)
			if c.red {
				require.ErrorAs(t, err, new(*quorumError), what)
			}
		})
	}
}

func TestAContextThatHasEndedIsNoOutcome(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		_, members, log := newMembers(t, 3)
		cause := errors.New("the cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for _, g := range []*Group{NewMulti(members), NewRed(members)} {
			for _, terms := range []client.Terms{single, forever} {
				_, err := g.Take(ctx, terms)
				checkClass(t, err, nil, g.description)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, cause)
			}
		}
		require.Empty(t, log.take(), "nothing is sent")
	})
}

func TestACancellationIsAnOutageOnlyIfAMemberIsSilent(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		after    time.Duration
		deadline bool
		refused  bool // in an earlier round
		want     error
	}{
		"at once":                    {after: floor / 100},
		"after the floor":            {after: floor + floor/2, want: fault.ErrUnavailable},
		"a deadline":                 {after: floor / 100, deadline: true, want: fault.ErrUnavailable},
		"refused before":             {after: floor / 2, refused: true, want: fault.ErrNotAcquired},
		"refused before, a deadline": {after: floor / 2, deadline: true, refused: true, want: fault.ErrNotAcquired},
		"refused, and silent since":  {after: floor * 4, refused: true, want: fault.ErrUnavailable},
	} {
		for red := range variants {
			bubble(t, func(t *testing.T) {
				t.Helper()
				fakes, members, _ := newMembers(t, 3)
				g, end := red.group(fakes, members), context.Canceled
				ctx, cancel := context.WithCancel(t.Context())
				if c.deadline {
					ctx, cancel = context.WithTimeout(t.Context(), c.after)
					end = context.DeadlineExceeded
				}
				defer cancel()
				silence(fakes[1:], c.refused)
				result := take(ctx, g, forever)
				if !c.deadline {
					<-time.After(c.after)
					cancel()
				}
				err := <-result
				checkClass(t, err, c.want, fmt.Sprintf("%s, %v", what, red))
				require.ErrorIs(t, err, end)
				require.NotErrorIs(t, err, fault.ErrRefused, "the context ended the wait")
			})
		}
	}
}

// silence makes members silent: at once, or after they have refused once.
func silence(fakes []*member, refused bool) {
	for _, f := range fakes {
		if refused {
			f.set(fault.ErrRefused)
			f.reached = f.stall
		} else {
			f.stall()
		}
	}
}

func TestAWaitThatEndsIsAnOutageOrARefusal(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		wait    time.Duration
		lease   time.Duration // of a short one, a red lock's rounds are short
		refused bool          // in an earlier round
		silence error         // of each question since; nil means ErrNoAnswer
		want    error
	}{
		"silent":                    {wait: 10 * time.Millisecond, want: fault.ErrUnavailable},
		"refused before":            {wait: floor / 2, refused: true, want: fault.ErrNotAcquired},
		"refused, and silent since": {wait: floor * 4, refused: true, want: fault.ErrUnavailable},
		"refused, then silent":      {wait: floor - time.Millisecond, lease: time.Second, refused: true, want: fault.ErrNotAcquired},
		"refused, then there is no connection": {
			wait: floor - time.Millisecond, lease: time.Second, refused: true, silence: fault.ErrNoConnection, want: fault.ErrNotAcquired,
		},
		"refused, and there is no connection since": {
			wait: floor * 4, lease: time.Second, refused: true, silence: fault.ErrNoConnection, want: fault.ErrUnavailable,
		},
	} {
		for red := range variants {
			bubble(t, func(t *testing.T) {
				t.Helper()
				what := fmt.Sprintf("%s, %v", what, red)
				fakes, members, _ := newMembers(t, 3)
				g := red.group(fakes, members)
				silence(fakes[1:], c.refused)
				for _, f := range fakes {
					f.silence = c.silence
				}
				start := time.Now()
				_, err := g.Take(t.Context(), client.Terms{Op: "acquire", Limited: true, Wait: c.wait, Lease: c.lease})
				checkClass(t, err, c.want, what)
				require.Equal(t, c.want == fault.ErrNotAcquired, errors.Is(err, fault.ErrRefused), what)
				require.NotErrorIs(t, err, context.DeadlineExceeded, what)
				require.LessOrEqual(t, time.Since(start), max(c.wait, floor), what)
			})
		}
	}
}

// The group was refused. In the next round, the member that had refused grants a moment before the end of the wait, which
// cuts off the question to another member.
func TestAMemberThatIsTriedAtTheEndOfTheWaitIsNoOutage(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		wait, deadline, cancel time.Duration
		silence                error
		want                   error
	}{
		"a wait":                {wait: floor / 2, want: fault.ErrNotAcquired},
		"a wait, no connection": {wait: floor / 2, silence: fault.ErrNoConnection, want: fault.ErrNotAcquired},
		"a wait, not sent": {
			wait: floor / 2, want: fault.ErrNotAcquired,
			silence: &fault.Error{Fate: fault.NotSent, Transient: true, Err: fmt.Errorf("%w: %w", fault.ErrNotSent, fault.ErrNoConnection)},
		},
		"a network error": {
			wait: floor / 2, want: fault.ErrUnavailable, silence: &fault.Error{Fate: fault.InDoubt, Transient: true, Err: errBroken},
		},
		"a deadline":      {deadline: floor / 2, want: fault.ErrNotAcquired},
		"a cancellation":  {cancel: floor / 2, want: fault.ErrNotAcquired},
		"silent for long": {wait: 4 * floor, want: fault.ErrUnavailable},
	} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			fakes, members, _ := newMembers(t, 2)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			fakes[1].silence = c.silence
			fakes[0].set(fault.ErrRefused)
			fakes[0].delay = time.Microsecond // the other one has been asked by then
			fakes[0].reached = func() {
				fakes[0].set(nil)
				fakes[0].mu.Lock()
				fakes[0].delay = floor/2 - time.Millisecond
				fakes[0].mu.Unlock()
				fakes[1].stall()
			}
			result := take(ctx, NewMulti(members), client.Terms{Op: "acquire", Limited: c.wait > 0, Wait: c.wait})
			if c.cancel > 0 {
				<-time.After(c.cancel)
				cancel()
			}
			checkClass(t, <-result, c.want, what)
		})
	}
}

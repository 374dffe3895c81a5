package group

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
)

var (
	refusal = &fault.OpError{Op: "acquire", Name: "m", Err: fault.ErrRefused}
	outage  = fault.Unavailable(errors.New("silent"))
	denied  = &fault.Error{Code: "NOPERM", Err: errors.New("denied")}
)

// errorClasses lists what no error may match two of.
var errorClasses = []error{fault.ErrNotAcquired, fault.ErrUnavailable, fault.ErrLost}

// groupThatNeeds returns a group of three members that needs so many of them: a red lock, unless it needs all.
func groupThatNeeds(t *testing.T, need int) *Group {
	t.Helper()
	_, members, _ := newMembers(t, 3)
	g := NewMulti(members)
	g.need, g.red = need, need < 3
	return g
}

// TestEveryVerdictIsOfOneClass tries all errors that three members can have, for each number of members that is needed.
func TestEveryVerdictIsOfOneClass(t *testing.T) {
	t.Parallel()
	outcomes := []error{nil, refusal, outage, denied, fault.ErrLost}
	for need := 1; need <= 3; need++ {
		g := groupThatNeeds(t, need)
		for n := 1; n < 5*5*5; n++ {
			errs := []error{outcomes[n%5], outcomes[n/5%5], outcomes[n/25]}
			err := g.failure(errs, false)
			var of []error
			for _, class := range errorClasses {
				if errors.Is(err, class) {
					of = append(of, class)
				}
			}
			require.LessOrEqual(t, len(of), 1, "need %d of %v: %v", need, errs, err)
			for i, member := range errs {
				if member != nil && need < 3 {
					require.ErrorContains(t, err, "member "+string(rune('1'+i)))
				}
			}
			require.Equal(t, errors.Is(err, fault.ErrRefused), errors.Is(err, fault.ErrNotAcquired))
		}
	}
}

func TestTheClassIsThatOfTheMembersThatDecide(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		need int
		errs []error
		want error
	}{
		"multi, refused":             {3, []error{refusal, nil, nil}, fault.ErrNotAcquired},
		"multi, silent":              {3, []error{nil, outage, nil}, fault.ErrUnavailable},
		"multi, lost and silent":     {3, []error{nil, outage, fault.ErrLost}, fault.ErrLost},
		"multi, denied and silent":   {3, []error{denied, outage, nil}, denied},
		"red, refused":               {2, []error{refusal, outage, refusal}, fault.ErrNotAcquired},
		"red, silent":                {2, []error{outage, nil, outage}, fault.ErrUnavailable},
		"red, one of each":           {2, []error{refusal, outage, denied}, fault.ErrUnavailable},
		"red, refused and denied":    {2, []error{refusal, nil, denied}, fault.ErrUnavailable},
		"red, denied":                {2, []error{denied, outage, denied}, denied},
		"red, lost":                  {2, []error{fault.ErrLost, outage, fault.ErrLost}, fault.ErrLost},
		"red, a minority lost":       {2, []error{fault.ErrLost, outage, outage}, fault.ErrUnavailable},
		"red, a minority was denied": {2, []error{outage, outage, denied}, fault.ErrUnavailable},
	} {
		err := groupThatNeeds(t, c.need).failure(c.errs, false)
		require.ErrorIs(t, err, c.want, what)
		for _, class := range errorClasses {
			require.Equal(t, errors.Is(c.want, class), errors.Is(err, class), "%s: %v", what, err)
		}
	}
}

package group

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/outcome"
)

const (
	begun  = clock.Instant(time.Minute)
	silent = time.Second // what counts as an outage
)

// TestTheOrderOfRepliesDoesNotMatter has three members of five refuse, and two fail, in every order.
func TestTheOrderOfRepliesDoesNotMatter(t *testing.T) {
	t.Parallel()
	failed := fault.Unavailable(io.EOF)
	for first := range 5 {
		for second := range 5 {
			if first == second {
				continue
			}
			c := newAccount(&rule{names: []string{"a", "b", "c", "d", "e"}, need: 3}, silent)
			asked := make([]*outcome.Progress, 5)
			for i := range asked {
				asked[i] = new(outcome.Progress)
				c.asked(i, asked[i], begun)
			}
			refusals := 0
			for i, p := range asked {
				if i == first || i == second {
					c.took(i, p, false, failed)
				} else {
					c.took(i, p, false, refusal)
					refusals++
				}
				certain, err := c.at(begun)
				require.Equal(t, refusals == 3, certain, "%v after %d replies", err, i+1)
				require.Equal(t, certain, errors.Is(err, fault.ErrNotAcquired), "%v", err)
			}
		}
	}
}

// TestAQuestionThatIsCutOffIsNoAnswer has the short time of a later question end, before and after its caller has noticed.
func TestAQuestionThatIsCutOffIsNoAnswer(t *testing.T) {
	t.Parallel()
	cut := &fault.Error{Fate: fault.Left, Transient: true, Err: fault.ErrNoAnswer}
	for _, noticed := range []bool{false, true} {
		c := newAccount(&rule{names: []string{"a"}, need: 1}, silent)
		before, under := new(outcome.Progress), new(outcome.Progress)
		c.asked(0, before, begun)
		c.took(0, before, false, refusal)
		c.asked(0, under, begun.Add(time.Second))
		under.Follow(func(clock.Instant) outcome.Result { return outcome.Result{Err: cut} })
		if noticed {
			c.took(0, under, false, cut)
		}
		certain, err := c.at(begun.Add(time.Second + silent/2))
		require.True(t, certain)
		require.ErrorIs(t, err, fault.ErrNotAcquired)
		certain, err = c.at(begun.Add(time.Second + silent))
		require.True(t, certain)
		require.ErrorIs(t, err, fault.ErrUnavailable)
	}
}

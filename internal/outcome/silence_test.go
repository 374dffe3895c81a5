package outcome

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASilenceIsNoticedAtFirstAndThenEachMinute(t *testing.T) {
	t.Parallel()
	var s Silence
	for _, step := range []struct {
		sent, now int // seconds
		answered  bool
		want      int
	}{
		{sent: 0, now: 2},
		{sent: 1, now: 1, answered: true},
		{sent: 2, now: 2},
		{sent: 3, now: 4},
		{sent: 4, now: 5, want: 1}, // three seconds after the first question that had no answer
		{sent: 5, now: 64},
		{sent: 64, now: 65, want: 2},
		{sent: 65, now: 124},
		{sent: 124, now: 130, want: 3},
		{sent: 130, now: 189},
		{sent: 189, now: 190, answered: true},
		{sent: 190, now: 193, want: 1}, // one question that took as long
	} {
		at := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
		got := s.Noticed(start.Add(at(step.sent)), start.Add(at(step.now)), floor, step.answered)
		require.Equal(t, step.want, got, "%+v", step)
	}
}

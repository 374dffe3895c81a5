package outcome

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASilenceIsNoticedOnce(t *testing.T) {
	t.Parallel()
	var s Silence
	for _, step := range []struct {
		sent, now int // seconds
		answered  bool
		want      bool
	}{
		{sent: 0, now: 2},
		{sent: 1, now: 1, answered: true},
		{sent: 2, now: 2},
		{sent: 3, now: 4},
		{sent: 4, now: 5, want: true}, // three seconds after the first question that had no answer
		{sent: 5, now: 60},
		{sent: 60, now: 61, answered: true},
		{sent: 61, now: 64, want: true}, // one question that took as long
	} {
		at := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
		got := s.Noticed(start.Add(at(step.sent)), start.Add(at(step.now)), floor, step.answered)
		require.Equal(t, step.want, got, "%+v", step)
	}
}

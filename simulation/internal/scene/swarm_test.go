package scene

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheDeadDoNotSeemToListen draws scenes. Without the right to ask who listens, rlock counts the receivers of a message. If somebody
// receives what is published on all channels, each killed waiter is given the lock, as docs/line.md says. So many are no promise that is broken.
func TestTheDeadDoNotSeemToListen(t *testing.T) {
	t.Parallel()
	denied, watched := 0, 0
	for seed := range uint64(20000) {
		s := Swarm(seed)
		if !slices.Contains(s.Denied, "-pubsub") {
			continue
		}
		denied++
		if s.Monitor {
			watched++
			require.NotContains(t, s.Nemeses, nemesisKill, "seed %d", seed)
			require.NotContains(t, s.Nemeses, nemesisWaiter, "seed %d", seed)
		}
	}
	require.Positive(t, watched, "of %d scenes without the right", denied)
}

package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAProcessThatIsKilledAfterAnAdoptionMayHaveUnlocked checks that of a hold that was exported and adopted, nothing is taken for kept that the
// first hold had promised: the process may have been killed before it reported an unlock.
func TestAProcessThatIsKilledAfterAnAdoptionMayHaveUnlocked(t *testing.T) {
	turn := use(1, kindLock, "a", 1, 2, 0).with(func(t *Turn) { t.Unlock, t.Unlocking, t.Deadline = "", ms(3), ms(3000) })
	turn.adopts(ms(10))
	turn.Last = ms(11)
	c := checker{History: &History{Events: []Event{{From: ms(20), To: ms(21), Site: turn.Site, Killed: true}}}}
	require.Equal(t, ms(11), c.kept(turn))
}

// TestATicketIsGoodFromTheCallOn checks that a ticket is not taken for good for longer because the reply to the export came late.
func TestATicketIsGoodFromTheCallOn(t *testing.T) {
	turn := use(1, kindLock, "a", 1, 2, 500).with(func(t *Turn) { t.Export = ms(10) })
	require.Equal(t, ms(280), turn.good(300*time.Millisecond))
}

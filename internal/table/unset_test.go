package table

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// The head of a local queue does not set the semaphore up, and those behind it do. It tells them that nobody has. One of them may run
// only when somebody has.
func TestAWaiterIsToldThatASemaphoreIsNotSetUp(t *testing.T) {
	t.Parallel()
	unset := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 8, 0}}
	refused := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 0, 0}}
	for what, c := range map[string]struct {
		later *wire.Reply // what the head is told before the other one runs
		head  Do          // what the head does then
		want  Do
	}{
		"at once":                 {want: Done},
		"it is set up":            {later: &refused, head: Sleep, want: Sleep},
		"it is set up, with more": {later: &wire.Reply{}, head: Done, want: Ask},
		"it is still unset":       {later: &unset, head: Sleep, want: Done},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			table, h, _ := newTable()
			h.Kind, h.Key.Family = wire.Permit, wire.SemaphoreFamily
			var n notice.List
			head, behind := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}, &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true, SetsUp: true}
			require.Equal(t, Ask, table.Admit(head, start, &n).Do)
			require.Equal(t, Sleep, table.Admit(behind, start, &n).Do)
			require.Equal(t, Sleep, table.Settle(head, unset, start, &n).Do)
			if c.later != nil {
				require.Equal(t, Ask, table.Wake(head, ByMessage, start, &n).Do)
				require.Equal(t, c.head, table.Settle(head, *c.later, start, &n).Do)
			}
			require.Equal(t, c.want, table.Wake(behind, ByNews, start, &n).Do)
		})
	}
}

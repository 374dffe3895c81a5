package table

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// errInScript is the error of a script that Redis ended because the user lacks a right.
var errInScript = &fault.Error{Fate: fault.Partial, Code: "NOPERM", Err: errors.New("ACL failure in script")}

// lineTable returns a table whose waiters stand in the line.
func lineTable() (*Table, *lineClient) {
	c := &lineClient{epoch: 1}
	return New(config.Config{CommandTimeout: modelCommand, PollInterval: modelPoll}, task.New(), c, c), c
}

// asks returns such a table, and an attempt that asks in the line.
func asks(tb testing.TB) (*Table, *lineClient, *Attempt) {
	tb.Helper()
	table, c := lineTable()
	a := &Attempt{Handle: &Handle{Key: table.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}, Lease: 3 * time.Second}
	var n notice.List
	require.Equal(tb, wire.Plain.Line.Acquire, table.Admit(a, start, &n).Call.Script)
	return table, c, a
}

// TestAMissingRightEndsAnAttempt has Redis refuse a question, before or within its script, or the channel of a waiter. The call
// returns that, and what the script may have done is undone.
func TestAMissingRightEndsAnAttempt(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		err    *fault.Error
		listen bool
		owes   bool
	}{
		"the script":           {errRights, false, false},
		"within the script":    {errInScript, false, true},
		"the channel it hears": {errRights, true, true},
	} {
		table, c, a := asks(t)
		var n notice.List
		var s Step
		if test.listen {
			s = table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, 0, 0}}, start, &n)
			require.Equal(t, a.Handle.Names().Own(), s.Listen, what)
			c.refusal = test.err
			s = table.Wake(a, ByMessage, start, &n)
		} else {
			s = table.Settle(a, wire.Reply{N: -1, Err: test.err}, start, &n)
		}
		require.Equal(t, Done, s.Do, what)
		require.Equal(t, test.err, s.Err, what)
		_, releases := table.Due(start.Add(time.Second), false, &n)
		require.Equal(t, test.owes, len(releases) > 0, what)
	}
}

// TestAMissingRightEndsAnUnlock does so while the lock is freed: the lock may be free by then, so the hold is over.
func TestAMissingRightEndsAnUnlock(t *testing.T) {
	t.Parallel()
	table, _, a := asks(t)
	var n notice.List
	held := table.Settle(a, wire.Reply{}, start, &n).Got
	require.NotNil(t, held)
	var x Exit
	require.Equal(t, Ask, table.Release(&x, held, start, &n).Do)
	s := table.SettleRelease(&x, wire.Reply{N: -1, Err: errInScript}, start, &n)
	require.Equal(t, Done, s.Do)
	require.Equal(t, errInScript, s.Err)
	require.Error(t, held.Err(start))
}

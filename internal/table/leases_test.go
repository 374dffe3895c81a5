package table

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// acquireFor takes a free lock with a lease.
func acquireFor(tb testing.TB, h *Handle, lease time.Duration, renewed bool) *Acquisition {
	tb.Helper()
	var n notice.List
	a := &Attempt{Handle: h, Lease: lease, Renewed: renewed}
	require.Equal(tb, Ask, h.Key.Table.Admit(a, start, &n).Do)
	s := h.Key.Table.Settle(a, wire.Reply{}, start, &n)
	require.NotNil(tb, s.Got)
	n.Deliver(h.Key.Table.receiver)
	return s.Got
}

func TestALocalRefusalGetsAsOldAsAThirdOfTheLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lease, age time.Duration }{
		{900 * time.Millisecond, 300 * time.Millisecond},
		{time.Hour, modelWatchdog / 3}, // or an unlock by force elsewhere would stay unknown for long
	} {
		table, h, _ := newTable()
		acquireFor(t, h, c.lease, false)
		var n notice.List
		try := &Attempt{Handle: h, Lease: time.Second, Single: true}
		require.Equal(t, Done, table.Admit(try, start.Add(c.age), &n).Do, "%v", c.lease)
		require.True(t, try.Last.Refused)
		try = &Attempt{Handle: h, Lease: time.Second, Single: true}
		require.Equal(t, Ask, table.Admit(try, start.Add(c.age+1), &n).Do, "%v", c.lease)
	}
}

func TestARenewalThatFailsIsRepeatedByItsLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease    time.Duration
		failures int
		pause    time.Duration // after so many failures
	}{{100 * time.Millisecond, 3, 20 * time.Millisecond}, {time.Hour, 9, time.Second}} {
		table, h, _ := newTable()
		table.cfg.Random = func(time.Duration) time.Duration { return 0 }
		a := acquireFor(t, h, c.lease, true)
		require.Equal(t, start.Add(c.lease/3), a.grant.DueAt())
		var n notice.List
		now := a.grant.DueAt()
		for range c.failures {
			now = a.grant.DueAt()
			batches, _ := table.Due(now, false, &n)
			require.Len(t, batches, 1)
			call := table.Wanted(&batches[0], now, &n)
			require.Equal(t, wire.Millis(c.lease), call.Argv[0])
			failed := wire.Reply{Err: &fault.Error{Transient: true, Err: errors.New("LOADING")}}
			table.Renewed(&batches[0], now, failed, now, &n)
		}
		require.Equal(t, now.Add(c.pause), a.grant.DueAt())
	}
}

func TestOnlyRenewalsThatAreDueSoonAreGathered(t *testing.T) {
	t.Parallel()
	table, _, _ := newTable()
	held := make(map[string]*Acquisition)
	for name, lease := range map[string]time.Duration{"short": 900 * time.Millisecond, "long": 30 * time.Second, "longer": 36 * time.Second} {
		h := &Handle{Key: table.Key(name, wire.PlainFamily), Kind: wire.Plain, Name: name}
		held[name] = acquireFor(t, h, lease, true)
	}
	var n notice.List
	batches, _ := table.Due(start.Add(300*time.Millisecond), false, &n)
	require.Len(t, batches, 1, "a short lease brings no long one forward")
	require.Equal(t, "short", batches[0].Name())
	require.Equal(t, 900*time.Millisecond, batches[0].Shortest())

	now := held["long"].grant.DueAt()
	held["short"].grant.term.Deadline = now.Add(time.Hour) // it goes on
	batches, _ = table.Due(now, false, &n)
	require.Len(t, batches, 2, "one for each lease")
	require.ElementsMatch(t, []string{"long", "longer"}, []string{batches[0].Name(), batches[1].Name()})
}

func (v *verb) String() string {
	return fmt.Sprintf("%s of c%d", v.label(), v.proc.index)
}

func (v *verb) label() string {
	number := int64(0)
	if v.a.grant != nil {
		number = v.a.grant.holder.Number
	}
	kind := ""
	for name, k := range wire.Kinds {
		if k == v.a.Handle.Kind {
			kind = name
		}
	}
	return fmt.Sprintf("%s %s #%d (owner %v)", kind, v.name.text, number, v.a.owner != nil)
}

func (e *exit) String() string {
	return fmt.Sprintf("exit of c%d %s #%d (background %v)", e.proc.index, e.name.text, e.x.grant.holder.Number, e.x.background)
}

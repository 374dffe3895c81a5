package table

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// extend lengthens the lease of an acquisition, which may be over.
func (w *world) extend() bool {
	r, ok := pick(w, w.records, func(r *record) bool { return !r.proc.stopped })
	if !ok {
		return false
	}
	d := oneOf(w, time.Millisecond, time.Second, modelWatchdog, 9*time.Second)
	over := r.acq.Err(w.now) != nil
	c, err := r.acq.Extend(d, w.now)
	switch {
	case (err != nil) != over:
		w.failf("Extend: an acquisition that is over, %v, gets %v", over, err)
	case err != nil:
		return true
	}
	w.noteLease(c.Argv[1], wire.Millis(d))
	x := &extension{rec: r, d: d, sent: w.now}
	w.bag = append(w.bag, &flight{call: c, proc: r.proc, name: r.name, extend: x, until: w.now.Add(modelCommand)})
	w.logf("c%d extends %v by %v", r.proc.index, c.Argv[1], d)
	return true
}

// leaveExtension has the caller of an Extend leave. The reply may still come.
func (w *world) leaveExtension() bool {
	f, ok := pick(w, w.bag, func(f *flight) bool { return f.extend != nil && !f.left && !f.dead && !f.proc.stopped })
	if ok {
		w.extended(f, wire.Reply{N: -1, Err: errLeft})
		f.left = true
	}
	return ok
}

// extended gives a reply to an extension, and checks what follows.
func (w *world) extended(f *flight, r wire.Reply) {
	x, p := f.extend, f.proc
	g := x.rec.acq.grant
	usable, deadline := g.usable(w.now), g.term.Deadline
	err := x.rec.acq.Extended(x.d, x.sent, r, w.now, &p.notices)
	p.deliver()
	confirmed := r.Err == nil && r.List[0] == 1
	switch {
	case err == nil && x.rec.acq.Err(w.now) != nil:
		w.failf("Extend: no error for a hold that is over")
	case err == nil && r.Err == nil && !confirmed:
		w.failf("Extend: no error for a holder that is gone")
	case usable && confirmed && g.usable(w.now) && g.term.Deadline < x.sent.Add(x.d-lease.Margin(x.d)):
		w.failf("Extend: the lease of #%d ends too early", g.holder.Number)
	case !confirmed && g.term.Deadline != deadline:
		w.failf("Extend: the deadline of #%d moved without a confirmation", g.holder.Number)
	}
}

func TestAnExtensionCountsFromItsCommand(t *testing.T) {
	t.Parallel()
	table, h, l := newTable()
	a := acquire(t, h)
	sent := start.Add(time.Second)
	c, err := a.Extend(time.Hour, sent)
	require.NoError(t, err)
	require.Equal(t, h.Kind.Renew, c.Script)
	require.Equal(t, []any{wire.Millis(time.Hour), a.grant.inRedis().Field}, c.Argv)
	latest := sent.Add(time.Hour + modelCommand)
	require.Equal(t, latest, a.grant.term.LatestExpiry, "even if no reply comes")
	before := a.Deadline()
	var n notice.List
	silence := wire.Reply{N: -1, Err: &fault.Error{Fate: fault.Left, Transient: true, Err: errors.New("silence")}}
	require.NoError(t, a.Extended(time.Hour, sent, silence, sent.Add(time.Second), &n))
	require.Equal(t, before, a.Deadline())

	confirmed := wire.Reply{List: []int64{1}}
	require.NoError(t, a.Extended(time.Hour, sent, confirmed, sent.Add(time.Second), &n), "a late reply counts")
	require.Equal(t, sent.Add(time.Hour), a.grant.term.Ends())
	require.Equal(t, sent.Add(modelWatchdog/3), a.grant.DueAt(), "renewals go on")
	require.NoError(t, a.Extended(time.Second, sent.Add(time.Second), confirmed, sent.Add(time.Second), &n))
	require.Equal(t, sent.Add(time.Hour), a.grant.term.Ends(), "never shortened")

	var x Exit
	require.Equal(t, Ask, table.Release(&x, a, sent.Add(time.Second), &n).Do)
	require.ErrorIs(t, a.Extended(2*time.Hour, sent, confirmed, sent.Add(time.Second), &n), fault.ErrNotHeld)
	require.Equal(t, sent.Add(time.Hour), a.grant.term.Ends(), "a reply counts only while the grant is held")
	_, err = a.Extend(time.Second, sent.Add(time.Second))
	require.ErrorIs(t, err, fault.ErrNotHeld)
	n.Deliver(l)
}

func TestAnExtensionThatFindsNoHolderLosesTheHold(t *testing.T) {
	t.Parallel()
	_, h, l := newTable()
	a := acquire(t, h)
	_, err := a.Extend(time.Second, start)
	require.NoError(t, err)
	var n notice.List
	require.ErrorIs(t, a.Extended(time.Second, start, wire.Reply{List: []int64{0}}, start, &n), fault.ErrLost)
	n.Deliver(l)
	require.ErrorIs(t, a.Err(start), fault.ErrLost)
	_, err = a.Extend(time.Second, start)
	require.ErrorIs(t, err, fault.ErrLost)
}

func TestAnExtensionPastTheDeadlineIsRefused(t *testing.T) {
	t.Parallel()
	_, h, _ := newTable()
	a := acquire(t, h)
	_, err := a.Extend(time.Hour, a.Deadline()-1)
	require.NoError(t, err)
	var n notice.List
	over := a.Deadline()
	require.ErrorIs(t, a.Extended(time.Hour, over-1, wire.Reply{List: []int64{1}}, over, &n), fault.ErrLost)
	require.Equal(t, over, a.Deadline())
	_, err = a.Extend(time.Hour, over)
	require.ErrorIs(t, err, fault.ErrLost)
}

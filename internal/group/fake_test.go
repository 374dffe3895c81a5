package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

const (
	leaseTime      = 30 * time.Second
	commandTimeout = 5 * time.Second
	floor          = commandTimeout / 5 // the least time that a call with a wait has
)

// noDriver is the driver of a client that sends nothing but a first query, so that it need not connect later.
type noDriver struct{ driver.Driver }

func (noDriver) Run(context.Context, driver.Node, wire.Call) wire.Reply {
	return wire.Reply{List: make([]int64, 3)}
}

func (noDriver) Info() driver.Info { return driver.Info{} }

func (noDriver) Close(context.Context) {}

// bubble runs a test in virtual time. It lets a century pass first: a bubble begins in the year 2000, long before the
// process did, and an instant must not be negative.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(100 * 365 * 24 * time.Hour)
		defer func() { <-time.After(24 * time.Hour) }() // what goes on in the background ends
		test(t)
	})
}

// newClient returns a client without Redis.
func newClient(t *testing.T) *client.Client {
	t.Helper()
	c := client.New(client.Config{
		Table:  config.Config{WatchdogTimeout: leaseTime, CommandTimeout: commandTimeout},
		Logger: func() *slog.Logger { return slog.New(slog.DiscardHandler) },
	}, noDriver{})
	t.Cleanup(c.Close)
	if _, err := newLock(c, "any").IsLocked(t.Context()); err != nil {
		t.Error(err)
	}
	return c
}

// newLock returns a lock whose waiters do not queue in Redis.
func newLock(c *client.Client, name string) *client.Lock {
	l := new(client.Lock)
	l.Init(c, wire.Spin, name, name)
	return l
}

// journal records in which order things happen.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := slices.Clone(j.lines)
	j.lines = nil
	return lines
}

// member is a fake member. It grants unless it has an error.
type member struct {
	lock *client.Lock
	log  *journal

	mu     sync.Mutex
	err    error         // of Take
	delay  time.Duration // before Take replies
	unlock error         // of the unlock of what it grants
	hangs  time.Duration // before that unlock, or an Extend, returns
	extend error         // of an Extend
	held   *held         // the latest grant
	terms  client.Terms  // of the latest Take

	reached func() // called after each reply
	silence error  // of a question without a reply; nil means ErrNoAnswer
}

func (m *member) Locks() []*client.Lock { return []*client.Lock{m.lock} }

func (m *member) Take(ctx context.Context, t client.Terms) (client.Held, error) {
	how := "wait for"
	if t.Limited && t.Wait == 0 {
		how = "try"
	}
	m.log.add("%s %s", how, m.lock.Name())
	m.mu.Lock()
	err, delay := m.err, m.delay
	m.terms = t
	m.mu.Unlock()
	if ctx.Err() != nil {
		return nil, client.EndOf(ctx)
	}
	if err := m.reply(ctx, t, delay); err != nil {
		return nil, err
	}
	if m.reached != nil {
		defer m.reached()
	}
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = &held{member: m, owner: client.OwnerOf(ctx), deadline: time.Now().Add(cmp.Or(t.Lease, leaseTime))}
	return m.held, nil
}

// asked returns the terms of the latest Take.
func (m *member) asked() client.Terms {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.terms
}

// reply waits for the delay of the reply, and keeps to the bounds of a member: the error has the class that the end of
// the wait has.
func (m *member) reply(ctx context.Context, t client.Terms, delay time.Duration) error {
	if delay == 0 {
		return nil
	}
	most := commandTimeout
	switch {
	case !t.By.IsZero():
		most = time.Until(t.By)
	case t.Limited:
		most = max(t.Wait, floor)
	}
	asked := time.Now()
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case <-time.After(delay):
		return nil
	case <-over.C:
		return fault.Unavailable(cmp.Or(m.silence, fault.ErrNoAnswer))
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) && time.Since(asked) < floor {
		return client.EndOf(ctx)
	}
	return fault.Unavailable(client.EndOf(ctx))
}

func (m *member) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// stall makes the member silent.
func (m *member) stall() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delay = 24 * time.Hour
}

func (m *member) grant() *held {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// held is a fake acquisition of a member.
type held struct {
	member *member
	owner  *owner.Owner
	closed atomic.Bool

	mu        sync.Mutex
	deadline  time.Time
	err       error
	reentered bool
	calls     int  // of Err until it is lost; zero means that calls of Err do not end it
	stopping  bool // its client shuts down
	loss      lease.Loss
	tell      context.CancelCauseFunc
}

var _ client.Held = (*held)(nil)

func (h *held) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls--; h.calls == 0 {
		h.err = fault.ErrLost
	}
	if h.err == nil && !time.Now().Before(h.deadline) {
		return fault.ErrLost
	}
	return h.err
}

func (h *held) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

func (h *held) Loss() lease.Loss {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.loss
}

func (h *held) Notify(tell context.CancelCauseFunc) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell = tell
	if h.err == nil && h.stopping {
		return fault.ErrClosed
	}
	return h.err
}

func (h *held) Unlock(context.Context) error {
	h.member.log.add("unlock %s", h.member.lock.Name())
	if h.member.hangs > 0 {
		<-time.After(h.member.hangs)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.err
	h.err = fault.ErrNotHeld
	h.closed.Store(true)
	if was != nil {
		return was
	}
	return h.member.unlock
}

func (h *held) Extend(ctx context.Context, d time.Duration) error {
	h.member.log.add("extend %s", h.member.lock.Name())
	until := time.Now().Add(d)
	if h.member.hangs > 0 {
		select {
		case <-time.After(h.member.hangs):
		case <-ctx.Done():
			if err := client.EndOf(ctx); errors.Is(err, context.Canceled) {
				return err
			}
			return fault.Unavailable(client.EndOf(ctx))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil || h.member.extend != nil {
		return cmp.Or(h.err, h.member.extend)
	}
	if until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}

func (h *held) Done() <-chan struct{} { return nil }
func (h *held) Reentered() bool       { return h.reentered }

func (h *held) Token() uint64                  { return 0 }
func (h *held) Locks() []*client.Lock          { return []*client.Lock{h.member.lock} }
func (h *held) OwnerOf(table.Key) *owner.Owner { return h.owner }
func (h *held) Closed() *atomic.Bool           { return &h.closed }
func (h *held) confirmed(at time.Time) lease.Loss {
	return lease.Loss{Early: true, Since: clock.Of(at)}
}

func (h *held) Part(of client.Member) client.Held {
	if of != h.member {
		return nil
	}
	return h
}

// lose ends the hold of the member as lost.
func (h *held) lose(loss lease.Loss) {
	h.mu.Lock()
	h.err, h.loss = fault.ErrLost, loss
	tell := h.tell
	h.mu.Unlock()
	if tell != nil {
		tell(fault.ErrLost)
	}
}

// newMembers returns fake members of one client, with the names a, b, c and so on.
func newMembers(t *testing.T, n int) (fakes []*member, members []client.Member, log *journal) {
	t.Helper()
	return newMembersOf(newClient(t), n)
}

func newMembersOf(c *client.Client, n int) (fakes []*member, members []client.Member, log *journal) {
	log = new(journal)
	for i := range n {
		fakes = append(fakes, &member{lock: newLock(c, string(rune('a'+i))), log: log})
		members = append(members, fakes[i])
	}
	return fakes, members, log
}

var (
	single  = client.Terms{Op: "try acquire", Limited: true, ByHold: true}
	forever = client.Terms{Op: "acquire", ByHold: true}

	errBroken = fault.Unavailable(errors.New("broken"))                 // waiting may help
	errDenied = &fault.Error{Code: "NOPERM", Err: errors.New("denied")} // waiting cannot help
)

// variant is a sort of group, and whether the waiters of its members stand in a line.
type variant struct{ red, lined bool }

// variants yields all of them.
func variants(yield func(variant) bool) {
	for _, red := range []bool{false, true} {
		for _, lined := range []bool{false, true} {
			if !yield(variant{red, lined}) {
				return
			}
		}
	}
}

// group returns such a group of fake members.
func (v variant) group(fakes []*member, members []client.Member) *Group {
	for _, f := range fakes {
		if v.lined {
			f.lock = newLined(f.lock.Client(), f.lock.Name())
		}
	}
	if v.red {
		return NewRed(members)
	}
	return NewMulti(members)
}

func (v variant) String() string { return fmt.Sprintf("red %v, lined %v", v.red, v.lined) }

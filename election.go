package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
)

// Election makes one process out of several the leader. It is made by [Client.NewElection], and safe for concurrent use:
//
//	election := locks.NewElection("shop:scheduler", rlock.RenewedLease(5*time.Second))
//	err := election.Run(ctx, func(ctx context.Context, term rlock.Token) error {
//		return schedule(ctx, term) // until ctx ends
//	})
//
// Unlike a lock, keep it: [Election.IsLeader] knows of its own Run alone, and another Election of the name is another candidate.
//
// The leader holds the fenced lock of that name, so [Lock.Inspect] and the command rlock show it. Redisson has no such class; a Java
// process that locks getFencedLock of the name takes part.
type Election struct {
	lock *Lock
	opts []AcquireOption

	running atomic.Bool
	hold    atomic.Pointer[Hold] // of the leader; nil while another one leads
}

// NewElection returns an election. Its one option is [RenewedLease]: for how long nobody leads after a leader has died, and which outages
// of Redis a leader survives. The default is that of [WithWatchdogTimeout]; [Election.Run] refuses other options.
//
// A leader that resigns is replaced at once. One that dies is replaced when its lease is over, which takes between two thirds of it and
// all of it.
func (c *Client) NewElection(name string, opts ...AcquireOption) *Election {
	return &Election{lock: c.NewLock(name, Fenced()), opts: slices.Clone(opts)}
}

// Run campaigns until this process leads, and then calls lead with its term, a token greater than those of all earlier leaders (see
// [Hold.Token]), and with a context that ends when the process leads no longer.
//
// When lead returns, the process resigns, and Run returns lead's error; to campaign again, call Run again. On SIGTERM, end ctx, wait for
// Run, and then call [Client.Shutdown].
//
// If the leadership is lost, lead's context ends with the cause [ErrLost]; Run waits until lead has returned, whatever it returns, and
// campaigns again. Until then another process may lead already, so do all work under lead's context, and write with the term what must not
// be written twice. Run logs a lead that goes on for longer than a lease, and then each minute.
//
// While it campaigns, Run outlasts outages of Redis. It ends with any error but [ErrUnavailable], and when ctx ends with the error of
// [Lock.Lock] for that. A hold that ctx carries does not make it the leader. Only one Run of an Election may be under way; a second one,
// and a nil lead, are refused with [ErrInvalidOption].
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term Token) error) error {
	const op = "lead"
	switch {
	case e == nil || e.lock == nil:
		return &fault.OpError{Op: op, What: "of a nil or zero Election, or of a nil or zero Client", Err: ErrInvalidOption}
	case lead == nil:
		return &fault.OpError{Op: op, What: "with a nil function", Err: ErrInvalidOption}
	}
	t := terms(op, false, true, nil, e.opts)
	if t.Err == nil && (t.Limited || t.Permits != 0 || t.AtLeast != 0 || t.Lease != 0 && !t.Renewed) {
		t.Err = fmt.Errorf("%w: an election takes RenewedLease alone", ErrInvalidOption)
	}
	if !e.running.CompareAndSwap(false, true) {
		return &fault.OpError{Op: op, Name: e.lock.Name(), Err: errRunning}
	}
	defer e.running.Store(false)
	cfg := &e.lock.l.Client().Config().Table
	for failures := 1; ; failures++ {
		var own error
		led, lost := false, false
		err := doAs(WithOwner(ctx), ctx, e.lock.in(), func(held context.Context) error {
			led, failures = true, 1
			lost, own = e.lead(held, lead, cmp.Or(t.Lease, cfg.WatchdogTimeout))
			return nil
		}, t)
		switch {
		case led && (!lost || ctx.Err() != nil):
			return own
		case !led && (!errors.Is(err, ErrUnavailable) || ctx.Err() != nil):
			return err
		}
		pause := time.NewTimer(cfg.Retry(failures))
		select {
		case <-pause.C:
		case <-ctx.Done(): // the next campaign says so
		case <-e.lock.l.Client().Stopping(): // it does, too
		}
		pause.Stop()
	}
}

// lead calls the function of [Election.Run]. It reports whether the leadership was lost meanwhile, and returns the error of the function.
func (e *Election) lead(held context.Context, lead func(context.Context, Token) error, lease time.Duration) (lost bool, own error) {
	hold, _ := HoldFrom(held, e.lock)
	returned := make(chan struct{})
	defer context.AfterFunc(held, func() { e.urge(returned, lease) })()
	defer close(returned)
	e.hold.Store(hold)
	defer e.hold.Store(nil)
	own = lead(held, hold.Token())
	return errors.Is(hold.Err(), ErrLost), own
}

// urge logs that lead goes on although it should not.
func (e *Election) urge(returned <-chan struct{}, lease time.Duration) {
	after := time.NewTimer(lease)
	defer after.Stop()
	for {
		select {
		case <-returned:
			return
		case <-after.C:
			logTo(e.lock.in(), notice.LogLeadsOn, errLeadsOn)
			after.Reset(time.Minute)
		}
	}
}

var errRunning = fmt.Errorf("%w: another Run of this election is under way", ErrInvalidOption)

var errLeadsOn = errors.New("its context has ended, but it has not returned; until it does, this process neither resigns nor campaigns")

// IsLeader reports whether the Run of this Election leads now. It sends nothing, and judges by the clock: it is false as soon as the lease
// may be over. If the key is gone from Redis earlier, it stays true until the next renewal, for at most a third of the lease.
func (e *Election) IsLeader() bool {
	if e == nil {
		return false
	}
	hold := e.hold.Load()
	return hold != nil && hold.Err() == nil
}

// String implements [fmt.Stringer]: that it is an election, and its name.
func (e *Election) String() string {
	if e == nil {
		return (*Lock)(nil).in().Text("election")
	}
	return e.lock.in().Text("election")
}

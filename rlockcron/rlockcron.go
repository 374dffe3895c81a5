// Package rlockcron runs the jobs of gocron on one instance of a service, out of several that have the same jobs.
//
// A [Locker] chooses an instance anew for each run. An [Elector] lets one instance run all jobs until it ends.
//
//	locker, err := rlockcron.NewLocker(locks, "billing:cron:", time.Minute, 45*time.Second)
//	…
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
package rlockcron

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-rlock/rlock"
)

// Locker is a [gocron.Locker] by which each run of a job happens once, on the instance that comes first. It is safe for concurrent use.
type Locker struct {
	locks  *rlock.Client
	prefix string
	opts   []rlock.AcquireOption
}

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// NewLocker returns a locker. The lock of a job has its name, after the prefix; give jobs names (gocron.WithName), which must be the same on
// all instances. The prefix is that of the service, because other services may have jobs of the same name.
//
// interval is the time between two runs of the job that runs most often; give jobs with very different intervals lockers of their own
// (gocron.WithDistributedJobLocker). A job stays locked for atLeast from the start of its run, see [rlock.AtLeast], so that an instance
// whose clock is late does not run it again. So atLeast must be longer than the clocks may differ. It is at most nine tenths of the
// interval: otherwise every second run would be skipped.
//
// If an instance dies in a run, the job stays locked until the lease ends: that of [rlock.WithWatchdogTimeout], or the interval
// if that is below 30 s, but at least 1 s.
//
// The error is [rlock.ErrInvalidOption] for a nil client, an empty prefix, and times that cannot work.
func NewLocker(locks *rlock.Client, prefix string, interval, atLeast time.Duration) (*Locker, error) {
	switch {
	case locks == nil:
		return nil, fmt.Errorf("%w: a nil client", rlock.ErrInvalidOption)
	case prefix == "":
		return nil, fmt.Errorf("%w: the prefix is empty, so other services may have the same locks", rlock.ErrInvalidOption)
	case atLeast < time.Millisecond || atLeast > interval/10*9:
		return nil, fmt.Errorf("%w: jobs stay locked for %v, which is not from 1ms to nine tenths of the interval of %v",
			rlock.ErrInvalidOption, atLeast, interval)
	}
	opts := []rlock.AcquireOption{rlock.AtLeast(atLeast)}
	if interval < longLease {
		opts = append(opts, rlock.RenewedLease(max(interval, shortLease)))
	}
	return &Locker{locks, prefix, opts}, nil
}

// The limits of the leases that follow from the interval: with a long one, a death costs no run, and a short one would be lost in every
// moment in which Redis does not answer.
const (
	longLease  = 30 * time.Second
	shortLease = time.Second
)

// Lock implements [gocron.Locker]. The error is [rlock.ErrNotAcquired] if another instance runs the job, or has just run it, and
// [rlock.ErrUnavailable] if Redis does not answer. gocron skips the run then.
// A run is done once at most: after an outage, an instance may find the job locked by an attempt that failed, and that rlock is releasing.
//
// The lock is renewed while the job runs. gocron cannot end a job whose lock is lost: a job that must not go on then does its work in the
// Do of another lock.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	hold, err := l.locks.NewLock(l.prefix+key).TryAcquire(ctx, l.opts...)
	if err != nil {
		return nil, err // a nil hold must not become a Lock that is not nil
	}
	return hold, nil
}

// ErrNotLeader is the error of [Elector.IsLeader] if another instance leads.
var ErrNotLeader = errors.New("rlockcron: another instance leads")

// Elector is a [gocron.Elector]: only the leader of an election runs jobs. It is safe for concurrent use.
type Elector struct{ election *rlock.Election }

// NewElector returns an elector. The caller runs the election, see [rlock.Election.Run], with a function that waits for the end of its
// context:
//
//	go election.Run(ctx, func(ctx context.Context, _ rlock.Token) error { <-ctx.Done(); return context.Cause(ctx) })
//
// A job that runs when the leadership is lost goes on, while the next leader may begin another run.
func NewElector(election *rlock.Election) *Elector { return &Elector{election} }

// IsLeader implements [gocron.Elector]: it returns nil if this instance leads, and else ErrNotLeader. It sends nothing.
func (e *Elector) IsLeader(context.Context) error {
	if !e.election.IsLeader() {
		return ErrNotLeader
	}
	return nil
}

package rlock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	minLease = time.Millisecond

	// maxLease keeps every sum of a lease and a time far from overflow, here and in PEXPIRE.
	maxLease = 100 * 365 * 24 * time.Hour

	minWatchdogTimeout = 100 * time.Millisecond

	minFairWait = 10 * time.Second

	minBackoff = time.Millisecond
	maxBackoff = time.Hour
)

// Option sets something for all locks of a [Client].
type Option func(*settings) error

// settings are the options of a client, with their defaults in place.
type settings struct {
	watchdogTimeout time.Duration
	commandTimeout  time.Duration
	pollInterval    time.Duration
	maxHold         time.Duration
	fairWait        time.Duration
	batchSize       int
	handOvers       int
	handOverTime    time.Duration
	lazy            bool          // hand over without Redis
	standBack       time.Duration // for how long a lock that was offered to other processes is left to them
	acks            int           // 0: none
	ackTimeout      time.Duration
	shardedMode     ShardedPubSub
	autoPipeline    bool
	mapName         func(string) string
	ownLogger       *slog.Logger
}

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		watchdogTimeout: 30 * time.Second,
		commandTimeout:  5 * time.Second,
		pollInterval:    5 * time.Second,
		fairWait:        5 * time.Minute,
		batchSize:       100,
		handOvers:       32,
		handOverTime:    5 * time.Millisecond,
		standBack:       2 * time.Millisecond,
		mapName:         func(name string) string { return name },
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i+1)
		}
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	if s.ackTimeout > s.commandTimeout/2 {
		return nil, fmt.Errorf("%w: replicas get %v to acknowledge, which is more than half of the command timeout of %v",
			ErrInvalidOption, s.ackTimeout, s.commandTimeout)
	}
	return s, nil
}

// logger returns where warnings go. [slog.Default] is asked at every call, so that a default set later counts.
func (s *settings) logger() *slog.Logger {
	if s.ownLogger != nil {
		return s.ownLogger
	}
	return slog.Default()
}

// WithWatchdogTimeout sets the lease of locks that are taken without [Lease]: how long such a lock outlives the death
// of its process. It is renewed every third of that while the lock is held. The default is 30 s, Redisson's
// lockWatchdogTimeout; the least is 100 ms.
func WithWatchdogTimeout(d time.Duration) Option {
	return durationOption("watchdog timeout", d, minWatchdogTimeout, func(s *settings) { s.watchdogTimeout = d })
}

// WithCommandTimeout bounds how long one command that the library sends may go unanswered, and how long [Lock.Unlock]
// and [Client.Close] try before they give up. The default is 5 s, the default ReadTimeout of go-redis. The commands that
// the library sends through a redis.Client whose ReadTimeout is longer, or none, have this one instead, and do not pass the
// hooks that were added to it: go-redis has no other way.
func WithCommandTimeout(d time.Duration) Option {
	return durationOption("command timeout", d, time.Millisecond, func(s *settings) { s.commandTimeout = d })
}

// WithPollInterval bounds how long a waiter sleeps before it tries again although nobody woke it: the delay after a
// release that was not announced, say because the key was deleted by hand. The default is 5 s.
func WithPollInterval(d time.Duration) Option {
	return durationOption("poll interval", d, time.Millisecond, func(s *settings) { s.pollInterval = d })
}

// WithFairWait sets for how long a waiter for a fair lock that died may block the queue, once it is first. A living one
// keeps its place however long it waits. The default is 5 min, Redisson's fairLockWaitTimeout. The least is 10 s: Java
// processes judge the deadlines of all waiters by their own clocks, which must agree with Redis's to half of it.
func WithFairWait(d time.Duration) Option {
	return durationOption("fair wait", d, minFairWait, func(s *settings) { s.fairWait = d })
}

// WithMaxHold ends any hold as lost, and releases the lock, once it has been held for d. It is a safety net against
// code that forgets to unlock. The default is 0: no limit.
func WithMaxHold(d time.Duration) Option {
	if d == 0 {
		return func(s *settings) error { s.maxHold = 0; return nil }
	}
	return durationOption("max hold", d, minLease, func(s *settings) { s.maxHold = d })
}

// WithRenewalBatchSize sets how many locks one call of the renewing script renews, from 1 to 1,000. The default is
// 100, Redisson's lockWatchdogBatchSize.
func WithRenewalBatchSize(n int) Option {
	return func(s *settings) error {
		if n < 1 || n > 1000 {
			return fmt.Errorf("%w: a renewal batch size of %d is not from 1 to 1,000", ErrInvalidOption, n)
		}
		s.batchSize = n
		return nil
	}
}

// WithReplicaAcks has an acquisition wait, for timeout at most, until n replicas have acknowledged it; when fewer do it is
// released, and fails with [ErrNotReplicated]. So a failover to one of them does not lose the lock. It ports
// checkLockSyncedSlaves and slavesSyncTimeout, but counts. Re-entries and renewals do not wait: a replica that has the
// holder gets them later, and a failover may cost a part of the lease; all of it, if the replica had not heard of its master for
// that long, which min-replicas-to-write with min-replicas-max-lag prevents. The timeout is from 1 ms to half of the command
// timeout; an attempt that is refused may take as long, if a replica hangs. The default is 0 replicas: do not wait.
func WithReplicaAcks(n int, timeout time.Duration) Option {
	if n < 0 || n > 1000 {
		return func(*settings) error {
			return fmt.Errorf("%w: %d replicas cannot acknowledge", ErrInvalidOption, n)
		}
	}
	if n == 0 {
		return func(s *settings) error { s.acks, s.ackTimeout = 0, 0; return nil }
	}
	return durationOption("time for replicas to acknowledge", timeout, time.Millisecond, func(s *settings) {
		s.acks, s.ackTimeout = n, timeout
	})
}

// WithAutoPipeline gathers the scripts that goroutines send at the same time to acquire, re-enter and release, and sends
// them to each node in pipelines of go-redis. It pays where many goroutines of a process lock names of their own, and costs
// a lone one some 10 µs for each script. Renewals, and acquisitions that replicas acknowledge, keep connections of their
// own. A connection that falls silent holds up what other goroutines send to that node, until its ReadTimeout; no call
// takes longer than the command timeout by that. Hooks of the redis client see batches, without the contexts of those who
// wait for them, and on a cluster only the hooks of its nodes see them. It needs a [redis.Client] or a
// [redis.ClusterClient], whose pool has 3 connections at least: else [New] returns [ErrInvalidOption]. The default is to
// send each script by itself.
func WithAutoPipeline() Option {
	return func(s *settings) error {
		s.autoPipeline = true
		return nil
	}
}

// WithNameMapper sets the function that makes the name in Redis of a lock's name, as Redisson's nameMapper does. It is
// called once for each handle. The default leaves names as they are.
func WithNameMapper(mapName func(name string) string) Option {
	return func(s *settings) error {
		if mapName == nil {
			return fmt.Errorf("%w: the name mapper is nil", ErrInvalidOption)
		}
		s.mapName = mapName
		return nil
	}
}

// WithKeyPrefix puts a prefix before the name in Redis of every lock. It is a name mapper, and the later of the two
// options wins. Braces are refused: they would move all locks into one slot of a cluster.
func WithKeyPrefix(prefix string) Option {
	if strings.ContainsAny(prefix, "{}") {
		return func(*settings) error {
			return fmt.Errorf("%w: the key prefix %s contains a brace", ErrInvalidOption, quote(prefix))
		}
	}
	return WithNameMapper(func(name string) string {
		if name == "" {
			return "" // still refused
		}
		return prefix + name
	})
}

// WithLogger sets where warnings go: a lock that was lost while nobody watched it, a hold that was dropped without an
// unlock, a release that failed for good. The default is [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		if logger == nil {
			return fmt.Errorf("%w: the logger is nil", ErrInvalidOption)
		}
		s.ownLogger = logger
		return nil
	}
}

func durationOption(what string, d, least time.Duration, set func(*settings)) Option {
	return func(s *settings) error {
		if d < least || d > maxLease {
			return fmt.Errorf("%w: a %s of %v is not from %v to 100 years", ErrInvalidOption, what, d, least)
		}
		set(s)
		return nil
	}
}

// LockOption sets something for one handle. What cannot work is reported by the handle's first verb, with
// [ErrInvalidOption].
type LockOption func(*Lock) error

// NonReentrant makes an owner's second acquisition through this handle fail with [ErrReentered], at once and before
// anything is sent, while it holds the lock; without an owner it waits, as always. It ports getNonReentrantLock and
// getNonReentrantFairLock. On the wire nothing changes.
func NonReentrant() LockOption {
	return func(l *Lock) error {
		l.nonReentrant = true
		return nil
	}
}

// Backoff sets the pauses between the attempts of a spin lock: first, doubled up to max, each lengthened a little by
// chance. With first equal to max they are constant. The least is 1 ms, the most 1 hour. The default is 1 ms and 128 ms,
// that of Redisson's BackOff. Other kinds refuse it, for they are woken.
func Backoff(first, max time.Duration) LockOption { //nolint:revive,predeclared // max is what it is
	return func(l *Lock) error {
		switch {
		case l.kind.channel != "":
			return fmt.Errorf("%w: Backoff is for spin locks", ErrInvalidOption)
		case first < minBackoff || max < first || max > maxBackoff:
			return fmt.Errorf("%w: a backoff from %v to %v is not within 1 ms to 1 hour", ErrInvalidOption, first, max)
		}
		l.first, l.most = first, max
		return nil
	}
}

// AcquireOption sets something for one acquisition. The zero value is refused with [ErrInvalidOption].
type AcquireOption struct {
	what acquireOption
	d    time.Duration
}

type acquireOption uint8

const (
	leaseOption acquireOption = iota + 1
	waitOption
)

// Lease holds the lock for d and no longer: it is not renewed, and when d is over the hold is lost. The part of a
// millisecond is rounded up in Redis and not here. The least is 1 ms, the most 100 years. Without it the lock is held,
// and renewed, until it is unlocked. On a re-entry it lengthens the lease where that is shorter, and never shortens it.
func Lease(d time.Duration) AcquireOption { return AcquireOption{leaseOption, d} }

// Wait gives up after waiting for d: [ErrNotAcquired], or false and nil from TryLock. The first attempt is always made
// to its end, so 0 is a single attempt. Without it Lock, Acquire and Do wait until their context ends, and the Try
// verbs make a single attempt.
func Wait(d time.Duration) AcquireOption { return AcquireOption{waitOption, d} }

// terms are the acquire options of one call, with their defaults in place.
type terms struct {
	lease   time.Duration // 0: the watchdog keeps the lock
	wait    time.Duration
	limited bool // whether wait says anything
}

func (t *terms) apply(opts []AcquireOption) error {
	for _, opt := range opts {
		switch opt.what {
		case leaseOption:
			if opt.d < minLease || opt.d > maxLease {
				return fmt.Errorf("%w: a lease of %v is not from 1 ms to 100 years", ErrInvalidOption, opt.d)
			}
			t.lease = opt.d
		case waitOption:
			if opt.d < 0 {
				return fmt.Errorf("%w: a wait of %v is negative", ErrInvalidOption, opt.d)
			}
			t.wait, t.limited = opt.d, true
		default:
			return fmt.Errorf("%w: a zero AcquireOption", ErrInvalidOption)
		}
	}
	return nil
}

// millis is a duration on the wire, rounded up: Redis must not free a lock earlier than its holder believes.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

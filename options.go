package rlock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
)

const (
	minLease = time.Millisecond

	// maxLease keeps every sum of a lease and a time far from overflow, here and in PEXPIRE.
	maxLease = 100 * 365 * 24 * time.Hour

	minFairWait = 10 * time.Second

	maxHandOvers = 1_000_000
	maxReplicas  = 1000
)

// Option sets something for all locks of a [Client].
type Option func(*settings) error

// settings are the options of a client, with their defaults in place.
type settings struct {
	client.Config
	mapName func(string) string
}

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		Config: client.Config{
			Table: config.Config{
				WatchdogTimeout: 30 * time.Second,
				CommandTimeout:  5 * time.Second,
				PollInterval:    5 * time.Second,
				FairWait:        time.Minute,
				BatchSize:       100,
				HandOvers:       32,
				HandOverTime:    5 * time.Millisecond,
				StandBack:       2 * time.Millisecond,
			},
			Crowd:  6,
			Logger: slog.Default, // called for each warning, so that a later slog.SetDefault takes effect
		},
		mapName: func(name string) string { return name },
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i+1)
		}
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	if most := s.Table.CommandTimeout / 2; s.AckTimeout > most {
		return nil, fmt.Errorf("%w: replica ack timeout %v exceeds half of the command timeout, %v",
			ErrInvalidOption, s.AckTimeout, most)
	}
	return s, nil
}

// WithCommandTimeout bounds how long rlock waits for the reply to one command, and how long [Lock.Unlock] and [Client.Close]
// try before they give up. The wait for a shared pipeline counts, see [WithAutoPipeline]. A fifth of the timeout is how long a silent Redis
// counts as busy, and no longer: see [ErrUnavailable] and [Wait]. The default is 5 s, the default ReadTimeout of go-redis. The
// minimum is 1 ms. If a redis.Client has a longer ReadTimeout, or none, rlock's commands use the command timeout instead. Its hooks
// see them nevertheless. For that, [New] adds a hook of its own, and hooks that are added after it do not see rlock's commands. That
// hook also gives deadlines to connections that have none, as with a ReadTimeout of -2. Subscriptions have no hooks but those that dial.
func WithCommandTimeout(d time.Duration) Option {
	return durationOption("command timeout", d, time.Millisecond, func(s *settings) { s.Table.CommandTimeout = d })
}

// WithFairWait sets for how long a waiter of a fair lock that has fallen silent may stand in the way of Redisson's waiters.
// rlock's waiters do not wait for it: they pass over a waiter whose process died. A living waiter keeps its place for as long as
// it waits, and asks at least three times in this time, whatever [WithPollInterval] says.
//
// The default is 1 min. The minimum is 10 s: Java processes compare the deadlines of all waiters with their own clocks. Those may
// be ahead of Redis's clock by at most two thirds of this time. On a cluster without sharded pub/sub, Redis does not
// count the listeners. There, rlock's own waiters also wait this long for a silent one.
func WithFairWait(d time.Duration) Option {
	return durationOption("fair wait", d, minFairWait, func(s *settings) { s.Table.FairWait = d })
}

// WithHandOver bounds how often in a row, and for how long, a lock is handed over locally: from one owner of this process
// straight to the next one that waits here. After n hand-overs, or once d has passed since this process got the lock, other
// processes have their turn. The defaults are 32 and 5 ms; 0 for either means no hand-overs. The least d is 1 µs. If
// the lock came from another process, at most 3 hand-overs follow, unless they are lazy. Fair locks, read locks, and read-write locks whose writer also reads are
// never handed over. Neither are spin locks, whose waiters poll. Nor is a lock handed over to an owner whose lease would end
// earlier: other processes sleep for as long as the last lease.
//
// Permits of a semaphore are handed over to the next one that wants as many. Redis then says who else waits: while no other process
// does, there is no bound.
//
// Experimental: WithHandOver may change or go before v1.
func WithHandOver(n int, d time.Duration) Option {
	return func(s *settings) error {
		if n < 0 || n > maxHandOvers || d < 0 || d > maxLease || bare(d) != "" {
			return fmt.Errorf("%w: %d hand-overs within %v: the number must be in [0, %d], the time 0s or in [1µs, 100y]%s",
				ErrInvalidOption, n, d, maxHandOvers, bare(d))
		}
		s.Table.HandOvers, s.Table.HandOverTime = n, d
		return nil
	}
}

// WithLazyHandOver hands plain and write locks over without asking Redis, within the bounds of [WithHandOver]. It does so from
// one acquisition that is renewed to another with an equal lease. The next owner continues with the holder that Redis has, and
// with its lease. At least half of that lease must remain, and no re-entry or [Hold.Extend] may have asked for a longer one.
// This multiplies the hand-overs of a busy name.
//
// A critical section may therefore begin although a forced unlock or a failover has taken the lock since it was last free
// for all processes. A hand-over through Redis would notice that. Fenced locks, and clients with [WithReplicaAcks], are
// handed over through Redis nevertheless.
//
// Experimental: WithLazyHandOver may change or go before v1.
func WithLazyHandOver() Option {
	return func(s *settings) error {
		s.Table.Lazy = true
		return nil
	}
}

// AllReplicas is the number of [WithReplicaAcks] that means as many as there are.
const AllReplicas = -1

// WithReplicaAcks makes an acquisition wait, for at most timeout, until n replicas have acknowledged it. If fewer do, the
// lock is released and the acquisition fails with [ErrNotReplicated]. So a failover to one of those replicas does not lose
// the lock. It ports checkLockSyncedSlaves and slavesSyncTimeout.
//
// With [AllReplicas], an acquisition waits for those that are connected to its server, and for none if there are none. So one setting
// fits development, production and the time after a failover. If some hang, one acquisition waits for the timeout. That is logged, and the next
// ones wait for the others, until those that hang are back. If none acknowledges it, or if a replica has just left, which may be a failover, the
// acquisition fails. The user of Redis needs the right to INFO; without it, acquisitions fail. A master that has lost the connection to
// all of its replicas locks without them: if it must not, give their number.
//
// Re-entries and renewals do not wait: a replica that has the holder gets them later, and a failover may shorten the lease.
// The lease is over at once if the replica had not heard from its master for a whole lease, which min-replicas-to-write with
// min-replicas-max-lag prevents.
//
// The timeout is from 1 ms to half of the command timeout. An attempt that is refused may take as long, if a replica hangs.
// The default is 0 replicas: acquisitions do not wait.
func WithReplicaAcks(n int, timeout time.Duration) Option {
	if n < AllReplicas || n > maxReplicas {
		return func(*settings) error {
			return fmt.Errorf("%w: %d replicas: neither AllReplicas nor in [0, %d]", ErrInvalidOption, n, maxReplicas)
		}
	}
	if n == 0 {
		return func(s *settings) error { s.Acks, s.AckTimeout = 0, 0; return nil }
	}
	return durationOption("replica ack timeout", timeout, time.Millisecond, func(s *settings) {
		s.Acks, s.AckTimeout = n, timeout
	})
}

// WithAutoPipeline sets how many scripts may be under way to a node by themselves. It is about scripts that acquire, re-enter,
// release or hand over. Further ones are gathered into pipelines until none is left, and none waits until a pipeline is full. The
// default is 6, or fewer with a small pool of connections. With 0 every such script goes through a pipeline, and with a negative
// n none does.
//
// Renewals, and acquisitions that replicas acknowledge, are never gathered. Of the redis client's pool, one connection is left
// for renewals, and from 1 to 4 are for these pipelines; 1 with [WithReplicaAcks]. Nothing is gathered if the pool has fewer than
// 3 connections, if a pool of their own for pipelines (PipelinePoolSize with a buffer size) has fewer than 2, or if the client is
// neither a [redis.Client] nor a [redis.ClusterClient]. Hooks of the redis client see a pipeline without the contexts of the
// callers.
//
// Experimental: WithAutoPipeline may change or go before v1.
func WithAutoPipeline(n int) Option {
	return func(s *settings) error {
		s.Crowd = n
		return nil
	}
}

// WithNameMapper sets the function that maps the name of a lock to its name in Redis, as Redisson's nameMapper does. It is
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

// WithKeyPrefix puts a prefix before the name in Redis of every lock, semaphore and latch, such as "shop:", without a separator. It
// is a name mapper, and the later of the two options wins. Braces are refused: they would move all locks into one
// slot of a cluster. The keys beside that of a lock, such as that of its tokens, have the name after a prefix of Redisson's. SECURITY.md lists them for access rules.
func WithKeyPrefix(prefix string) Option {
	if strings.ContainsAny(prefix, "{}") {
		return func(*settings) error {
			return fmt.Errorf("%w: the key prefix %s contains a brace", ErrInvalidOption, fault.Quote(prefix))
		}
	}
	return WithNameMapper(func(name string) string {
		if name == "" {
			return "" // still refused
		}
		return prefix + name
	})
}

// WithLogger sets where log lines go. docs/guide/observing.md has each of them, with what it means and what to do. Most are warnings,
// such as that a lock was lost or that a renewal failed. A line about a lock has its name as the attribute "lock", cut at 64 characters.
//
// The same line about a lock comes at most once a second, and a message at most five times. The next line has the number of
// the dropped ones as the attribute "suppressed". The default is [slog.Default]. What go-redis logs about connections goes to its own
// logger, see redis.SetLogger.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		if logger == nil {
			return fmt.Errorf("%w: the logger is nil", ErrInvalidOption)
		}
		s.Logger = func() *slog.Logger { return logger }
		return nil
	}
}

// outOfRange is the error of a duration that is not from least to 100 years.
func outOfRange(what string, d, least time.Duration) error {
	return fmt.Errorf("%w: %s %v out of range [%v, 100y]%s", ErrInvalidOption, what, d, least, bare(d))
}

// bare returns the end of an error about a duration that is shorter than 1 µs, as Wait(3) means 3 ns. It is empty for others.
func bare(d time.Duration) string {
	if d <= 0 || d >= time.Microsecond {
		return ""
	}
	return fmt.Sprintf("; a number without a unit is in nanoseconds: write %d*time.Second, or another unit", d)
}

func durationOption(what string, d, least time.Duration, set func(*settings)) Option {
	return func(s *settings) error {
		if d < least || d > maxLease {
			return outOfRange(what, d, least)
		}
		set(s)
		return nil
	}
}

// LockOption sets something for one handle. The handle's first method reports an option that cannot work, with
// [ErrInvalidOption].
type LockOption func(*lockSettings) error

// lockSettings are what the options of a handle set.
type lockSettings = table.Handle

// NonReentrant makes an owner's second acquisition through this handle fail with [ErrReentered] while that owner holds the
// lock, at once and before anything is sent. Without an owner the second acquisition waits, as always. It ports
// getNonReentrantLock and getNonReentrantFairLock. On the wire nothing changes.
func NonReentrant() LockOption {
	return func(h *lockSettings) error {
		h.NonReentrant = true
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
	renewedLeaseOption
	waitOption
	permitsOption
	atLeastOption
)

// Lease holds the lock for d and no longer: it is not renewed, and when d is over the hold is lost. A fraction of a
// millisecond is rounded up in Redis, but not here. The minimum is 1 ms, the maximum 100 years. Without Lease the lock is
// held, and renewed, until it is unlocked. On a re-entry Lease lengthens a lease that is shorter, and never shortens one.
// [Hold.Extend] lengthens it later. Lease cannot be combined with [RenewedLease].
//
// A hold begins with at least a quarter of its lease. So d has to be longer than the round trip to Redis by more than a third: otherwise no
// call gets the lock, a single attempt returns [ErrUnavailable], and one that waits tries again until its wait is over.
func Lease(d time.Duration) AcquireOption { return AcquireOption{leaseOption, d} }

// RenewedLease holds the lock until it is unlocked, with a lease of d that is renewed every third of d. It takes the place of
// [WithWatchdogTimeout] for one acquisition: if the process dies, the lock is free after at most d. A short d also loses the
// lock in a shorter outage of Redis. A hold notices within d that its lock is gone from Redis. The minimum is 100 ms, the
// maximum 100 years. Redisson has one lockWatchdogTimeout for all locks of a client.
//
// If an owner holds the lock several times, the longest of its renewed leases applies. It is renewed every third of the
// shortest. RenewedLease and [Lease] together are refused with [ErrInvalidOption]. If either is given twice, the last one
// applies.
func RenewedLease(d time.Duration) AcquireOption { return AcquireOption{renewedLeaseOption, d} }

// Wait gives up after waiting for d. If another owner has the lock then, the error is [ErrNotAcquired], or TryLock returns false and nil. If Redis
// could not say so, it is [ErrUnavailable], which also comes when d is over: until then, Redis may be back. Only [ErrNotReplicated] comes at once.
//
// A short d does not cut the first attempt off. The call ends after the longer of d and a fifth of the command timeout, plus
// the time for replica acks. That covers the wait behind other goroutines, for a connection and for the reply. A d of 0 means
// a single attempt: see [Lock.TryLock]. Otherwise the minimum is 1 µs. Without Wait, the methods Lock, Acquire and Do wait until their context ends, and the
// Try methods make a single attempt.
func Wait(d time.Duration) AcquireOption { return AcquireOption{waitOption, d} }

// Permits acquires n permits at once, or none. Without it, the number is 1. Of a [Semaphore], n is from 1 to 1,000: each permit has an
// entry of its own in Redis, which is renewed. Of a [PlainSemaphore], n is from 1 to 2^31-1. If there are fewer than n in all, Acquire
// waits until somebody adds some, and later calls of its process wait behind it. A lock has no permits: then the error is
// [ErrInvalidOption].
func Permits(n int) AcquireOption { return AcquireOption{permitsOption, time.Duration(n)} }

// AtLeast keeps the lock taken until d after this owner got it, even if it is unlocked before: by nobody then. So of several
// processes that do a job at the same time, one does it, and the others still find the lock taken if they come a little late, or if
// their clocks differ. They use [Lock.TryDo]:
//
//	ran, err := lock.TryDo(ctx, job, rlock.AtLeast(50*time.Second)) // each minute
//
// d must be clearly shorter than the interval between two jobs, at most nine tenths of it: the lock is taken a moment after each job is
// due. It must be longer than the clocks may differ. d does not lengthen the lease. If the process dies before the unlock, or loses
// the lock, the lock is free when its lease ends, and another may do the job. With an interval below that lease, which is 30 s by default,
// take a shorter [RenewedLease]: otherwise a death costs the next jobs, too. If the job fails, panics or is canceled, the lock is
// nevertheless kept, so that not all processes try in turn. If d is over before the unlock, nothing is kept.
//
// The job is done once at most, and perhaps not at all: if each attempt fails with [ErrUnavailable], or meets one that did so, and that
// rlock is still releasing. An attempt with a [Wait] outlasts that. Together, the Wait and the difference of the clocks must be shorter
// than d.
//
// The unlock tells those who wait when the time is over, of Redisson's one thread of each process. ForceUnlock frees the lock.
// [Lock.Inspect] shows a holder of this client, which is marked as Kept.
//
// It is for Acquire, TryAcquire, Do and TryDo of plain, fenced, fair and spin locks. Elsewhere the error is [ErrInvalidOption]. An owner that
// holds the lock already gets [ErrReentered]. The minimum is 1 ms, the maximum 100 years. Redisson has no such method.
func AtLeast(d time.Duration) AcquireOption { return AcquireOption{atLeastOption, d} }

// terms turns the options of one acquisition into its terms.
func terms(op string, try, byHold bool, opts []AcquireOption) client.Terms {
	t := client.Terms{Op: op, ByHold: byHold, Limited: try}
	for _, opt := range opts {
		switch opt.what {
		case leaseOption, renewedLeaseOption:
			if t.Err = setLease(&t, opt); t.Err != nil {
				return t
			}
		case waitOption:
			if opt.d < 0 || bare(opt.d) != "" {
				t.Err = fmt.Errorf("%w: wait %v is neither 0 nor at least 1µs%s", ErrInvalidOption, opt.d, bare(opt.d))
				return t
			}
			t.Wait, t.Limited = opt.d, true
		case permitsOption:
			if opt.d < 1 {
				t.Err = fmt.Errorf("%w: %d permits, but the least is 1", ErrInvalidOption, int64(opt.d))
				return t
			}
			t.Permits = int(opt.d)
		case atLeastOption:
			if opt.d < minLease || opt.d > maxLease {
				t.Err = outOfRange("least time", opt.d, minLease)
				return t
			}
			t.AtLeast = opt.d
		default:
			t.Err = fmt.Errorf("%w: a zero AcquireOption", ErrInvalidOption)
			return t
		}
	}
	return t
}

// setLease applies an option that sets the lease.
func setLease(t *client.Terms, opt AcquireOption) error {
	renewed, what, least := opt.what == renewedLeaseOption, "lease", minLease
	if renewed {
		what, least = "renewed lease", minWatchdogTimeout
	}
	switch {
	case opt.d < least || opt.d > maxLease:
		return outOfRange(what, opt.d, least)
	case t.Lease != 0 && t.Renewed != renewed:
		return fmt.Errorf("%w: a lease and a renewed lease together", ErrInvalidOption)
	}
	t.Lease, t.Renewed = opt.d, renewed
	return nil
}

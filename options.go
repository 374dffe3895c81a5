package rlock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
)

const (
	minLease = time.Millisecond

	// maxLease keeps every sum of a lease and a time far from overflow, here and in PEXPIRE.
	maxLease = 100 * 365 * 24 * time.Hour

	maxReplicas = 1000
)

// Option sets something for all locks of a [Client]: see [New]. Options cannot be implemented outside this package; a nil one is refused
// with [ErrInvalidOption]. What one handle or one call may be given is a [LockOption] or an [AcquireOption].
type Option interface{ client(s *settings) error }

type option func(s *settings) error

func (o option) client(s *settings) error { return o(s) }

// Tests set by this what no option sets.
var _ = config.Tunes(func(change func(*config.Config)) any {
	return option(func(s *settings) error {
		change(&s.Table)
		return nil
	})
})

// settings are the options of a client, with their defaults in place.
type settings struct {
	client.Config
	prefix string
}

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		Config: client.Config{
			Table:  config.Default(),
			Logger: slog.Default, // called for each warning, so that a later slog.SetDefault takes effect
		},
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i+1)
		}
		if err := opt.client(s); err != nil {
			return nil, err
		}
	}
	if most := s.Table.CommandTimeout / 2; s.AckTimeout > most {
		return nil, fmt.Errorf("%w: replica ack timeout %v exceeds half of the command timeout, %v",
			ErrInvalidOption, s.AckTimeout, most)
	}
	return s, nil
}

// WithCommandTimeout bounds how long rlock waits for the reply to one command, and how long [Lock.Unlock] and [Client.Close] try before
// they give up. A silent Redis counts as busy for a fifth of it: see [ErrUnavailable] and [Wait]. The default is 5 s, the minimum 1 ms. If
// a redis.Client has a longer ReadTimeout, or none, rlock's commands use the command timeout instead; hooks that are added to it after
// [New] do not see them then.
func WithCommandTimeout(d time.Duration) Option {
	return durationOption("command timeout", d, time.Millisecond, func(s *settings) { s.Table.CommandTimeout = d })
}

// Replicas is a number of replicas for [WithReplicaAcks].
type Replicas int

// AllReplicas is as many replicas as the server of the lock said were online within the last second, and none if it has none. So one
// setting fits development, production and the time after a failover.
//
// A replica that leaves, or hangs, lets acquisitions fail until the server no longer counts it as online. The user of Redis needs the right
// to INFO; without it, acquisitions fail. A master that has lost the connection to all of its replicas locks without them: if it must not,
// give a number.
const AllReplicas Replicas = -1

// WithReplicaAcks makes an acquisition wait, for at most timeout, until n replicas have acknowledged it: a number, or [AllReplicas]. If
// fewer do, the lock is released and the acquisition fails with [ErrNotReplicated]. So a failover to one of those replicas does not lose
// the lock.
//
// Re-entries and renewals do not wait: a replica that has the holder gets them later, and a failover may shorten the lease.
// The lease is over at once if the replica had not heard from its master for a whole lease, which min-replicas-to-write with
// min-replicas-max-lag prevents.
//
// The timeout is from 1 ms to half of the command timeout. An attempt that is refused may take as long, if a replica hangs.
// The default is 0 replicas: acquisitions do not wait. Those of a [PlainSemaphore] never do.
func WithReplicaAcks(n Replicas, timeout time.Duration) Option {
	if n < AllReplicas || n > maxReplicas {
		return option(func(*settings) error {
			return fmt.Errorf("%w: %d replicas are neither AllReplicas nor in [0, %d]", ErrInvalidOption, n, maxReplicas)
		})
	}
	if n == 0 {
		return option(func(s *settings) error { s.Acks, s.AckTimeout = 0, 0; return nil })
	}
	return durationOption("replica ack timeout", timeout, time.Millisecond, func(s *settings) {
		s.Acks, s.AckTimeout = int(n), timeout
	})
}

// WithoutAutoPipeline sends each script by itself. Otherwise, while several scripts are under way to a node, further ones are gathered
// into pipelines; none waits until a pipeline is full. Nothing is gathered if the pool of the redis client has fewer than 3 connections.
// Hooks see a pipeline without the contexts of the callers.
func WithoutAutoPipeline() Option {
	return option(func(s *settings) error {
		s.Table.Crowd = -1
		return nil
	})
}

// WithKeyPrefix puts a prefix before the name in Redis of every lock, semaphore and latch, such as "shop:", without a separator. Braces
// are refused: they would move all locks into one slot of a cluster. SECURITY.md lists the keys for access rules.
func WithKeyPrefix(prefix string) Option {
	if strings.ContainsAny(prefix, "{}") {
		return option(func(*settings) error {
			return fmt.Errorf("%w: the key prefix %s contains a brace", ErrInvalidOption, fault.Quote(prefix))
		})
	}
	return option(func(s *settings) error {
		s.prefix = prefix
		return nil
	})
}

// WithLogger sets where log lines go; docs/guide/observing.md explains each of them. The default is [slog.Default]. The same line about a
// lock comes at most once a second; the next one has the number of those dropped as the attribute "suppressed". What go-redis logs goes to
// its own logger, see redis.SetLogger.
func WithLogger(logger *slog.Logger) Option {
	return option(func(s *settings) error {
		if logger == nil {
			return fmt.Errorf("%w: the logger is nil", ErrInvalidOption)
		}
		s.Logger = func() *slog.Logger { return logger }
		return nil
	})
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
	return option(func(s *settings) error {
		if d < least || d > maxLease {
			return outOfRange(what, d, least)
		}
		set(s)
		return nil
	})
}

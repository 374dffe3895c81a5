// Package config has the options on which decisions about locks depend, and the pauses that follow from them.
package config

import (
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Config is the options. The zero value is not usable. All durations are positive unless said otherwise.
type Config struct {
	ClientID        string
	WatchdogTimeout time.Duration // the lease of a hold that asks for none
	CommandTimeout  time.Duration
	PollInterval    time.Duration // the longest sleep of a waiter
	MaxHold         time.Duration // zero means no limit
	FairWait        time.Duration // for how long a silent waiter may stand in Redisson's way in a queue in Redis
	BatchSize       int           // how many locks one renewal names
	HandOvers       int           // how many local hand-overs may follow each other; zero means none
	HandOverTime    time.Duration // for how long they may; zero means not at all
	StandBack       time.Duration // for how long this process leaves the lock to others after a public release
	Crowd           int           // how many calls go out to a node by themselves at a time; negative means that none are gathered
	Acks            bool          // acquisitions wait for replicas
	Cluster         bool          // the receivers of a message at other nodes are not known

	// Random returns a duration of at least 0 and below d. Nil means the default source.
	Random func(d time.Duration) time.Duration
}

// Default returns what applies unless an option says otherwise.
func Default() Config {
	return Config{
		WatchdogTimeout: 30 * time.Second,
		CommandTimeout:  5 * time.Second,
		PollInterval:    5 * time.Second,
		FairWait:        time.Minute,
		BatchSize:       100,
		HandOvers:       32,
		HandOverTime:    5 * time.Millisecond,
		StandBack:       2 * time.Millisecond,
		Crowd:           6,
	}
}

// Retry returns the pause before the next try, after a number of failures in a row.
func (c *Config) Retry(failures int) time.Duration {
	return clock.Backoff(failures, time.Second, c.Random)
}

// Floor returns how long a question to Redis may go without a reply before the silence counts as an outage.
func (c *Config) Floor() time.Duration { return c.CommandTimeout / 5 }

// RetryRenewal returns the pause before the renewal of a lease is sent again, after a number of failures in a row.
func (c *Config) RetryRenewal(lease time.Duration, failures int) time.Duration {
	return clock.Backoff(failures, RenewalTimeout(lease), c.Random)
}

// RenewalTimeout returns how long the watchdog waits for the reply to the renewal of a lease before it sends the renewal
// again.
func RenewalTimeout(lease time.Duration) time.Duration {
	return max(min(lease/10, time.Second), 20*time.Millisecond)
}

// Rest returns the longest pause of a waiter that was refused. hint is the time, in the reply of Redis, until another
// attempt may help. queues means that it waits in a queue in Redis.
func (c *Config) Rest(hint time.Duration, queues bool) time.Duration {
	if queues {
		hint = min(hint, c.Refresh())
	}
	return max(min(hint, c.PollInterval), time.Millisecond)
}

// Poll returns the pause of those who await a latch until they ask without a reason. It is shorter than the poll interval by
// chance, so that the processes do not all come at once.
func (c *Config) Poll() time.Duration {
	random := c.Random
	if random == nil {
		random = rand.N[time.Duration]
	}
	return c.PollInterval - random(min(c.PollInterval/10, 20*time.Millisecond)+1)
}

// Stretch returns the pause of a waiter in a line after so many polls that no message caused: first, and twice as long after each poll, up to
// 30 s. A client that waits for many names asks for a thousand a second at most, and for each before Redis forgets its line.
func (c *Config) Stretch(first time.Duration, polls, names int) time.Duration {
	const longest = 30 * time.Second
	pause := longest
	if polls < 4 {
		pause = min(min(first, c.PollInterval)<<polls, longest)
	}
	return max(pause, min(time.Duration(names)*time.Millisecond, 2*time.Minute))
}

// Refresh returns the longest time from one attempt of a waiter in a queue in Redis to the next. It bounds the wait for a reply,
// too.
func (c *Config) Refresh() time.Duration { return c.FairWait / 3 }

// Memory returns for how long Redis remembers a call that counts once. The call is repeated for a command timeout, and its last
// command may be on its way for some time after that.
func (c *Config) Memory() time.Duration { return c.CommandTimeout + 2*time.Minute }

// Tombstone returns the lifetime of the tombstone of a number that may still become a holder.
func Tombstone(lease time.Duration) time.Duration { return max(lease, 2*time.Minute) }

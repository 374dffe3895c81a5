// Package tune has options for tests: they set what applications have no option for.
package tune

import (
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/config"
)

func option(change func(*config.Config)) rlock.Option {
	opt, _ := config.Tune(change).(rlock.Option)
	return opt
}

// PollInterval sets how long a waiter sleeps at most without a message.
func PollInterval(d time.Duration) rlock.Option {
	return option(func(cfg *config.Config) { cfg.PollInterval = d })
}

// FairWait sets for how long a silent waiter of a fair lock may stand in the way of Redisson's waiters.
func FairWait(d time.Duration) rlock.Option {
	return option(func(cfg *config.Config) { cfg.FairWait = d })
}

// HandOver sets how many local hand-overs of a lock may follow each other, and for how long.
func HandOver(n int, d time.Duration) rlock.Option {
	return option(func(cfg *config.Config) { cfg.HandOvers, cfg.HandOverTime = n, d })
}

// StandBack sets for how long a lock that was released to the public is left to other processes.
func StandBack(d time.Duration) rlock.Option {
	return option(func(cfg *config.Config) { cfg.StandBack = d })
}

// BatchSize sets how many locks one call renews.
func BatchSize(n int) rlock.Option {
	return option(func(cfg *config.Config) { cfg.BatchSize = n })
}

// Crowd sets how many scripts may be under way to a node by themselves before further ones are gathered.
func Crowd(n int) rlock.Option {
	return option(func(cfg *config.Config) { cfg.Crowd = n })
}

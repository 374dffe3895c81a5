package rlock

import "time"

// WithStandBack sets for how long a lock that was released to the public is left to other processes.
func WithStandBack(d time.Duration) Option {
	return func(s *settings) error {
		s.Table.StandBack = d
		return nil
	}
}

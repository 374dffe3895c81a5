package rlock

import (
	"fmt"

	"github.com/go-rlock/rlock/observe"
)

// WithObserver sets an observer of the client. If it is given several times, there are several observers: each gets the context that
// the one before it returned. The default is none. A nil observer is refused with [ErrInvalidOption].
func WithObserver(o observe.Observer) Option {
	return option(func(s *settings) error {
		if o == nil {
			return fmt.Errorf("%w: the observer is nil", ErrInvalidOption)
		}
		s.Observers = append(s.Observers, o)
		return nil
	})
}

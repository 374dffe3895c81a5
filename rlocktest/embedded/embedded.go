// Package embedded runs rlock without a Redis: for local development, demos, and programs that are their only process, such as those of a
// desktop.
//
//	locks, stop, err := embedded.Start()
//	if err != nil {
//		return err
//	}
//	defer stop()
//
// The locks run the same scripts as with a Redis, on a server within the process. Nobody else can reach it, so the locks exclude only the
// goroutines of this process, and the end of the process is the end of all locks. It is not for several processes that must exclude each
// other: these need a Redis. It is not as fast as one either. For tests, there is the package rlocktest.
package embedded

import (
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/rlocktest/internal/server"
)

// Start returns a client on a server of its own, and stop, which closes both. Calling stop again does nothing. Each call starts another
// server: the locks of one know nothing of those of another. The error is that of [rlock.New].
func Start(opts ...rlock.Option) (locks *rlock.Client, stop func(), err error) {
	s := server.New(time.Now)
	locks, end, err := s.Client(opts)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return locks, sync.OnceFunc(func() {
		end()
		s.Close()
	}), nil
}

// Package testhook lets internal/testkit see the old library from inside. It goes with the old code.
package testhook

import "time"

// What the library answers about its clients and locks.
var (
	Remains, Lines        func(client any) int
	Listens, Rests, Reads func(lock any) bool
	Waiting               func(lock any) int
	Keys                  func(lock any) []string
	Channel               func(lock any) string
	Possess               func(lock any) ([]string, string)
	Transient             func(client any, err error) bool
	Yield                 func(turn, since time.Duration, others int64) time.Duration
)

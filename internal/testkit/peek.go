package testkit

import (
	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testhook"
)

// Remains counts what a client, or the client of a lock, still keeps in memory: grants, local queues, due times and channels.
func Remains[T *rlock.Client | *rlock.Lock](of T) int { return testhook.Remains(of) }

// Lines counts the nodes to which a client has, or had not long ago, a subscription connection.
func Lines(c *rlock.Client) int { return testhook.Lines(c) }

// Transient reports whether a client sends a command again that failed with an error.
func Transient(c *rlock.Client, err error) bool { return testhook.Transient(c, err) }

// Listens reports whether the first waiter of a lock in this process is notified of releases.
func Listens(l *rlock.Lock) bool { return testhook.Listens(l) }

// Rests reports whether the first waiter of a lock in this process sleeps until something happens.
func Rests(l *rlock.Lock) bool { return testhook.Rests(l) }

// Waiting counts the waiters for a lock in this process. For a group that queues nowhere itself, it counts those of its members.
func Waiting(l rlock.Locker) int {
	if g, ok := l.(grouped); ok {
		return g.waiting()
	}
	return testhook.Waiting(l)
}

// Keys returns the names in Redis of the lock, of what else it needs, and of its tombstones.
func Keys(l rlock.Locker) []string {
	if g, ok := l.(grouped); ok {
		return g.keys()
	}
	return testhook.Keys(l)
}

// Channel returns the channel on which a release of the lock is announced.
func Channel(l *rlock.Lock) string { return testhook.Channel(l) }

// Reads reports whether a lock is the read side of a read-write lock.
func Reads(l *rlock.Lock) bool { return testhook.Reads(l) }

// Possess returns what another grant of the lock would have in Redis: its keys, and the channel on which it waits.
func Possess(l *rlock.Lock) (keys []string, channel string) { return testhook.Possess(l) }

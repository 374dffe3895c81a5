package interop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-rlock/rlock"
)

// kindOf is a kind of lock with one name, on both sides.
type kindOf struct {
	java    string // its name in the Java program
	newLock func(*rlock.Client, string) *rlock.Lock
	channel func(name string) string // where waiters listen; empty if there is none, or one per owner
	fair    bool                     // waiters queue
	since   [2]int                   // the first version of Redisson that has it

	// rival is the Java kind that excludes this one, and rivalLock creates it in Go. Only a read lock has another rival
	// than itself.
	rival     string
	rivalLock func(*rlock.Client, string) *rlock.Lock
}

func single[O any](newLock func(*rlock.Client, string, ...O) *rlock.Lock, opts ...O) func(*rlock.Client, string) *rlock.Lock {
	return func(c *rlock.Client, name string) *rlock.Lock { return newLock(c, name, opts...) }
}

func newReadLock(c *rlock.Client, name string) *rlock.Lock  { return c.NewRWLock(name).Reader() }
func newWriteLock(c *rlock.Client, name string) *rlock.Lock { return c.NewRWLock(name).Writer() }

func newFencedWriteLock(c *rlock.Client, name string) *rlock.Lock {
	return c.NewRWLock(name, rlock.Fenced()).Writer()
}

func lockChannel(name string) string { return derived("redisson_lock__channel", name) }
func rwChannel(name string) string   { return derived("redisson_rwlock", name) }
func noChannel(string) string        { return "" }

// derived applies Redisson's rule for the keys and channels of a lock.
func derived(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// kinds lists every kind of lock with one name.
var kinds = []kindOf{
	excluding(kindOf{java: "lock", newLock: single((*rlock.Client).NewLock), channel: lockChannel}),
	excluding(kindOf{java: "fenced", newLock: single((*rlock.Client).NewLock, rlock.Fenced()), channel: lockChannel}),
	excluding(kindOf{java: "spin", newLock: single((*rlock.Client).NewSpinLock), channel: noChannel}),
	excluding(kindOf{java: "fair", newLock: single((*rlock.Client).NewFairLock), channel: noChannel, fair: true}),
	excluding(kindOf{java: "write", newLock: newWriteLock, channel: rwChannel}),
	// Java has no tokens for these. The first kind with a name in Java is the one that a test gets by that name.
	excluding(kindOf{
		java: "fair", newLock: single((*rlock.Client).NewFairLock, rlock.Fenced()), channel: noChannel, fair: true,
	}),
	excluding(kindOf{java: "write", newLock: newFencedWriteLock, channel: rwChannel}),
	{java: "read", newLock: newReadLock, channel: rwChannel, rival: "write", rivalLock: newWriteLock},
	excluding(kindOf{
		java: "nonreentrant", newLock: single((*rlock.Client).NewLock, rlock.NonReentrant()), channel: lockChannel,
		since: [2]int{4, 4},
	}),
	excluding(kindOf{
		java: "nonreentrantfair", newLock: single((*rlock.Client).NewFairLock, rlock.NonReentrant()), channel: noChannel,
		fair: true, since: [2]int{4, 4},
	}),
}

// kindNamed returns the kind with this name in the Java program.
func kindNamed(java string) kindOf {
	return kinds[slices.IndexFunc(kinds, func(k kindOf) bool { return k.java == java })]
}

// excluding makes a kind its own rival.
func excluding(k kindOf) kindOf {
	k.rival, k.rivalLock = k.java, k.newLock
	return k
}

// newMultiLock returns the counterpart of Java's kind "multi".
func newMultiLock(c *rlock.Client, names ...string) *rlock.MultiLock {
	locks := make([]*rlock.Lock, 0, len(names))
	for _, name := range names {
		locks = append(locks, c.NewLock(name))
	}
	return rlock.NewMultiLock(locks...)
}

// kindsOf returns the kinds that a version has.
func kindsOf(v version) (all []kindOf) {
	for _, k := range kinds {
		if v.atLeast(k.since[0], k.since[1]) {
			all = append(all, k)
		}
	}
	return all
}

// onKinds runs a test for every kind against every version that has it, side by side.
func onKinds(t *testing.T, test func(*testing.T, version, kindOf)) {
	t.Helper()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for _, k := range kindsOf(v) {
			t.Run(k.java, func(t *testing.T) {
				t.Parallel()
				test(t, v, k)
			})
		}
	})
}

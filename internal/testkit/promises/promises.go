// Package promises has what rlock promises, as checkers. A checker is a method of [Judge]. Its arguments are what somebody saw: an owner that
// gets a lock and those that believe to have it, a call, the end of a hold, the operations on a lock, two looks at Redis. The simulation has all
// of them, and calls them as it runs. The torture has exclusion, permits and token, and derives their arguments from the record of a scene, once
// that is over. What a real machine needs is an argument, too: slack, and what excuses something.
//
// The text of a broken promise begins with its name:
//
//	exclusion, permits   two owners are inside, or more permits are held than there are
//	token                a fencing token does not rise, or two owners have one
//	linearizability      no lock could have done what its owners saw
//	order                a later waiter overtook an earlier one
//	writer preference    a reader passed a writer for which it had to wait
//	false loss           a renewed lock was lost without a cause
//	notice               an owner noticed its loss too late
//	unlock               an unlock reports a loss too early, hides one, or fails without a cause
//	error                an error says two things, or not what happened
//	late                 a call returned after its limit
//	lost wake-up         a lock was free while somebody waited for it
//	stray                Redis keeps a lock for somebody who no longer has it
//	gauges               Stats says something else than the owners
//	latch, left          something that counts has counted wrong
//	re-entry, extend, borrow, do, election, ticket
//	                     what its owner may do with a hold
//
// Some checks stay in the simulation, as they need to look at Redis and at the owners in one moment: that a refusal has a cause, that each owner
// has a quarter of its lease left, what AtLeast keeps, what a turn costs in commands, whom a shutdown tells and what it leaves, and each key that
// is left. It also sees what the network told each process, so it compares the error of a call with that.
package promises

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Moment is a time of the clock that all observers of a run share, in nanoseconds. In the record of a run, zero means that the event has
// not happened.
type Moment int64

// Add returns the moment d later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Sub returns how much later m is than n.
func (m Moment) Sub(n Moment) time.Duration { return time.Duration(m - n) }

// String is the time since the clock began.
func (m Moment) String() string { return time.Duration(m).String() }

// Judge is told of each broken promise. The text begins with the name of the promise and a colon.
type Judge func(format string, args ...any)

// Nobody is a judge who does not mind.
func Nobody(string, ...any) {}

// Owner is somebody who got something, and believes to have it, or who waits for that.
type Owner struct {
	Who     fmt.Stringer
	Asked   Moment
	Since   Moment
	Reads   bool // it shares the lock with others that read
	Permits int  // of a semaphore
}

// Exclusion checks an owner that got a lock against those that believe to have it. It returns how many of these may not.
func (j Judge) Exclusion(lock string, got Owner, others []Owner) (n int) {
	for _, o := range others {
		if o.Reads && got.Reads {
			continue
		}
		n++
		j("exclusion: %v got %s, which %v has since %v", got.Who, lock, o.Who, o.Since)
	}
	return n
}

// Permits checks that an owner that got permits, and those that believe to have some, do not have more than there are. It reports that.
func (j Judge) Permits(semaphore string, got Owner, others []Owner, total int) bool {
	sum := got.Permits
	for _, o := range others {
		sum += o.Permits
	}
	if sum > total {
		j("permits: %v got %d of %s, so that %d are held, of %d", got.Who, got.Permits, semaphore, sum, total)
	}
	return sum <= total
}

// Order checks that an owner that got a fair lock did not ask so much later than somebody who waits for it. It reports that.
func (j Judge) Order(lock string, got, waits Owner, later time.Duration) bool {
	first := got.Asked <= waits.Asked.Add(later)
	if !first {
		j("order: %v, which asked for %s at %v, overtook %v, which asked at %v", got.Who, lock, got.Asked, waits.Who, waits.Asked)
	}
	return first
}

// Yields checks that a reader which yields to writers did not ask so much later than a writer that waits, unless a writer has left the lock
// since the reader asked. It reports that.
func (j Judge) Yields(lock string, got, waits Owner, left Moment, later time.Duration) bool {
	yields := got.Asked <= waits.Asked.Add(later) || got.Asked <= left
	if !yields {
		j("writer preference: %v, which asked to read %s at %v, passed the writer %v, which stands there since %v; a writer left at %v",
			got.Who, lock, got.Asked, waits.Who, waits.Asked, left)
	}
	return yields
}

// Tokens are the fencing tokens that the owners of a lock got. The zero value has none.
type Tokens struct {
	granted []granted // sorted
}

type granted struct {
	token uint64
	to    fmt.Stringer
}

// Greatest returns the greatest of the tokens.
func (t *Tokens) Greatest() uint64 {
	if len(t.granted) == 0 {
		return 0
	}
	return t.granted[len(t.granted)-1].token
}

// Granted checks the token of an owner of a lock, given the greatest of those that were granted before it asked. As long as no two owners
// are inside, that is the greatest of all. Readers have no token, nor has an owner of a lock without them.
func (t *Tokens) Granted(j Judge, lock string, fenced bool, got Owner, token, before uint64) {
	if !fenced || got.Reads {
		if token != 0 {
			j("token: %v got %s with the token %d, but it needs none", got.Who, lock, token)
		}
		return
	}
	i, again := slices.BinarySearchFunc(t.granted, token, func(g granted, token uint64) int { return cmp.Compare(g.token, token) })
	switch {
	case token <= before:
		j("token: %v got %s with the token %d after %d", got.Who, lock, token, before)
	case again:
		j("token: %v got %s with the token %d, which %v has, too", got.Who, lock, token, t.granted[i].to)
	}
	if !again {
		t.granted = slices.Insert(t.granted, i, granted{token, got.Who})
	}
}

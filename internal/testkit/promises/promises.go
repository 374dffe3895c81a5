// Package promises has what rlock promises, as the checkers that the torture and the simulation share.
package promises

import (
	"fmt"
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

// Owner is somebody who got something, and believes to have it.
type Owner struct {
	Who     fmt.Stringer
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

package torture

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// Moment is a time of the monotonic clock that all processes of the machine share.
type Moment = promises.Moment

func now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return Moment(t.Nano())
}

// Answer is the outcome of an attempt or an unlock.
type Answer string

const (
	got     Answer = "got"     // the attempt got the lock, or the unlock released it
	refused Answer = "refused" // another owner held the lock for as long as the attempt waited
	failed  Answer = "failed"  // an error, or the context ended: the state of the lock is unknown
	lost    Answer = "lost"    // the unlock reported that the lock had been lost
	left    Answer = "left"    // not unlocked, on purpose
)

// Turn is the record of one use of a lock by one owner. A worker reports it at each step, so that the history also shows
// how far a killed process got.
type Turn struct {
	ID     int64
	Site   string // a restarted process is another site
	Worker int    // -1 for a keeper
	Kind   string
	Names  []string // several for a group, otherwise one
	Lease  time.Duration
	Renew  bool // the watchdog renews the lock
	Try    bool // one attempt without waiting
	Keeper bool // holds a lock of its own for the lifetime of the process

	Client  string        // the id of its client, the first one of a red lock
	Verb    string        // the method
	Wait    time.Duration // the option; zero means none
	Renewal time.Duration // the lease that the watchdog renews; zero means none
	Timed   bool          // the context has a deadline, and is not canceled
	Limit   Moment        // the deadline of the context; zero means none

	Asked    Moment
	Ended    Moment // when the context of the attempt ended, if that was before the attempt returned
	Answered Moment
	Answer   Answer
	Class    Class // of the error of the attempt
	Token    uint64

	// The owner believed to hold the lock from First to Last. It reads the clock first and then Hold.Err.
	First, Last Moment
	Lost        Moment // when the owner noticed the loss
	Told        Moment // when the hold's context said that the client shuts down
	Hears       bool   // nothing but the end of the hold, or of the client, ends the hold's context
	// Extended is until when Redis may keep the lock because of Hold.Extend.
	Extended Moment
	Extends  int         // calls of Hold.Extend that succeeded
	Outages  [][2]Moment // when other calls than the attempt and the unlock began and reported an outage
	// Writes are the writes to the protected data, each after a look at Hold.Err. The last one may come long after its look.
	Writes []Moment

	Unlocking Moment
	Unlocked  Moment
	Unlock    Answer
	Deadline  Moment // Hold.Deadline at the unlock
	Over      bool   // Hold.Err said before the unlock that the lock was lost
	ByDo      bool   // Do unlocked, and does not say whether Redis confirmed that

	// The hold was exported and adopted from Export to Adopted: no client has it then.
	Export, Adopted Moment

	Refused bool  // a ticket was refused although its lease was not over
	Permits int   // of a semaphore
	Counted bool  // whether a latch may have been counted down
	Left    int64 // what the latch had then
	Passed  bool  // whether the latch let its caller pass after that

	// Wrong lists the broken promises that the process itself noticed.
	Wrong []string
	Err   string // of the attempt or the unlock
}

func (t *Turn) reads() bool { return t.Kind == kindRead || t.Kind == kindYieldingRead }

func (t *Turn) writes() bool { return t.Kind == kindWrite || t.Kind == kindFencedWrite }

func (t *Turn) String() string {
	return fmt.Sprintf("%s/%d (turn %d: %s %s %v%s, asked %v, %s at %v after %v, believed %v to %v, unlock %s from %v to %v, %s)",
		t.Site, t.Worker, t.ID, t.Verb, t.Kind, t.Names, t.limits(), t.Asked, t.Answer, t.Answered, t.Answered.Sub(t.Asked),
		t.First, t.Last, t.Unlock, t.Unlocking, t.Unlocked, t.Err)
}

// limits describes what limited the attempt.
func (t *Turn) limits() string {
	var s string
	if t.Try {
		s += ", once"
	}
	if t.Wait > 0 {
		s += fmt.Sprintf(", wait %v", t.Wait)
	}
	if t.Limit != 0 {
		s += fmt.Sprintf(", deadline after %v", t.Limit.Sub(t.Asked))
	} else if t.Ended != 0 {
		s += fmt.Sprintf(", canceled after %v", t.Ended.Sub(t.Asked))
	}
	if t.Answer == got {
		s += fmt.Sprintf(", for %v until %v", t.Lease, t.Deadline)
	}
	if t.Adopted != 0 {
		s += fmt.Sprintf(", adopted at %v", t.Adopted)
	}
	return s
}

package torture

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Moment is a time of the machine's monotonic clock, the same for all its processes; 0: not happened.
type Moment int64

func now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return Moment(t.Nano())
}

func (m Moment) add(d time.Duration) Moment { return m + Moment(d) }
func (m Moment) sub(n Moment) time.Duration { return time.Duration(m - n) }

// Answer is what an attempt, or an unlock, came to.
type Answer string

const (
	got     Answer = "got"     // the lock; or the unlock released it
	refused Answer = "refused" // another held it, as long as the attempt waited
	failed  Answer = "failed"  // an error, or the context's end: nothing is said about the lock
	lost    Answer = "lost"    // the unlock learnt that the lock had been lost
	left    Answer = "left"    // not unlocked, on purpose
)

// Turn is one use of a lock by one owner, as far as it has come. A worker tells of it at each step, so that it is known how
// far a killed process came.
type Turn struct {
	ID     int64
	Site   string // which process, and which incarnation of it
	Worker int
	Kind   string
	Names  []string // one, but of groups
	Lease  time.Duration
	Renew  bool // no Lease given: the watchdog keeps it
	Try    bool // one attempt, no waiting
	Keeper bool // holds a lock of its own for as long as the process lives

	Asked    Moment
	Ended    Moment // when the context of the attempt ended, if it did before the answer
	Answered Moment
	Answer   Answer
	Token    uint64

	// The owner believed to hold the lock from First to Last: he looked at the clock, and then at Hold.Err.
	First, Last Moment
	Lost        Moment // when Hold.Done had closed
	// Writes are when he wrote to what the lock protects, after he had looked. The last one of a pause comes long after.
	Writes []Moment

	Unlocking Moment
	Unlocked  Moment
	Unlock    Answer
	Deadline  Moment // Hold.Deadline at the unlock

	// Wrong says what this process itself saw go wrong.
	Wrong []string
	Err   string // of the attempt or the unlock
}

func (t *Turn) reads() bool { return t.Kind == kindRead }

func (t *Turn) String() string {
	return fmt.Sprintf("%s/%d turn %d: %s %v, asked %d, %s at %d, believed %d to %d, unlock %s at %d, %s",
		t.Site, t.Worker, t.ID, t.Kind, t.Names, t.Asked, t.Answer, t.Answered, t.First, t.Last, t.Unlock, t.Unlocked, t.Err)
}

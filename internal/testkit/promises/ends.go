package promises

import (
	"fmt"
	"time"
)

// Ending is the end of a hold, as its owner saw it.
type Ending struct {
	Who                 fmt.Stringer
	Lock                string
	Group               bool   // its unlock releases the members that are still held
	Before              Class  // of what the hold said before the unlock
	Deadline            Moment // of the hold then
	Unlocking, Unlocked Moment
	After               Class // of what the unlock said
	Err                 any   // the same as a text
}

// Lost checks that an event excuses the loss of a lock that was renewed. It reports that.
func (j Judge) Lost(o Owner, lock string, err any, excused bool) bool {
	if !excused {
		j("false loss: %v lost %s, which it had since %v: %v", o.Who, lock, o.Since, err)
	}
	return excused
}

// EarlyLoss checks that an unlock does not say that a lock is lost before the deadline until which its owner could rely on it. It reports
// that.
func (j Judge) EarlyLoss(e Ending) bool {
	early := e.After == Loss && e.Unlocked < e.Deadline
	if early {
		j("unlock: that of %s by %v reports a loss %v before the deadline: %v", e.Lock, e.Who, e.Deadline.Sub(e.Unlocked), e.Err)
	}
	return !early
}

// AfterLoss checks that the unlock of a lock that is known to be lost says so, and does not wait for Redis.
func (j Judge) AfterLoss(e Ending, slack time.Duration) {
	took := e.Unlocked.Sub(e.Unlocking)
	switch {
	case e.Before != Loss:
	case e.After != Loss:
		j("unlock: that of the lost %s by %v returned %v", e.Lock, e.Who, e.Err)
	case !e.Group && took > slack:
		j("late: the unlock of the lost %s by %v took %v", e.Lock, e.Who, took)
	}
}

// Unconfirmed checks that something explains an unlock that failed, and that has tried until the command timeout. troubled reports whether
// anything disturbed a command between two moments.
func (j Judge) Unconfirmed(e Ending, troubled func(from, to Moment) bool) {
	if !troubled(e.Unlocking.Add(-time.Second), e.Unlocked) {
		j("unlock: that of %s by %v failed, but all was well: %v", e.Lock, e.Who, e.Err)
	}
}

// Unnoticed checks that an owner that lost its lock at a moment has noticed that soon enough, by now. It reports that.
func (j Judge) Unnoticed(o Owner, lock string, lost, now Moment, limit time.Duration) bool {
	late := now.Sub(lost) > limit
	if late {
		j("notice: for %v, %v has not noticed that it lost %s", now.Sub(lost), o.Who, lock)
	}
	return !late
}

package promises

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock"
)

// Class is what an error says happened.
type Class string

// The classes. No error is in two of the first three.
const (
	Contention Class = "contention" // another owner has the lock
	Outage     Class = "outage"     // nobody could say
	Loss       Class = "loss"
	Closing    Class = "closing" // the client is closed, or shuts down
	Neither    Class = "neither"
)

// Class returns the class of an error, and an empty one for nil. It checks that the error does not say two things at once.
func (j Judge) Class(err error) Class {
	if err == nil {
		return ""
	}
	var all []Class
	for _, c := range []struct {
		class Class
		err   error
	}{{Contention, rlock.ErrNotAcquired}, {Outage, rlock.ErrUnavailable}, {Loss, rlock.ErrLost}} {
		if errors.Is(err, c.err) {
			all = append(all, c.class)
		}
	}
	switch {
	case len(all) > 1:
		j("error: it says %v at once: %v", all, err)
		return all[0]
	case len(all) == 1:
		return all[0]
	case errors.Is(err, rlock.ErrClosed):
		return Closing
	}
	return Neither
}

// Call is an attempt to acquire a lock, or another call, as its caller sees it.
type Call struct {
	Who             fmt.Stringer
	Lock            string
	Asked, Answered Moment
	Try             bool          // it does not wait
	Wait            time.Duration // the option; zero means none
	Ends            Moment        // when its context ends; zero means never
	Canceled        bool          // its context has no deadline
	Class           Class         // of its error
	Err             any           // nil, its error, or what else is known about it
	Timeout         time.Duration // the command timeout of its client
}

// floor is how long a command may have no reply before rlock calls that an outage.
func (c *Call) floor() time.Duration { return c.Timeout / 5 }

// limit returns when the attempt has to return, or zero if nothing limits it.
func (c *Call) limit() (end Moment) {
	switch {
	case c.Wait > 0:
		end = c.Asked.Add(max(c.Wait, c.floor()))
	case c.Try && c.Ends == 0:
		end = c.Asked.Add(c.floor())
	case c.Try:
		end = c.Asked.Add(c.Timeout)
	}
	if c.Ends != 0 && (end == 0 || c.Ends < end) {
		end = c.Ends
	}
	return end
}

// Bound checks that an attempt that is limited returns in time: so much after the end of its context, or after its own limit.
func (j Judge) Bound(c Call, afterContext, afterLimit time.Duration) {
	end, slack := c.limit(), afterLimit
	if end == c.Ends {
		slack = afterContext
	}
	if late := c.Answered.Sub(end); end != 0 && late > slack {
		j("late: a call of %v for %s returned %v after its limit, which was %v: %v", c.Who, c.Lock, late, end, c.Err)
	}
}

// Outage checks that something explains an outage that a call reported: troubled reports whether anything disturbed a command between two
// moments. A question that was held up, and that its caller abandoned, fails after the command timeout. Then that is the latest outcome,
// until Redis replies to another question.
func (j Judge) Outage(c Call, troubled func(from, to Moment) bool) {
	if !troubled(c.Asked.Add(-c.Timeout-time.Second), c.Answered) {
		j("error: an outage was reported to %v, but all was well: %v", c.Who, c.Err)
	}
}

// Silence checks an attempt during which Redis was silent, on a lock that nobody else in its process had or wanted: what it is told cannot
// come from Redis, nor from another owner. late is by how much the call may be measured too short.
func (j Judge) Silence(c Call, late time.Duration) {
	ended := c.Ends != 0 && c.Ends <= c.Answered
	switch {
	case c.Class == "":
		j("error: %v got %s although Redis was silent", c.Who, c.Lock)
	case c.Class == Closing:
	case c.Ends != 0 && c.Ends <= c.Asked: // that is all that it says
	case ended && c.Canceled:
		if c.Answered.Sub(c.Asked) < c.floor()-late && c.Class != Neither {
			j("error: a cancellation alone was reported to %v as %s: %v", c.Who, c.Class, c.Err)
		}
	case c.Class != Outage:
		j("error: an outage was reported to %v as %s: %v", c.Who, c.Class, c.Err)
	}
}

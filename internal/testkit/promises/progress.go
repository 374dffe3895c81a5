package promises

import (
	"fmt"
	"time"
)

// WakeUp checks that a lock was not free for too long while somebody waited for it. It reports that.
func (j Judge) WakeUp(lock string, waits Owner, free, limit time.Duration) bool {
	late := free > limit
	if late {
		j("lost wake-up: %s was free for %v while %v waited, which asked at %v", lock, free, waits.Who, waits.Asked)
	}
	return !late
}

// Stray is what Redis keeps for a holder without a cause, as looks at it show. The zero value is nothing.
type Stray struct {
	Holder   string
	From, To Moment
}

// See returns the stray after another look: Redis has a holder at a moment, for which there is a cause or not.
func (s Stray) See(at Moment, holder string, cause bool) Stray {
	switch {
	case cause:
		return Stray{}
	case s.Holder != holder:
		return Stray{holder, at, at}
	}
	s.To = at
	return s
}

// Stray checks that Redis does not keep a lock for long for somebody who no longer has it. It reports that.
func (j Judge) Stray(lock string, s Stray, who fmt.Stringer, limit time.Duration) bool {
	kept := s.To.Sub(s.From)
	if kept > limit {
		j("stray: for %v from %v on, Redis kept %s for %v, which no longer has it, as %s", kept, s.From, lock, who, s.Holder)
	}
	return kept <= limit
}

// Package outcome decides what an attempt to acquire may say when it ends without the lock: that another owner has it, or
// that nobody could say.
package outcome

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
)

// Record is what is known of a lock that some attempts ask for, one question at a time. The zero value knows nothing. It is
// not safe for concurrent use. Each waiter has one, so small fields stand together.
type Record struct {
	refused bool          // the latest reply, unless a question has failed since
	unsent  bool          // the latest question waited for a connection in vain
	unset   bool          // it was refused because nobody has set the semaphore up
	open    int32         // how many questions have had no outcome
	until   clock.Instant // for how long a refusal without a question to Redis stands; zero means that Redis refused
	failure error         // of the latest question that failed, if no refusal followed
	asked   clock.Instant // when the oldest question was sent that has had no outcome; zero means that there is none
	first   uint64        // the number of the first question since there was none
}

// Since returns the record of one question that is sent at a moment.
func Since(sent clock.Instant) (r Record) {
	r.Asked(0, sent)
	return r
}

// Asked notes that the question with a number is sent. A later one has a greater number, unless nobody
// calls Late. A question that its caller abandons keeps its place: Redis has not answered it.
func (r *Record) Asked(number uint64, now clock.Instant) {
	if r.asked == 0 {
		r.asked, r.first = now, number
	}
	r.open++
	r.unsent = false
}

// Unsent notes that the latest question had no connection before its caller left. It is no outcome: it only says why a silence
// was none of Redis's.
func (r *Record) Unsent() { r.unsent = true }

// Answered notes a reply that is neither a refusal nor a failure: the semaphore is set up, and Redis works.
func (r *Record) Answered() { r.asked, r.open, r.unset, r.failure = 0, 0, false, nil }

// Late notes the reply to the question with a number that came after its caller had left. It may be about a moment that is long past, so it
// says only that Redis answers: the silence of other questions counts from now. The question has its outcome, unless it came before all
// that have none. Zero is for a question that was not asked here.
func (r *Record) Late(number uint64, now clock.Instant) {
	if number >= r.first {
		r.open--
	}
	if r.asked = now; r.open <= 0 {
		r.asked, r.open = 0, 0
	}
}

// Refused notes that Redis refused the lock.
func (r *Record) Refused() { *r = Record{refused: true} }

// NotSetUp notes that Redis refused permits of a semaphore that nobody has set up.
func (r *Record) NotSetUp() { *r = Record{refused: true, unset: true} }

// RefusedUntil notes a refusal without a question: another owner of this process holds the lock, and the next question is
// due at that moment. It returns the record.
func (r *Record) RefusedUntil(due clock.Instant) *Record {
	*r = Record{refused: true, until: due}
	return r
}

// Failed notes that a question failed.
func (r *Record) Failed(err error) { *r = Record{failure: err} }

// Open reports whether a question has had no outcome.
func (r *Record) Open() bool { return r.asked != 0 }

// At returns what the record says at a moment. A question without an outcome counts as failed once it is as old as the floor.
// Until then it changes nothing: otherwise the end of a short wait, which mostly cuts a question off, would look like an
// outage.
func (r *Record) At(now clock.Instant, floor time.Duration) Result {
	silent := r.asked != 0 && now.Sub(r.asked) >= floor || r.until != 0 && now.Sub(r.until) >= floor
	switch {
	case r.failure != nil:
		return Result{Err: r.failure}
	case silent:
		return Result{Err: silence(r.unsent)}
	}
	return Result{Refused: r.refused, Unsent: r.unsent && !r.refused, Unset: r.unset}
}

// Result is how an attempt went. The zero value means that nothing is known.
type Result struct {
	Err     error // why nobody could say; nil if the lock was refused
	Refused bool  // another owner has the lock
	Unsent  bool  // nothing is known, and the question waited for a connection in vain
	Unset   bool  // it was refused because nobody has set the semaphore up
}

// Known reports whether anything is known.
func (r Result) Known() bool { return r.Refused || r.Err != nil }

// Silence returns the error of a call that ended before anything was known.
func (r Result) Silence() error { return silence(r.Unsent) }

func silence(unsent bool) error {
	if unsent {
		return fault.ErrNoConnection
	}
	return fault.ErrNoAnswer
}

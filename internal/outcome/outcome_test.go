package outcome

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
)

const (
	floor = 3 * time.Second
	start = clock.Instant(time.Minute)
)

func TestResult(t *testing.T) {
	t.Parallel()
	refused, unknown := Result{Refused: true}, Result{}
	failed, silent := Result{Err: io.EOF}, Result{Err: fault.ErrNoAnswer}
	at := func(seconds int) clock.Instant { return start.Add(time.Duration(seconds) * time.Second) }
	for what, c := range map[string]struct {
		happens func(r *Record)
		at      int
		want    Result
	}{
		"nothing was asked":                 {func(*Record) {}, 100, unknown},
		"the first question is young":       {func(r *Record) { r.Asked(1, at(0)) }, 2, unknown},
		"the first question is as old as f": {func(r *Record) { r.Asked(1, at(0)) }, 3, silent},
		"a refusal stands":                  {func(r *Record) { r.Asked(1, at(0)); r.Refused() }, 100, refused},
		"a younger question changes nothing": {
			func(r *Record) { r.Asked(1, at(0)); r.Refused(); r.Asked(2, at(10)) }, 12, refused,
		},
		"a younger question has had no reply for f": {
			func(r *Record) { r.Asked(1, at(0)); r.Refused(); r.Asked(2, at(10)) }, 13, silent,
		},
		"a younger question failed": {
			func(r *Record) { r.Asked(1, at(0)); r.Refused(); r.Asked(2, at(10)); r.Failed(io.EOF) }, 10, failed,
		},
		"a refusal after a failure": {
			func(r *Record) { r.Failed(io.EOF); r.Asked(1, at(10)); r.Refused() }, 100, refused,
		},
		"a failure stays while the next question is on its way": {
			func(r *Record) { r.Failed(io.EOF); r.Asked(1, at(10)) }, 100, failed,
		},
		"questions that are abandoned one after the other": {
			func(r *Record) { r.Refused(); r.Asked(1, at(10)); r.Asked(2, at(11)); r.Asked(3, at(12)) }, 13, silent,
		},
		"a late reply": {
			func(r *Record) { r.Refused(); r.Asked(1, at(10)); r.Asked(2, at(11)); r.Late(1, at(13)) }, 15, refused,
		},
		"a late reply, and f of silence of another question": {
			func(r *Record) { r.Refused(); r.Asked(1, at(10)); r.Asked(2, at(11)); r.Late(1, at(12)) }, 15, silent,
		},
		"a late reply to the only question": {
			func(r *Record) { r.Refused(); r.Asked(1, at(10)); r.Late(1, at(12)) }, 100, refused,
		},
		"a late reply that says nothing": {
			func(r *Record) { r.Asked(1, at(10)); r.Late(1, at(12)) }, 100, unknown,
		},
		"late replies to questions of before a refusal": {
			func(r *Record) { r.Asked(1, at(1)); r.Refused(); r.Late(1, at(2)); r.Asked(2, at(10)) }, 13, silent,
		},
		"late replies to questions of before a refusal, and a later question": {
			func(r *Record) { r.Asked(1, at(1)); r.Refused(); r.Asked(2, at(10)); r.Late(1, at(11)) }, 14, silent,
		},
		"a late reply to a question of before a refusal says that Redis answers": {
			func(r *Record) { r.Asked(1, at(1)); r.Refused(); r.Asked(2, at(10)); r.Late(1, at(12)) }, 14, refused,
		},
		"a late reply to a question that was asked elsewhere": {
			func(r *Record) { r.Refused(); r.Asked(1, at(10)); r.Late(0, at(11)) }, 14, silent,
		},
		"late replies to two questions, in another order": {
			func(r *Record) {
				r.Refused()
				r.Asked(1, at(10))
				r.Asked(2, at(10))
				r.Late(2, at(11))
				r.Late(1, at(11))
			}, 100, refused,
		},
		"a reply that says nothing about the lock": {
			func(r *Record) { r.Refused(); r.Asked(1, at(10)); r.Answered() }, 100, refused,
		},
		"a failure, and a reply since that says nothing about the lock": {
			func(r *Record) { r.Failed(io.EOF); r.Asked(1, at(10)); r.Answered() }, 100, unknown,
		},
		"a local refusal, before the hold's deadline": {func(r *Record) { r.RefusedUntil(at(10)) }, 9, refused},
		"a local refusal, a moment after it":          {func(r *Record) { r.RefusedUntil(at(10)) }, 12, refused},
		"a local refusal on which nobody can rely":    {func(r *Record) { r.RefusedUntil(at(10)) }, 13, silent},
		"a failure after a local refusal": {
			func(r *Record) { r.RefusedUntil(at(10)); r.Failed(io.EOF) }, 5, failed,
		},
		"a question after a local refusal": {
			func(r *Record) { r.RefusedUntil(at(10)); r.Asked(1, at(10)) }, 12, refused,
		},
		"no connection":          {func(r *Record) { r.Asked(1, at(0)); r.Unsent() }, 2, Result{Unsent: true}},
		"no connection for long": {func(r *Record) { r.Asked(1, at(0)); r.Unsent() }, 3, Result{Err: fault.ErrNoConnection}},
		"a question that was sent, after one that was not": {func(r *Record) { r.Asked(1, at(0)); r.Unsent(); r.Asked(2, at(1)) }, 3, silent},
		"no connection after a refusal": {
			func(r *Record) { r.Refused(); r.Asked(1, at(0)); r.Unsent() }, 2, refused,
		},
		"Redis refuses after a local refusal": {
			func(r *Record) { r.RefusedUntil(at(10)); r.Asked(1, at(10)); r.Refused() }, 100, refused,
		},
	} {
		var r Record
		c.happens(&r)
		got := r.At(at(c.at), floor)
		require.Equal(t, c.want, got, what)
		require.Equal(t, c.want.Refused || c.want.Err != nil, got.Known(), what)
	}
}

// TestEveryStory compares the record with the rule, for every order of six events. The rule is stated as the decision is: a
// refusal stands until a later question fails, or has had no reply for the floor.
func TestEveryStory(t *testing.T) {
	t.Parallel()
	const events, length = 5, 6
	stories := 1
	for range length {
		stories *= events
	}
	for story := range stories {
		var r Record
		var refusedAt, failedAt, askedAt, due int // the second of the latest, or -1
		refusedAt, failedAt, askedAt, due = -1, -1, -1, -1
		told := ""
		for second, rest := 0, story; second < length; second, rest = second+1, rest/events {
			now := start.Add(time.Duration(second) * time.Second)
			switch rest % events {
			case 0:
				told += " asks"
				r.Asked(1, now)
				if askedAt < 0 {
					askedAt = second
				}
			case 1:
				told += " refused"
				r.Refused()
				refusedAt, askedAt, due = second, -1, -1
			case 2:
				told += " fails"
				r.Failed(io.EOF)
				failedAt, askedAt, due = second, -1, -1
			case 3:
				told += " held-here"
				due = second + 1
				r.RefusedUntil(start.Add(time.Duration(due) * time.Second))
				refusedAt, askedAt = second, -1
			default:
				told += " waits"
			}
			silence := func(since int) bool { return since >= 0 && second-since >= int(floor/time.Second) }
			want := Result{Refused: refusedAt >= 0}
			switch {
			case failedAt > refusedAt:
				want = Result{Err: io.EOF}
			case silence(askedAt), silence(due):
				want = Result{Err: fault.ErrNoAnswer}
			}
			require.Equal(t, want, r.At(now, floor), fmt.Sprintf("after%s", told))
		}
	}
}

package snippets

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// Prelude has what the statements of the documents take for granted: each field is a variable, whose name begins with a small letter.
type Prelude struct {
	Addr  string // of Redis
	Ctx   context.Context
	Rdb   *redis.Client
	Locks *rlock.Client

	Lock, Other *rlock.Lock
	Election    *rlock.Election
	Signals     *rlock.PlainSemaphore // with one signal

	Job, Work, Report, Export func(context.Context) error
	Schedule                  func(context.Context, rlock.Token) error
	WarmUp                    func()
	Busy                      func(tenant string) error
	Tenant, Deployment        string
	Workers                   int64

	Queue  Queue
	Ticket string // of no hold
	Ship   func(ctx context.Context, order int, token rlock.Token) error

	taken string // the case that a switch has taken
}

// Queue takes jobs.
type Queue struct{}

// Add adds a job with a ticket.
func (Queue) Add(ctx context.Context, job, ticket string) error {
	if job == "" || ticket == "" {
		return errors.New("a job has a text and a ticket")
	}
	return ctx.Err()
}

// aLongTime is how long a snippet may take.
const aLongTime = 20 * time.Second

// Run runs a snippet on an embedded server.
func Run(t *testing.T, where string, snippet func(*testing.T, *Prelude) error) {
	t.Helper()
	t.Parallel()
	p := prelude(t, redistest.Embedded(t))
	require.NoError(t, p.Signals.Release(p.Ctx, 1))
	if err := snippet(t, p); err != nil {
		t.Errorf("%s: %v", where, err)
	}
}

// prelude returns the variables of a snippet. What is behind them ends with the test.
func prelude(t *testing.T, rdb *redis.Client, options ...rlock.Option) *Prelude {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), aLongTime)
	t.Cleanup(cancel)
	locks, err := rlock.New(rdb, options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	work := func(ctx context.Context) error { return context.Cause(ctx) }
	return &Prelude{
		Addr: rdb.Options().Addr, Ctx: ctx, Rdb: rdb, Locks: locks,
		Lock: locks.NewLock("invoice:42"), Other: locks.NewLock("invoice:43"),
		Election: locks.NewElection("shop:scheduler"), Signals: locks.NewPlainSemaphore("signals"),
		Job: work, Work: work, Report: work, Export: work,
		Schedule: func(ctx context.Context, _ rlock.Token) error { return context.Cause(ctx) },
		WarmUp:   func() {},
		Busy:     func(string) error { return errors.New("busy") },
		Tenant:   "tenant", Deployment: "deployment", Workers: 1,
		Ship: func(ctx context.Context, _ int, _ rlock.Token) error { return context.Cause(ctx) },
	}
}

// Results returns a function that compares the results of a statement with those that its comment names. A comment that names one
// means the first of several, or the error, which is the last.
func Results(t *testing.T, where string, want ...any) func(got ...any) {
	t.Helper()
	return func(got ...any) {
		t.Helper()
		its := got
		if _, first := want[0].(bool); len(want) == 1 && first {
			its = got[:1]
		} else if len(want) == 1 {
			its = got[len(got)-1:]
		}
		same := len(its) == len(want)
		for i := 0; same && i < len(want); i++ {
			target, isError := want[i].(error)
			err, _ := its[i].(error)
			same = its[i] == want[i] || isError && errors.Is(err, target)
		}
		if !same {
			t.Errorf("%s: the comment says %v, and the statement returned %v", where, want, got)
		}
	}
}

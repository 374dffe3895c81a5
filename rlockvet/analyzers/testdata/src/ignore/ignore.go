// Package ignore has findings that nobody wants.
package ignore

import (
	"context"
	"testing"

	"github.com/go-rlock/rlock"
)

func ignored(ctx context.Context, lock *rlock.Lock) {
	lock.Acquire(ctx) //rlockvet:ignore rlockhold the process ends here
	//rlockvet:ignore rlockhold the process ends here
	lock.Acquire(ctx)
}

func notIgnored(ctx context.Context, lock *rlock.Lock) {
	lock.Acquire(ctx) /* want `the hold is dropped` */ //rlockvet:ignore rlockctx the name of another analyzer
	//rlockvet:ignore rlockhold
	lock.Acquire(ctx) // want `the hold is dropped`
	// rlockvet:ignore rlockhold a directive has no space
	lock.Acquire(ctx) // want `the hold is dropped`
	//rlockvet:ignore rlockhold two lines before

	lock.Acquire(ctx) // want `the hold is dropped`
}

// helper is for tests, which may do this on purpose.
func helper(tb testing.TB, lock *rlock.Lock) {
	lock.Acquire(tb.Context())
}

type fixture struct {
	*testing.T
	lock *rlock.Lock
}

func (f *fixture) method() {
	func() { f.lock.Acquire(f.Context()) }()
}

type notATest struct{ lock *rlock.Lock }

func (n notATest) method(ctx context.Context) {
	n.lock.Acquire(ctx) // want `the hold is dropped`
}

package ignore

import (
	"context"

	"github.com/go-rlock/rlock"
)

func inTest(lock *rlock.Lock) {
	lock.Acquire(context.Background())
}

package owner

import (
	"context"

	"github.com/go-rlock/rlock"
)

func calledInTests(ctx context.Context, lock *rlock.Lock) error {
	return handler(rlock.WithOwner(ctx), lock)
}

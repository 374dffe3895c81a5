package fix

import (
	"context"

	"github.com/go-rlock/rlock"
)

func work(ctx context.Context) error { return nil }

func pay(ctx context.Context, lock *rlock.Lock) error {
	ctx = rlock.WithOwner(ctx) // want `WithOwner in pay`
	return lock.Do(ctx, work)
}

func order(ctx context.Context, lock, other *rlock.Lock) error {
	return lock.Do(ctx, func(ctx context.Context) error { return pay(ctx, other) })
}

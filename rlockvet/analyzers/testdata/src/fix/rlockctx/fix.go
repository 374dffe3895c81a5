package fix

import (
	"context"
	"net/http"

	"github.com/go-rlock/rlock"
)

func save(ctx context.Context, n int) error { return nil }

func unnamed(ctx context.Context, lock *rlock.Lock) error {
	return lock.Do(ctx, func(context.Context) error {
		if err := save(ctx, 1); err != nil { // want `ctx within Do`
			return err
		}
		return save(ctx, 2) // want `ctx within Do`
	})
}

func blank(ctx context.Context, lock *rlock.Lock) error {
	return lock.Do(ctx, func(_ context.Context) error { return save(ctx, 1) }) // want `ctx within Do`
}

func named(r *http.Request, lock *rlock.Lock) error {
	return lock.Do(r.Context(), func(held context.Context) error {
		return save(r.Context(), 1) // want `r.Context\(\) within Do`
	})
}

// Where the change would do more than it should, there is none.
func notFixed(ctx, other context.Context, lock *rlock.Lock) error {
	if err := lock.Do(ctx, func(context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return save(ctx, 1) // want `ctx within Do`
	}); err != nil {
		return err
	}
	if err := lock.Do(ctx, func(held context.Context) error {
		if held := 2; held > 1 {
			return save(ctx, held) // want `ctx within Do`
		}
		return save(held, 1)
	}); err != nil {
		return err
	}
	return (&rlock.Election{}).Run(ctx, func(context.Context, rlock.Token) error {
		return save(ctx, 1) // want `ctx within Run`
	})
}

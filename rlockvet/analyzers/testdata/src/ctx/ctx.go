package ctx

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-rlock/rlock"
)

type shop struct {
	locks *rlock.Client
	lock  *rlock.Lock
	base  context.Context
	db    *sql.DB
}

func save(ctx context.Context, n int) error      { return nil }
func load(ctx context.Context) (int, error)      { return 0, nil }
func ping(ctx context.Context)                   {}
func retry(ctx context.Context, fn func() error) {}
func later(fn func() error)                      {}

// Without a name for the context of the function, the outer one is used by mistake.
func unnamed(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(context.Context) error {
		return save(ctx, 1) // want `^ctx within Do is the context of the caller, which does not end when the lock is lost: pass on the context that its function gets$`
	})
}

func blank(ctx context.Context, s *shop) (bool, error) {
	return s.lock.TryDo(ctx, func(_ context.Context) error {
		ping(ctx)           // want `ctx within TryDo is the context of the caller`
		return save(ctx, 1) // want `ctx within TryDo`
	}, rlock.AtLeast(time.Minute))
}

func named(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		if err := save(held, 1); err != nil {
			return err
		}
		return save(ctx, 2) // want `ctx within Do is the context of the caller, which does not end when the lock is lost: pass on held`
	})
}

func derived(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		short, cancel := context.WithTimeout(ctx, time.Second) // want `ctx within Do .* pass on held`
		defer cancel()
		return save(short, 1)
	})
}

// The context of the section is derived from the one that is used.
func parent(ctx context.Context, s *shop) error {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.lock.Do(rlock.WithOwner(ctx), func(held context.Context) error {
		return save(ctx, 1) // want `ctx within Do`
	}); err != nil {
		return err
	}
	return s.lock.Do(short, func(held context.Context) error {
		return save(ctx, 1) // want `ctx within Do`
	})
}

func request(w http.ResponseWriter, r *http.Request, s *shop) {
	err := s.lock.Do(r.Context(), func(ctx context.Context) error {
		_, err := s.db.ExecContext(r.Context(), "UPDATE stock") // want `r.Context\(\) within Do .* pass on ctx`
		return err
	})
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	ctx := r.Context()
	_ = s.lock.Do(ctx, func(held context.Context) error {
		return save(r.Context(), 1) // want `r.Context\(\) within Do`
	})
}

func field(s *shop) error {
	return s.lock.Do(s.base, func(ctx context.Context) error {
		return save(s.base, 1) // want `s.base within Do`
	})
}

func count(ctx context.Context, n int) int { return n }

func withoutError(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		_ = count(ctx, 1) // want `ctx within Do`
		return nil
	})
}

func closures(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		retry(held, func() error { return save(ctx, 1) }) // want `ctx within Do`
		func() {
			ping(ctx) // want `ctx within Do`
		}()
		return nil
	})
}

func value(ctx context.Context, s *shop) (int, error) {
	return rlock.DoValue(ctx, s.lock, func(held context.Context) (int, error) {
		return load(ctx) // want `ctx within DoValue`
	})
}

func leader(ctx context.Context, s *shop) error {
	return s.locks.NewElection("shop:leader").Run(ctx, func(held context.Context, term rlock.Token) error {
		return save(ctx, int(term)) // want `ctx within Run`
	})
}

func permit(ctx context.Context, sem *rlock.Semaphore) error {
	return sem.Do(ctx, func(held context.Context) error {
		return save(ctx, 1) // want `ctx within Do`
	}, rlock.Permits(2))
}

// An interface of the user, as docs/guide/testing.md has it.
type locker interface {
	Do(ctx context.Context, fn func(ctx context.Context) error, opts ...rlock.AcquireOption) error
}

func byInterface(ctx context.Context, l locker, a *rlock.RedLock) error {
	_ = a.Do(ctx, func(held context.Context) error {
		return save(ctx, 1) // want `ctx within Do`
	})
	return l.Do(ctx, func(held context.Context) error {
		return save(ctx, 1) // want `ctx within Do`
	})
}

func nested(ctx context.Context, s *shop, other *rlock.Lock) error {
	return s.lock.Do(ctx, func(outer context.Context) error {
		_ = other.Do(ctx, func(inner context.Context) error { // want `ctx within Do is the context of the caller, which does not end`
			return save(ctx, 1) // want `ctx within Do .* pass on inner`
		})
		return other.Do(outer, func(inner context.Context) error {
			return save(outer, 1) // want `outer within Do .* pass on inner`
		})
	})
}

func itself(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewLock("invoice:42")
	return lock.Do(ctx, func(held context.Context) error {
		if _, ok := rlock.HoldFrom(ctx, lock); ok { // want `ctx within Do`
			return nil
		}
		if _, err := lock.TryLock(ctx); err != nil { // want `ctx within Do is the context of the caller, which does not end`
			return err
		}
		if err := locks.NewLock("invoice:43").Lock(ctx); err != nil { // want `which does not end when the lock is lost`
			return err
		}
		return lock.Lock(ctx) // want `ctx within Do is the context of the caller, which waits for the lock that Do holds, unless it has an owner: pass on held`
	})
}

func readers(ctx context.Context, locks *rlock.Client) error {
	read := locks.NewRWLock("config").Reader()
	return read.Do(ctx, func(held context.Context) error {
		return read.Lock(ctx) // want `which does not end when the lock is lost`
	})
}

// From here on, all is as it should be.

func shadowed(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return save(ctx, 1)
	})
}

func copied(ctx context.Context, s *shop) error {
	err := s.lock.Do(ctx, func(held context.Context) error {
		ctx := held
		return save(ctx, 1)
	})
	if err != nil {
		return save(ctx, 2)
	}
	return s.lock.Do(ctx, func(held context.Context) error {
		ctx = context.WithValue(held, "key", "value")
		return save(ctx, 1)
	})
}

func asks(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-held.Done():
			return context.Cause(held)
		default:
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, late := ctx.Deadline(); late {
			println(context.Cause(ctx))
		}
		stop := context.AfterFunc(ctx, func() {})
		defer stop()
		return save(context.WithoutCancel(ctx), 1)
	})
}

type span struct{}

func spanOf(ctx context.Context) *span                     { return nil }
func LoggerFromContext(ctx context.Context) (*span, error) { return nil, nil }
func logf(ctx context.Context, format string, args ...any) {}

func logs(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		slog.InfoContext(ctx, "paying")
		_ = slog.Default().Enabled(ctx, slog.LevelDebug)
		logf(ctx, "paying %d", 42)
		_ = spanOf(ctx)
		_, _ = LoggerFromContext(ctx)
		return save(held, 1)
	})
}

// What has to work after a loss must not have the context of the hold.
func failure(ctx context.Context, s *shop, other *rlock.Lock) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		defer save(ctx, 0)
		defer func() { _ = save(ctx, 0) }()
		tx, err := s.db.BeginTx(held, nil)
		if err != nil {
			return errors.Join(err, save(ctx, 0))
		}
		if err := save(held, 1); err != nil {
			_ = save(ctx, 0)
			return err
		}
		switch err := save(held, 1); {
		case errors.Is(err, sql.ErrNoRows):
			return save(ctx, 0)
		}
		select {
		case <-held.Done():
			return save(ctx, 0)
		default:
		}
		_ = other.Unlock(ctx) // uses only the values
		return tx.Commit()
	})
}

// What goes on after the section must not have the context of the hold.
func goesOn(ctx context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		go ping(ctx)
		go func() { _ = save(ctx, 1) }()
		context.AfterFunc(held, func() { ping(ctx) })
		time.AfterFunc(time.Second, func() { ping(ctx) })
		later(func() error { return save(ctx, 1) })
		return nil
	})
}

func unrelated(ctx, base context.Context, s *shop) error {
	return s.lock.Do(ctx, func(held context.Context) error {
		return save(base, 1)
	})
}

// These functions are not those of rlock.
type group struct{}

func (group) Do(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

func foreign(ctx context.Context, g group) error {
	return g.Do(ctx, func(inner context.Context) error { return save(ctx, 1) })
}

func latch(ctx context.Context, l *rlock.CountDownLatch) error {
	return l.Await(ctx)
}

package torture

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// application is what a process has around its redis client: a wrapper, a hook and a log handler. They are drawn from the seed of its site.
type application struct {
	mu      sync.Mutex
	random  *rand.Rand
	wrapper func(redis.UniversalClient) redis.UniversalClient // nil means none
	panics  bool                                              // its code does so at times
	repeats bool                                              // its hook runs scripts again at times
	doubt   func(Moment)                                      // is told when it leaves the outcome of scripts open
}

// embedding is a client in a struct, of which it overrides nothing.
type embedding struct{ redis.UniversalClient }

// wrapping is a client that says which one it has inside.
type wrapping struct{ redis.UniversalClient }

func (w wrapping) Unwrap() redis.UniversalClient { return w.UniversalClient }

// application draws that of the site. Its code panics only in a process of its own, whose end this process would survive and report.
func (s Site) application(doubt func(Moment)) *application {
	a := &application{random: rand.New(rand.NewPCG(s.Seed, 3<<32)), doubt: doubt}
	a.wrapper = []func(redis.UniversalClient) redis.UniversalClient{
		nil, func(rdb redis.UniversalClient) redis.UniversalClient { return embedding{rdb} },
		func(rdb redis.UniversalClient) redis.UniversalClient { return wrapping{embedding{rdb}} },
	}[a.random.IntN(3)]
	a.panics, a.repeats = a.random.IntN(2) == 0 && s.Apart, a.random.IntN(2) == 0
	return a
}

// around returns a client as the application gives it to rlock.
func (a *application) around(rdb redis.UniversalClient) redis.UniversalClient {
	if connect.Driver != "go-redis" {
		return rdb
	}
	rdb.AddHook(a)
	if a.wrapper != nil {
		return a.wrapper(rdb)
	}
	return rdb
}

// one reports whether a thing happens that does once in n times.
func (a *application) one(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.random.IntN(n) == 0
}

// DialHook implements [redis.Hook].
func (a *application) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (a *application) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a.run(func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (a *application) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a.run(func() error { return next(ctx, cmds) }, cmds...)
	}
}

// run runs scripts, now and then twice, or with a panic before or after. Other commands may be those with which go-redis makes
// connections, in goroutines of its own, where rlock can recover nothing.
func (a *application) run(next func() error, cmds ...redis.Cmder) error {
	if !slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "evalsha" || c.Name() == "eval" }) {
		return next()
	}
	fails, again := a.panics && a.one(300), a.repeats && a.one(100)
	if fails || again {
		a.doubt(now())
	}
	if fails && a.one(2) {
		panic(errOwn)
	}
	err := next()
	if fails {
		panic(errOwn)
	}
	if !again {
		return err
	}
	if a.one(2) {
		for _, cmd := range cmds {
			if c, ok := cmd.(interface{ SetVal(any) }); ok {
				c.SetVal(nil) // as if the reply had been lost
			}
		}
	}
	return next()
}

// logger returns the log of the application.
func (a *application) logger() *slog.Logger {
	if a.panics {
		return slog.New(a)
	}
	return slog.New(slog.DiscardHandler)
}

// Enabled implements [slog.Handler].
func (a *application) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (a *application) Handle(context.Context, slog.Record) error {
	if a.one(2) {
		panic(errOwn)
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (a *application) WithAttrs([]slog.Attr) slog.Handler { return a }

// WithGroup implements [slog.Handler].
func (a *application) WithGroup(string) slog.Handler { return a }

package client

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Text returns the kind and the name of a lock, or that there is none. what is what the caller calls its kind; empty means the kind's own word.
func (l *Lock) Text(what string) string {
	if l.Client() == nil {
		return "no " + cmp.Or(what, "lock")
	}
	return cmp.Or(what, l.h.Kind.What()) + " " + fault.Quote(l.h.Name)
}

// LogValue implements [slog.LogValuer] with the name and the kind, or that there is no lock.
func (l *Lock) LogValue() slog.Value {
	if l.Client() == nil {
		return slog.StringValue("no lock")
	}
	return slog.GroupValue(slog.String("name", fault.Cut(l.h.Name)), slog.String("kind", l.h.Kind.Name()))
}

// Inspection is what Redis has of a lock, and what the clients of its holders and waiters say about themselves.
type Inspection struct {
	wire.Info
	Identities map[string]wire.Identity // by the id of the client; those that say nothing are missing, or have a zero one
}

// Inspect asks Redis who holds the lock and who waits for it: see the root package.
func (l *Lock) Inspect(ctx context.Context) (Inspection, error) {
	const op = "inspect"
	if err := l.Check(op); err != nil {
		return Inspection{}, err
	}
	if ctx.Err() != nil {
		return Inspection{}, l.named(EndOf(ctx), op)
	}
	if !l.client.tasks.Begin() {
		return Inspection{}, l.wrap(fault.ErrClosed, op)
	}
	defer l.client.tasks.End()
	type answer struct {
		info wire.Info
		err  error
	}
	var lent driver.Lent
	lent.Lend(ctx)
	defer lent.End()
	asked, named := make(chan answer, 1), make(chan map[string]wire.Identity, 1)
	l.client.Background(func() { // the commands may take longer than ctx
		defer close(named)
		info, err := l.look(&lent)
		asked <- answer{info, err}
		if err == nil {
			named <- l.client.identities(&lent, &info)
		}
	})
	var a answer
	select {
	case a = <-asked:
	case <-ctx.Done():
		return Inspection{}, l.named(EndOf(ctx), op)
	}
	if a.err != nil {
		return Inspection{}, l.wrap(a.err, op)
	}
	select {
	case who := <-named:
		return Inspection{a.info, who}, nil
	case <-ctx.Done(): // what is known counts
		return Inspection{Info: a.info}, nil
	}
}

// look asks for what Redis has of the lock. A user who has no right to the waiters sees none.
func (l *Lock) look(ctx context.Context) (wire.Info, error) {
	command := func(waiters bool) []any {
		if l.turns != nil {
			keys, _ := l.turns.Keys(l.h.Key.Name)
			if !waiters {
				keys[1] = keys[0] // which is no line
			}
			if !l.h.Kind.Tokens {
				keys = keys[:2]
			}
			return wire.InfoCommand(keys...)
		}
		return l.h.Kind.InfoCommand(l.h.Names(), waiters)
	}
	reply, err := l.client.raw(ctx, l.h.Key.Name, command(true))
	if err.Denied() {
		reply, err = l.client.raw(ctx, l.h.Key.Name, command(false))
	}
	if err != nil {
		return wire.Info{}, err
	}
	return wire.ParseInfo(reply)
}

// raw sends a command other than a script to the node that has its key. The end of ctx does not end it.
func (c *Client) raw(ctx context.Context, key string, cmd []any) (any, *fault.Error) {
	ctx = context.WithoutCancel(ctx)
	var reply any
	node, err := c.driver.Node(ctx, key)
	if err == nil {
		reply, err = c.driver.Raw(ctx, node, cmd...)
	}
	if err != nil && (err.Code == "MOVED" || err.Code == "ASK") {
		reply, err = c.driver.Raw(ctx, nil, cmd...) // which follows
	}
	return reply, err
}

package torture

import (
	"context"

	"github.com/go-rlock/rlock"
)

// outlived is a context that carries holds that are over. Several workers use it at the same time, and must not be one owner.
type outlived struct {
	ctx   context.Context //nolint:containedctx // that of a past hold
	holds int
}

// twofold is a context that has the values of another one, as if code passed on both.
type twofold struct {
	context.Context                 //nolint:containedctx // it is one
	values          context.Context //nolint:containedctx // has them
}

// Value returns that of the other context first.
func (w twofold) Value(key any) any {
	if value := w.values.Value(key); value != nil {
		return value
	}
	return w.Context.Value(key)
}

// outlive lets a turn use the context of a hold of its name that is over, now and then.
func (s *section) outlive(ctx context.Context) context.Context {
	s.past = nil
	if past, ok := s.outlived.Load(s.Names[0]); ok && s.random.IntN(3) == 0 {
		s.past, _ = past.(*outlived)
		return twofold{ctx, s.past.ctx}
	}
	return ctx
}

// leaves leaves the context of a hold behind that is over.
func (s *section) leaves(hold *rlock.Hold) {
	holds := 1
	if s.past != nil {
		holds += s.past.holds
	}
	if holds > 3 || s.counts() || s.share.Names[0] == fresh { // a longer chain would keep ever more holds in memory
		return
	}
	// The workers of a site use it for a while, so that several do at a time.
	if past := (&outlived{context.WithoutCancel(hold.Context()), holds}); s.random.IntN(30) == 0 {
		s.outlived.Store(s.Names[0], past)
	} else {
		s.outlived.LoadOrStore(s.Names[0], past)
	}
}

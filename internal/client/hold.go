package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
)

type ownerKey struct{}

// holdsKey is the key of the hold that a context has got last, of any lock.
type holdsKey struct{}

// carried returns the hold that a context has got last, or nil.
func carried(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdsKey{}).(*Hold)
	return h
}

// WithOwner returns a context with a new owner.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, new(owner.Owner))
}

// OwnerOf returns the owner that WithOwner or EnsureOwner put into ctx, or nil.
func OwnerOf(ctx context.Context) *owner.Owner {
	switch o := ctx.Value(ownerKey{}).(type) {
	case *owner.Owner:
		return o
	case *ensured:
		return &o.owner
	}
	return nil
}

// hidingOwner returns the owner that hides the holds outside it: that of [OwnerOf] if WithOwner made it, else nil.
func hidingOwner(ctx context.Context) *owner.Owner {
	o, _ := ctx.Value(ownerKey{}).(*owner.Owner)
	return o
}

// Who returns for whom ctx stands when it asks for this lock. A hold of this lock counts until it is closed, unless WithOwner
// created an owner within the hold. So does a hold of the other side of the name.
func (l *Lock) Who(ctx context.Context) owner.Who {
	w := owner.Who{Owner: OwnerOf(ctx)}
	if ctx.Value(holdsKey{}) == nil { // cheaper to look for than the hold of one lock
		return w
	}
	for hold := range holdsOf(ctx, l.h.Key) {
		if closed := hold.of.Closed(); !closed.Load() {
			w.Holds = append(w.Holds, owner.Claim{Owner: hold.of.OwnerOf(l.h.Key), Closed: closed})
		}
	}
	return w
}

// Hold is one acquisition of a lock or of a group, as its caller has it. The zero value is a hold that is over. It is safe
// for concurrent use.
type Hold struct {
	of      Held
	created *owner.Owner    // made by WithOwner in the context that acquired; another one was created within the hold
	parent  context.Context //nolint:containedctx // Context is derived from it when it is asked for

	mu       sync.Mutex
	ctx      context.Context //nolint:containedctx // what Context returned
	id       string          // see [Hold.ID]
	unlocked bool
}

// Init makes the zero Hold the hold of an acquisition that was made with ctx.
func (h *Hold) Init(ctx context.Context, of Held) {
	h.of, h.parent = of, ctx
	defer func() { _ = recover() }() // of a method of the user's context: the lock is held, and must not be left behind
	h.created = hidingOwner(ctx)
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (h *Hold) valid() bool { return h != nil && h.of != nil }

// Context returns a child of the context that acquired. It ends when the hold is over, and carries the hold.
func (h *Hold) Context() context.Context {
	if !h.valid() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(fault.ErrNotHeld)
		return ctx
	}
	if b, ok := h.of.(borrowed); ok {
		return b.from.Context()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx != nil {
		return h.ctx
	}
	ctx, cancel := context.WithCancelCause(h.parent)
	ctx = context.WithValue(ctx, holdsKey{}, h)
	h.ctx = h.carriedFor(ctx, h.of.Locks())
	if err := h.of.Notify(cancel); err != nil {
		cancel(err)
	}
	return h.ctx
}

// carriedFor returns a context that carries the hold for each of these locks.
func (h *Hold) carriedFor(ctx context.Context, locks []*Lock) context.Context {
	if len(locks) == 0 {
		return ctx
	}
	return h.carriedFor(context.WithValue(ctx, locks[0].h.Key, h), locks[1:])
}

// Done returns a channel that is closed when the hold is over.
func (h *Hold) Done() <-chan struct{} {
	if !h.valid() {
		return closedChan
	}
	return h.of.Done()
}

// Err returns nil while the lock is held, and then why it is not.
func (h *Hold) Err() error {
	if !h.valid() {
		return fault.ErrNotHeld
	}
	return h.of.Err()
}

// Deadline returns when the lock is no longer guaranteed.
func (h *Hold) Deadline() time.Time {
	if !h.valid() {
		return time.Time{}
	}
	return h.of.Deadline()
}

// String implements [fmt.Stringer].
func (h *Hold) String() string {
	if !h.valid() {
		return "no hold"
	}
	s := "hold of " + cmp.Or(descriptionOf(h.of), h.of.Locks()[0].Text(""))
	if token := h.Token(); token != 0 {
		s += fmt.Sprint(" with token ", token)
	}
	return s
}

// LogValue implements [slog.LogValuer].
func (h *Hold) LogValue() slog.Value {
	if !h.valid() {
		return slog.StringValue("no hold")
	}
	attrs := append(make([]slog.Attr, 0, 3), slog.String("name", nameOf(h.of)))
	if token := h.Token(); token != 0 {
		attrs = append(attrs, slog.Uint64("token", token))
	}
	return slog.GroupValue(append(attrs, slog.Time("deadline", h.Deadline()))...)
}

// nameOf returns the name of a lock, or the description of a group, for a log line.
func nameOf(of Held) string {
	return cmp.Or(descriptionOf(of), fault.Cut(of.Locks()[0].Name()))
}

// descriptionOf returns the description of a group, and nothing for a lock.
func descriptionOf(of Held) string {
	if group, ok := of.(interface{ Description() string }); ok {
		return group.Description()
	}
	return ""
}

// Token returns the fencing token, or 0.
func (h *Hold) Token() uint64 {
	if !h.valid() {
		return 0
	}
	return h.of.Token()
}

// PermitIDs returns the ids of the permits, or nil for other holds.
func (h *Hold) PermitIDs() []string {
	if !h.valid() {
		return nil
	}
	if of, ok := h.of.(interface{ PermitIDs() []string }); ok {
		return of.PermitIDs()
	}
	return nil
}

// Unlock ends the hold.
func (h *Hold) Unlock(ctx context.Context) error {
	if !h.valid() {
		return &fault.OpError{Op: "unlock", What: "of a nil or zero Hold", Err: fault.ErrNotHeld}
	}
	h.forget()
	return h.of.Unlock(ctx)
}

package rlock

import (
	"context"
	"slices"
	"sync"
)

// owner stands for the thread that Redisson's locks belong to. It is known by its address.
type owner struct {
	// of is the one possession it has, if it is that one's own. Guarded by client.mu.
	of *possession

	mu   sync.Mutex
	more *belongings // guarded by mu; nil: none yet
}

// belongings are what only few owners have.
type belongings struct {
	// lost has the possessions that this owner lost and has not unlocked yet. They live as long as whoever holds the
	// owner's context, and need no place in the client.
	lost map[lockKey]*possession
	// groups has what this owner locked through groups of locks and has not unlocked yet, in that order.
	groups []*groupEntry
}

// belongings requires mu.
func (o *owner) belongings() *belongings {
	if o.more == nil {
		o.more = &belongings{lost: make(map[lockKey]*possession)}
	}
	return o.more
}

type ownerKey struct{}

// holdsKey is in a context that carries a hold of any lock.
type holdsKey struct{}

// WithOwner returns a context that owns locks: whoever locks with it, or with a context derived from it, is one and
// the same holder of every lock, as one thread is in Java. Each call mints a new owner, also within another one.
//
// Goroutines that share an owner do not exclude each other, so call it where a goroutine or a request begins, not
// where a function locks. Without an owner, each acquisition is an owner of its own.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, new(owner))
}

// ownerIn returns the owner that ctx stands for when it asks for this lock, or nil if it is none. A hold of this very
// lock counts unless an owner was minted within it.
func (l *Lock) ownerIn(ctx context.Context) *owner {
	minted := mintedIn(ctx)
	if ctx.Value(holdsKey{}) == nil { // cheaper to look for than the hold of one lock
		return minted
	}
	if hold, _ := ctx.Value(l.nameKey).(*Hold); hold != nil && hold.minted == minted {
		return hold.of.ownerOf(l.nameKey)
	}
	return minted
}

func mintedIn(ctx context.Context) *owner {
	minted, _ := ctx.Value(ownerKey{}).(*owner)
	return minted
}

// lose remembers a lost possession until its entries have been unlocked.
func (o *owner) lose(p *possession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.belongings().lost[p.lock.key()] = p
}

// settle forgets a lost possession: all of its entries know.
func (o *owner) settle(p *possession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key := p.lock.key(); o.more != nil && o.more.lost[key] == p {
		delete(o.more.lost, key)
	}
}

// lostOf returns the possession of a lock that this owner lost and has not unlocked yet, or nil.
func (o *owner) lostOf(key lockKey) *possession {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		return nil
	}
	return o.more.lost[key]
}

// hasLost tells whether there is such a possession of any side of a name.
func (o *owner) hasLost(id nameKey) bool {
	return o.lostOf(lockKey{id, mainSide}) != nil || o.lostOf(lockKey{id, readSide}) != nil
}

// rememberGroup keeps what was locked through a group for its unlock.
func (o *owner) rememberGroup(e *groupEntry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	more := o.belongings()
	more.groups = append(more.groups, e)
}

func (o *owner) forgetGroup(e *groupEntry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	more := o.belongings()
	more.groups = without(more.groups, e)
}

// latestGroup returns what this owner locked last through any handle on the same group, or nil.
func (o *owner) latestGroup(g *group) *groupEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range slices.Backward(o.belongings().groups) {
		if e.group.same(g) {
			return e
		}
	}
	return nil
}

package token

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock"
)

func write(token rlock.Token) {}

var client *rlock.Client

var (
	plain    = client.NewLock("a", rlock.NonReentrant())
	fenced   = client.NewLock("b", rlock.Fenced())
	Exported = client.NewLock("c")
	later    *rlock.Lock
	pointer  = client.NewLock("d")
	to       = &pointer
)

func start() {
	later = client.NewLock("e", rlock.Fenced())
	later = client.NewLock("e")
}

func bad(ctx context.Context, locks *rlock.Client, rw *rlock.RWLock, multi *rlock.MultiLock, sem *rlock.Semaphore) error {
	lock := locks.NewLock("document:7")
	hold, err := lock.Acquire(ctx, rlock.Wait(time.Second))
	if err != nil {
		return err
	}
	write(hold.Token()) // want `^this lock has no fencing tokens: this is 0; make it with rlock.Fenced\(\)$`
	a, _ := locks.NewFairLock("a").TryAcquire(ctx)
	write(a.Token()) // want `this lock has no fencing tokens`
	b, _ := locks.NewSpinLock("b", rlock.Backoff(time.Millisecond, time.Second)).Acquire(ctx)
	write(b.Token()) // want `this lock has no fencing tokens`
	c, _ := rw.Reader().Acquire(ctx)
	write(c.Token()) // want `^a read lock has no fencing token: this is always 0$`
	d, _ := locks.NewRWLock("d").Writer().Acquire(ctx)
	write(d.Token()) // want `this lock has no fencing tokens`
	e, _ := multi.Acquire(ctx)
	write(e.Token()) // want `^a multi lock or red lock has no fencing token: this is always 0; use rlock.HoldFrom for that of a member$`
	f, _ := sem.Acquire(ctx)
	write(f.Token()) // want `^a semaphore has no fencing tokens: this is always 0$`
	g, _ := plain.Acquire(ctx)
	if g.Token() > a.Token() { // want `this lock has no fencing tokens` `this lock has no fencing tokens`
		return nil
	}
	h, _ := rlock.HoldFrom(ctx, multi)
	write(h.Token()) // want `a multi lock or red lock has no fencing token`
	return nil
}

type store struct {
	lock, set *rlock.Lock
	Public    *rlock.Lock
	rw        *rlock.RWLock
}

func newStore(locks *rlock.Client) *store {
	s := &store{lock: locks.NewLock("store"), set: locks.NewLock("set"), Public: locks.NewLock("public"), rw: locks.NewRWLock("rw", rlock.Fenced())}
	s.set = locks.NewLock("set", rlock.Fenced())
	return s
}

func (s *store) write(ctx context.Context) {
	a, _ := s.lock.Acquire(ctx)
	write(a.Token()) // want `this lock has no fencing tokens`
	b, _ := s.rw.Reader().Acquire(ctx)
	write(b.Token()) // want `a read lock has no fencing token`

	c, _ := s.set.Acquire(ctx)
	write(c.Token())
	d, _ := s.Public.Acquire(ctx)
	write(d.Token())
	e, _ := s.rw.Writer().Acquire(ctx)
	write(e.Token())
}

type pair struct{ first, second *rlock.Lock }

func pairs(ctx context.Context, locks *rlock.Client) {
	p := pair{locks.NewLock("first"), locks.NewLock("second", rlock.Fenced())}
	a, _ := p.first.Acquire(ctx)
	write(a.Token()) // want `this lock has no fencing tokens`
	b, _ := p.second.Acquire(ctx)
	write(b.Token())
}

// From here on, all is as it should be.

func custom() rlock.LockOption { return rlock.Fenced() }

func good(ctx context.Context, locks *rlock.Client, given *rlock.Lock, opts ...rlock.LockOption) {
	a, _ := fenced.Acquire(ctx)
	write(a.Token())
	b, _ := locks.NewFairLock("b", rlock.NonReentrant(), rlock.Fenced()).Acquire(ctx)
	write(b.Token())
	c, _ := locks.NewLock("c", opts...).Acquire(ctx)
	write(c.Token())
	d, _ := given.Acquire(ctx)
	write(d.Token())
	e, _ := Exported.Acquire(ctx) // another package may set it
	write(e.Token())
	f, _ := later.Acquire(ctx)
	write(f.Token())
	g, _ := pointer.Acquire(ctx)
	write(g.Token())
	m, _ := locks.NewLock("m", custom()).Acquire(ctx)
	write(m.Token())
	option := rlock.Fenced()
	h, _ := locks.NewLock("h", option).Acquire(ctx)
	write(h.Token())

	// A program may ask whether there is a token.
	i, _ := plain.Acquire(ctx)
	fmt.Println(i.Token() == 0, 0 < i.Token())
	// The context may carry the hold of a fenced handle of the name.
	j, _ := rlock.HoldFrom(ctx, plain)
	write(j.Token())

	lock := locks.NewLock("k")
	if opts != nil {
		lock = locks.NewLock("k", rlock.Fenced())
	}
	k, _ := lock.Acquire(ctx)
	write(k.Token())
	l, _ := plain.Acquire(ctx)
	l, _ = fenced.Acquire(ctx)
	write(l.Token())
}

func leader(ctx context.Context, locks *rlock.Client) error {
	return locks.NewElection("leader").Run(ctx, func(ctx context.Context, term rlock.Token) error {
		write(term)
		return nil
	})
}

package testkit

import (
	"reflect"
	"slices"
	"unsafe"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/group"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/wire"
)

// The public types have one unexported field each, with what they stand on. Tests read it here, and nowhere else, so that
// the library has no door for them.

// under returns a pointer to the first field of what a public handle points to. It panics if the type of that field is not
// the expected one.
func under[T any](handle any) *T {
	v := reflect.ValueOf(handle).Elem()
	if got, want := v.Field(0).Type(), reflect.TypeFor[T](); got != want {
		panic("the first field of " + v.Type().String() + " is a " + got.String() + ", not a " + want.String())
	}
	return (*T)(unsafe.Pointer(v.Field(0).UnsafeAddr()))
}

func clientOf(c *rlock.Client) *client.Client { return *under[*client.Client](c) }

func base(l *rlock.Lock) *client.Lock { return under[client.Lock](l) }

// Remains counts what a client, or the client of a lock, still keeps in memory: grants, local queues, due times, channels, and
// commands under way.
func Remains[T *rlock.Client | *rlock.Lock](of T) int {
	var c *client.Client
	switch of := any(of).(type) {
	case *rlock.Client:
		c = clientOf(of)
	case *rlock.Lock:
		c = base(of).Client()
	}
	s := c.Table().Stats()
	return s.Grants + s.Queues + s.Exclusive + s.Due + c.Core().Names() + c.Hub().Stats().Channels + c.Busy()
}

// Shards counts the nodes to which a client has, or had not long ago, a subscription connection.
func Shards(c *rlock.Client) int { return clientOf(c).Hub().Stats().Shards }

// Listens reports whether the first waiter of a lock in this process is notified of releases.
func Listens(l *rlock.Lock) bool {
	_, _, listens := base(l).Line()
	return listens
}

// Moves reports whether a client is about to replace its subscription connection. Meanwhile no message reaches its waiters.
func Moves(l *rlock.Lock) bool { return base(l).Client().Hub().Stats().Moves }

// Rests reports whether the first waiter of a lock in this process sleeps until something happens.
func Rests(l *rlock.Lock) bool {
	_, rests, _ := base(l).Line()
	return rests
}

// Waiting counts the waiters for a lock in this process. For a group that queues nowhere itself, it counts those of its members.
func Waiting(l handles.Any) int {
	switch l := l.(type) {
	case grouped:
		return l.waiting()
	case *rlock.RedLock:
		return (*under[*group.Group](l)).Locks()[0].Client().Counts().Waiting
	case *rlock.Lock:
		b := base(l)
		if n, _, _ := b.Line(); n > 0 || !b.Kind().Queues {
			return n
		}
		return b.Client().Hub().Listeners(b.Channel() + ":")
	}
	return 0
}

// Awaited reports whether n calls await a latch in this process, and listen.
func Awaited(l *rlock.CountDownLatch, n int) bool { return under[client.Latch](l).Listening() == n }

// Refused reports whether the first waiter for a lock in this process has had a reply. For a group that queues nowhere
// itself, it is the first waiter for one of its members.
func Refused(l handles.Any) bool {
	switch l := l.(type) {
	case grouped:
		if red, ok := l.Any.(*rlock.RedLock); ok {
			return Refused(red)
		}
		return slices.ContainsFunc(l.members, func(m *rlock.Lock) bool { return Refused(m) })
	case *rlock.RedLock:
		return Waiting(l) > 0 // it counts once it has been refused
	case *rlock.Lock:
		return Rests(l) || base(l).Kind().Queues && Waiting(l) > 0
	}
	return false
}

// Keys returns the names in Redis of the lock, of what else it needs, and of its tombstones.
func Keys(l handles.Any) []string {
	if g, ok := l.(grouped); ok {
		return g.keys()
	}
	lock, _ := l.(*rlock.Lock)
	var keys []string
	for _, key := range base(lock).Names().Keys {
		name, _ := key.(string)
		keys = append(keys, name)
	}
	return keys
}

// Channel returns the channel on which a release of the lock is announced.
func Channel(l *rlock.Lock) string { return base(l).Channel() }

// Reads reports whether a lock is the read side of a read-write lock.
func Reads(l *rlock.Lock) bool { return base(l).Kind() == wire.Read }

// Possess returns what another grant of the lock would have in Redis: its keys, and the channel on which it waits.
func Possess(l *rlock.Lock) (keys []string, channel string) {
	b := base(l)
	h := wire.NewHolder(b.Kind(), b.Names(), b.Client().Config().Table.ClientID, 1)
	channel = b.Names().Channel
	if b.Kind().Queues {
		channel = wire.NewSeat(b.Names(), b.Client().Config().Table.ClientID, 1).Channel
	}
	return h.Keys(b.Names()), channel
}

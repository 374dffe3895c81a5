package rlock

import (
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/internal/yield"
)

// What the tests, which are outside the package as users are, need from inside it.

func scripts(k *wire.Kind) map[string]*wire.Script {
	return map[string]*wire.Script{
		"acquire": k.Acquire, "count": k.Count, "release": k.Release, "renew": k.Renew, "force": k.Force, "inspect": k.Inspect,
		"handOver": k.HandOver,
	}
}

// Script returns what a script of a kind sends, with its preludes, and how many keys it gets for each lock, besides the
// tombstones.
func Script(kind, name string) (source string, keys int) {
	s := scripts(wire.Kinds[kind])[name]
	return s.Source, s.Keys
}

// WithStandBack sets for how long a lock that was offered to other processes is left to them.
func WithStandBack(d time.Duration) Option {
	return func(s *settings) error {
		s.Table.StandBack = d
		return nil
	}
}

// Sources returns what all scripts send.
func Sources() (all []string) {
	for _, k := range wire.Kinds {
		for _, s := range scripts(k) {
			if s != nil {
				all = append(all, s.Source)
			}
		}
	}
	return all
}

// Runs matches the commands that run a script, whichever kind's.
func Runs(name string) func(redistest.Command) bool {
	return func(c redistest.Command) bool {
		for _, k := range wire.Kinds {
			if s := scripts(k)[name]; s != nil && (c[0] == "evalsha" && c[1] == s.Digest || c[0] == "eval" && c[1] == s.Source) {
				return true
			}
		}
		return false
	}
}

// Remains counts what a client still keeps in memory: grants, local queues, due times and channels.
func (c *Client) Remains() int {
	s := c.m.Table().Stats()
	return s.Grants + s.Queues + s.Exclusive + s.Due + c.m.Hub().Stats().Channels
}

// Lines counts the nodes to which there is, or was not long ago, a subscription connection.
func (c *Client) Lines() int { return c.m.Hub().Stats().Shards }

// Listens reports whether a waiter of a lock that queues in this process hears of its releases.
func (l *Lock) Listens() bool {
	_, confirmed := l.l.Manager().Hub().Heard(l.l.Channel())
	_, _, listens := l.l.Manager().Table().Line(l.l.ID().Key)
	return confirmed && listens
}

// Rests reports whether the first waiter of a lock that queues in this process sleeps.
func (l *Lock) Rests() bool {
	_, rests, _ := l.l.Manager().Table().Line(l.l.ID().Key)
	return rests
}

// Waiting counts the waiters of a lock in this process: in the local queue, or listening on channels of their own.
func (l *Lock) Waiting() int {
	if n, _, _ := l.l.Manager().Table().Line(l.l.ID().Key); n > 0 || !l.l.Kind().Queues {
		return n
	}
	return l.l.Manager().Hub().Listeners(l.l.Channel() + ":")
}

// Waiting counts the goroutines of this process that wait for a red lock.
func (r *RedLock) Waiting() int { return r.g.Waiting() }

// Remains counts what the client of a lock still keeps.
func (l *Lock) Remains() int { return (&Client{m: l.l.Manager()}).Remains() }

// Keys returns the names in Redis of the lock, what else it needs, and its tombstones.
func (l *Lock) Keys() []string {
	keys := make([]string, len(l.l.Names().Keys))
	for i, key := range l.l.Names().Keys {
		keys[i] = key.(string)
	}
	return keys
}

// Channel returns the channel on which a release is announced.
func (l *Lock) Channel() string { return l.l.Channel() }

// Reads reports whether it is the read side of a read-write lock.
func (l *Lock) Reads() bool { return l.l.Kind() == wire.Read }

// Slot is the slot that a key is taken to be in.
func Slot(key string) uint16 { return wire.Slot(key) }

// Yield returns how long a process that had a lock for turn, and released it so long ago while others listened, lets others
// pass when the lock is released again.
func Yield(turn, since time.Duration, others int64) time.Duration {
	r := yield.Release[int]{At: 1, Turn: turn, Others: others}
	return r.Pause(r.At.Add(since))
}

// Possess returns what another holding of the lock would have in Redis: its keys, and the channel on which it waits.
func (l *Lock) Possess() (keys []string, channel string) {
	h := wire.NewHolder(l.l.Kind(), l.l.Names(), l.l.Manager().Config().Table.ClientID, 1)
	return h.Keys(l.l.Names()), h.Channel(l.l.Names())
}

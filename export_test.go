package rlock

import (
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
)

// What the tests, which are outside the package as users are, need from inside it.

var kindsByName = map[string]*kind{
	"lock": lockKind, "fair": fairKind, "read": readKind, "write": writeKind, "fenced": fencedKind, "spin": spinKind,
}

func (k *kind) scripts() map[string]*script {
	return map[string]*script{
		"acquire": k.acquire, "count": k.count, "release": k.release, "renew": k.renew, "force": k.force, "inspect": k.inspect,
		"handOver": k.handOver,
	}
}

// Script returns what a script of a kind sends, with its preludes, and how many keys it gets for each lock, besides the
// abandoned numbers.
func Script(kind, name string) (source string, keys int) {
	s := kindsByName[kind].scripts()[name]
	return s.source, s.keys
}

// WithStandBack sets for how long a lock that was offered to other processes is left to them.
func WithStandBack(d time.Duration) Option {
	return func(s *settings) error {
		s.standBack = d
		return nil
	}
}

// Sources returns what all scripts send.
func Sources() (all []string) {
	for _, k := range kindsByName {
		for _, s := range k.scripts() {
			if s != nil {
				all = append(all, s.source)
			}
		}
	}
	return all
}

// Runs matches the commands that run a script, whichever kind's.
func Runs(name string) func(redistest.Command) bool {
	return func(c redistest.Command) bool {
		for _, k := range kindsByName {
			if s := k.scripts()[name]; s != nil && (c[0] == "evalsha" && c[1] == s.run[1] || c[0] == "eval" && c[1] == s.source) {
				return true
			}
		}
		return false
	}
}

// Transient tells whether a command that failed so is sent again.
func (c *Client) Transient(err error) bool { return c.transient(err) }

// Remains counts what a client still keeps in memory: possessions, gates, planned wake-ups and channels.
func (c *Client) Remains() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pubsub.mu.Lock()
	defer c.pubsub.mu.Unlock()
	tenants := 0
	for _, byName := range c.tenants {
		tenants += len(byName)
	}
	return len(c.possessions) + len(c.gates) + tenants + len(c.watchdog.heap) + len(c.pubsub.channels)
}

// Lines counts the nodes to which there is, or was not long ago, a subscription connection.
func (c *Client) Lines() int {
	c.pubsub.mu.Lock()
	defer c.pubsub.mu.Unlock()
	return len(c.pubsub.shards)
}

// Listens tells whether a waiter of a lock that queues in this process hears of its releases.
func (l *Lock) Listens() bool {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[l.nameKey]
	_, confirmed := c.pubsub.heard(l.wire().channel)
	return confirmed && g != nil && g.listener != nil
}

// Rests tells whether the first waiter of a lock that queues in this process sleeps.
func (l *Lock) Rests() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	g := l.client.gates[l.nameKey]
	return g != nil && g.queue[0].news != nil && g.queue[0].stage == idle && g.queue[0].askAt.IsZero()
}

// Waiting counts the waiters of a lock in this process: in the gate, or listening on channels of their own.
func (l *Lock) Waiting() int {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gates[l.nameKey]; g != nil {
		return len(g.queue)
	}
	if !l.kind.queues {
		return 0
	}
	c.pubsub.mu.Lock()
	defer c.pubsub.mu.Unlock()
	n := 0
	for channel, s := range c.pubsub.channels {
		if strings.HasPrefix(channel, l.wire().channel+":") {
			n += len(s.listeners)
		}
	}
	return n
}

// Waiting counts those of this process who wait for a red lock.
func (r *RedLock) Waiting() int {
	l := r.group.all[0]
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	if g := l.client.gates[nameKey{l.client, l.nameKey.name, redFamily}]; g != nil {
		return len(g.queue)
	}
	return 0
}

// Remains counts what the client of a lock still keeps.
func (l *Lock) Remains() int { return l.client.Remains() }

// Keys returns the names in Redis of the lock, what else it needs, and its abandoned numbers.
func (l *Lock) Keys() []string {
	keys := make([]string, len(l.wire().keys))
	for i, key := range l.wire().keys {
		keys[i] = key.(string)
	}
	return keys
}

// Channel returns the channel on which a release is announced.
func (l *Lock) Channel() string { return l.wire().channel }

// Reads tells whether it is the read side of a read-write lock.
func (l *Lock) Reads() bool { return l.kind == readKind }

// Slot is the slot that a key is taken to be in.
func Slot(key string) uint16 { return slot(key) }

// Yield returns how long a process that had a lock for turn, and released it so long ago while others listened, lets others
// pass when the lock is released again.
func Yield(turn, since time.Duration, others int64) time.Duration {
	now := time.Now()
	return (&offer{at: now.Add(-since), turn: turn, others: others}).yield(now)
}

// Possess returns what another holding of the lock would have in Redis: its keys, and the channel on which it waits.
func (l *Lock) Possess() (keys []string, channel string) {
	p := l.newPossession(nil, time.Second)
	for _, key := range p.keys() {
		keys = append(keys, key.(string))
	}
	return keys, p.channel()
}

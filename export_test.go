package rlock

import "github.com/go-rlock/rlock/internal/redistest"

// What the tests, which are outside the package as users are, need from inside it.

// Scripts has every script's source, with the prelude, by what it does.
var Scripts = map[string]string{
	"acquire": lockAcquire.source,
	"count":   lockCount.source,
	"release": lockRelease.source,
	"renew":   lockRenew.source,
	"force":   lockForce.source,
	"inspect": lockInspect.source,
}

// Runs matches the commands that run a script.
func Runs(name string) func(redistest.Command) bool {
	source := Scripts[name]
	sha := newScript(source[len(newScript("").source):]).run[1]
	return func(c redistest.Command) bool {
		return c[0] == "evalsha" && c[1] == sha || c[0] == "eval" && c[1] == source
	}
}

// Remains counts what a client still keeps in memory: possessions, gates, planned wake-ups and channels.
func (c *Client) Remains() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pubsub.mu.Lock()
	defer c.pubsub.mu.Unlock()
	return len(c.possessions) + len(c.gates) + len(c.watchdog.heap) + len(c.pubsub.channels)
}

// Waiting counts the waiters in the gate of a lock.
func (l *Lock) Waiting() int {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	if g := l.client.gates[l.nameKey]; g != nil {
		return len(g.queue)
	}
	return 0
}

// Keys returns the names in Redis of the lock and its abandoned numbers.
func (l *Lock) Keys() []string { return []string{l.keys[0].(string), l.keys[1].(string)} }

// Channel returns the channel on which a release is announced.
func (l *Lock) Channel() string { return l.channel }

// Slot is the slot that a key is taken to be in.
func Slot(key string) uint16 { return slot(key) }

package rlock

import (
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testhook"
)

// This file goes with the old code: internal/testkit sees the new packages by reflection.

func init() {
	testhook.Transient = func(c any, err error) bool { return c.(*Client).transient(err) }
	testhook.Remains = func(client any) int {
		if l, ok := client.(*Lock); ok {
			client = l.client
		}
		c := client.(*Client)
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
	testhook.Lines = func(client any) int {
		c := client.(*Client)
		c.pubsub.mu.Lock()
		defer c.pubsub.mu.Unlock()
		return len(c.pubsub.shards)
	}
	testhook.Listens = func(lock any) bool {
		l := lock.(*Lock)
		c := l.client
		c.mu.Lock()
		defer c.mu.Unlock()
		g := c.gates[l.nameKey]
		_, confirmed := c.pubsub.heard(l.wire().channel)
		return confirmed && g != nil && g.listener != nil
	}
	testhook.Rests = func(lock any) bool {
		l := lock.(*Lock)
		l.client.mu.Lock()
		defer l.client.mu.Unlock()
		g := l.client.gates[l.nameKey]
		return g != nil && g.queue[0].news != nil && g.queue[0].stage == idle && g.queue[0].askAt.IsZero()
	}
	testhook.Waiting = func(lock any) int {
		if r, ok := lock.(*RedLock); ok {
			l := r.group.all[0]
			l.client.mu.Lock()
			defer l.client.mu.Unlock()
			if g := l.client.gates[nameKey{l.client, l.nameKey.name, redFamily}]; g != nil {
				return len(g.queue)
			}
			return 0
		}
		l := lock.(*Lock)
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
	testhook.Keys = func(lock any) []string {
		l := lock.(*Lock)
		keys := make([]string, len(l.wire().keys))
		for i, key := range l.wire().keys {
			keys[i] = key.(string)
		}
		return keys
	}
	testhook.Channel = func(lock any) string { return lock.(*Lock).wire().channel }
	testhook.Reads = func(lock any) bool { return lock.(*Lock).kind == readKind }
	testhook.Yield = func(turn, since time.Duration, others int64) time.Duration {
		now := time.Now()
		return (&offer{at: now.Add(-since), turn: turn, others: others}).yield(now)
	}
	testhook.Possess = func(lock any) (keys []string, channel string) {
		l := lock.(*Lock)
		p := l.newPossession(nil, time.Second)
		for _, key := range p.keys() {
			keys = append(keys, key.(string))
		}
		return keys, p.channel()
	}
}

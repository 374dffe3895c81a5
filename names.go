package rlock

import (
	"fmt"
	"strings"
)

// maxName is the longest name of a lock in Redis, in bytes.
const maxName = 64 << 10

// derived is Redisson's rule for the keys and channels that belong to a lock: they carry its name as hash tag, so that
// a cluster keeps them in the lock's slot.
func derived(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// suffixed is Redisson's rule for keys that begin with the name.
func suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// wire is what belongs to a lock in Redis, in the form in which it is sent. It is several times the size of a handle, which
// drops it when its lock is held for so long that it is renewed.
type wire struct {
	keys    []any // the lock, what else its kind needs, the numbers abandoned on it
	channel string
	sent    any // the channel
}

func (l *Lock) wire() *wire {
	if w := l.wired.Load(); w != nil {
		return w
	}
	name := l.nameKey.name
	w := &wire{keys: make([]any, 0, 2+len(l.kind.keys))}
	w.keys = append(w.keys, name)
	for _, prefix := range l.kind.keys {
		w.keys = append(w.keys, derived(prefix, name))
	}
	w.keys = append(w.keys, derived("redisson_unlock_latch", name)+":"+l.client.id)
	if l.kind.channel != "" {
		w.channel = derived(l.kind.channel, name)
	}
	w.sent = w.channel
	l.wired.Store(w)
	return w
}

// checkName refuses what cannot be a lock's name in Redis.
func checkName(name string, cluster bool) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > maxName:
		return fmt.Errorf("%w: %s is longer than 64 KiB", ErrInvalidName, quote(name))
	case cluster && hashTag(name) != hashTag(derived("", name)):
		return fmt.Errorf("%w: the braces of %s put the keys of the lock into different slots of the cluster",
			ErrInvalidName, quote(name))
	}
	return nil
}

// hashTag returns the part of a key that decides its slot in a cluster.
func hashTag(key string) string {
	_, after, opened := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(after, "}")
	if opened && closed && tag != "" {
		return tag
	}
	return key
}

// slot returns the slot of a key in a cluster: CRC-16/XMODEM of its tag, modulo 16384.
func slot(key string) uint16 {
	var crc uint16
	for _, b := range []byte(hashTag(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

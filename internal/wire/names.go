package wire

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-rlock/rlock/internal/fault"
)

// maxName is the longest name of a lock in Redis, in bytes.
const maxName = 64 << 10

// Names has the keys and the channel of a lock, in the form in which they are sent. It is read-only once made.
type Names struct {
	Keys    []any  // the lock, the other keys of its kind, its tombstones
	Channel string // where releases are announced; empty means nowhere
	Boxed   any    // Channel as it is sent

	// For a kind that may stand in the line. The others have none of this.
	LineKeys []any  // the lock, its line, the other keys of its kind, its tombstones
	base     any    // Redisson's channel, as it is sent
	own      string // the channel of this client's waiters
}

// NewNames returns the keys and the channel of a lock, given its name in Redis and the client's id.
func NewNames(k *Kind, name, clientID string) *Names {
	n := &Names{}
	count := 2 + len(k.Keys)
	all := make([]any, 0, count)
	if k.Line != nil {
		all = make([]any, 0, 2*count+1)
	}
	all = append(all, name)
	for _, key := range k.Keys {
		prefix, suffix, _ := strings.Cut(key, "*")
		all = append(all, derived(prefix, name)+suffix)
	}
	latch := derived("redisson_unlock_latch", name)
	all = append(all, latch+":"+clientID)
	n.Keys = all[:count:count]
	if k.Channel != "" && k.Line == nil {
		n.Channel = derived(k.Channel, name)
	}
	if k.Line != nil {
		n.LineKeys = append(append(all[count:], all[0], latch+":waiters"), all[1:count]...)
		n.own = derived(cmp.Or(k.Channel, baseChannel), name) + ":" + clientID
		base := n.own[:len(n.own)-1-len(clientID)]
		if k.Channel != "" {
			n.Channel = base
		}
		n.base = base
	}
	n.Boxed = n.Channel
	return n
}

// The prefixes of Redisson's channel of a lock, and of a read-write lock.
const (
	baseChannel = "redisson_lock__channel"
	rwChannel   = "redisson_rwlock"
)

// Base returns Redisson's channel of a lock that may have a line. Empty means that its kind never has one.
func (n *Names) Base() string {
	base, _ := n.base.(string)
	return base
}

// Own returns the channel on which the waiters of this client learn that they have the lock. Empty means that its kind never
// stands in the line.
func (n *Names) Own() string { return n.own }

// Twin returns the channel to which a process subscribes together with [Names.Base], so that it does not count as one of the
// others that listen there.
func (n *Names) Twin() string { return n.Base() + twinSuffix }

const twinSuffix = ":rlock"

// derived is Redisson's rule for the keys and channels that belong to a lock: they carry its name as hash tag, so that a
// cluster keeps them in the lock's slot.
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

// CheckName returns ErrInvalidName, with the reason, for a name that cannot be a lock's name in Redis.
func CheckName(name string, cluster bool) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", fault.ErrInvalidName)
	case len(name) > maxName:
		return fmt.Errorf("%w: %s is longer than 64 KiB", fault.ErrInvalidName, fault.Quote(name))
	case cluster && hashTag(name) != hashTag(derived("", name)):
		return fmt.Errorf("%w: the braces of %s put the keys of the lock into different slots of the cluster",
			fault.ErrInvalidName, fault.Quote(name))
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

// Slot returns the slot of a key in a cluster: CRC-16/XMODEM of its tag, modulo 16384.
func Slot(key string) uint16 {
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

// NamesCache keeps the names of a lock. They are several times the size of a handle, so a handle drops them when its lock
// is held for so long that it is renewed. The zero value is empty. It is safe for concurrent use.
type NamesCache struct{ names atomic.Pointer[Names] }

// Get returns the names of a lock, and makes them if they are not there. The arguments are those of [NewNames].
func (c *NamesCache) Get(k *Kind, name, clientID string) *Names {
	n := c.names.Load()
	if n == nil {
		n = NewNames(k, name, clientID)
		c.names.Store(n)
	}
	return n
}

// Drop empties the cache.
func (c *NamesCache) Drop() { c.names.Store(nil) }

package wire

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lua"
)

// maxName is the longest name of a lock in Redis, in bytes.
const maxName = 64 << 10

// Names has the keys and the channel of a lock, in the form in which they are sent. It is read-only once made, and must not be
// copied.
type Names struct {
	Keys    []any  // the lock, the other keys of its kind, its tombstones
	Channel string // where releases are announced; empty means nowhere
	Boxed   any    // Channel as it is sent

	// For a kind that may stand in the line. The others have none of this.
	LineKeys []any  // the lock, its line, the other keys of its kind, its tombstones
	base     any    // Redisson's channel, as it is sent
	own      string // the channel of this client's waiters

	room [5]any // for the keys of a plain lock
}

// NewNames returns the keys and the channel of a lock, given its name in Redis and the client's id. A handle may be made for one
// use, so all names share one text.
func NewNames(k *Kind, name, clientID string) *Names {
	n := &Names{Boxed: ""}
	count := 2 + len(k.Keys)
	size := count // of the keys in both forms
	if k.Line != nil {
		size = 2*count + 1
	}
	all := n.room[:0]
	if size > cap(all) {
		all = make([]any, 0, size)
	}
	const longest = 40 // more than any prefix with its suffix
	own := OwnEnding(name)
	var text strings.Builder
	text.Grow((len(k.Keys)+3)*(len(name)+longest) + 2*len(clientID))
	add := func(prefix, suffix, ending string) string {
		from := text.Len()
		derive(&text, prefix, name)
		text.WriteString(suffix)
		text.WriteString(ending)
		return text.String()[from:]
	}
	all = append(all, name)
	for _, key := range k.Keys {
		switch prefix, suffix, _ := strings.Cut(key, "*"); {
		case prefix == "":
			all = append(all, suffixed(name, suffix))
		case suffix != "": // it is rlock's
			all = append(all, add(prefix, suffix, own))
		default:
			all = append(all, add(prefix, "", ""))
		}
	}
	all = append(all, add(lua.LatchKey, ":", clientID+own))
	n.Keys = all[:count:count]
	switch {
	case k.Line != nil:
		n.LineKeys = append(append(all[count:], all[0], add(lua.LatchKey, lua.WaitersSuffix, own)), all[1:count]...)
		n.own = add(cmp.Or(k.Channel, lua.LockChannel), ":", clientID+own)
		n.base = n.own[:len(n.own)-1-len(clientID)-len(own)]
		if k.Channel != "" {
			n.Boxed = n.base
		}
	case k.Channel != "":
		n.Boxed = add(k.Channel, "", "")
	}
	n.Channel, _ = n.Boxed.(string)
	return n
}

// queued returns the keys of a lock with those of the queue or the line where its waiters may stand.
func (n *Names) queued() []any {
	if n.LineKeys != nil {
		return n.LineKeys
	}
	return n.Keys
}

// Base returns Redisson's channel of a lock that may have a line. Empty means that its kind never has one.
func (n *Names) Base() string {
	base, _ := n.base.(string)
	return base
}

// Own returns the channel on which the waiters of this client learn that they have the lock. Empty means that its kind never
// stands in the line.
func (n *Names) Own() string { return n.own }

// OwnChannels returns the channels of a client's waiters for the two locks, x and {x}, that may have one channel of Redisson's.
func OwnChannels(base, clientID string) [2]string {
	own := base + ":" + clientID
	return [2]string{own, own + braced}
}

// Tells reports whether a script tells waiters of this client for the lock on a channel that they have it.
func (n *Names) Tells(channel, clientID string) bool {
	if n.own != "" {
		return channel == n.own
	}
	name, _ := n.Keys[0].(string)
	for _, part := range [...]string{n.Channel, ":", clientID, lua.SeatInfix} {
		rest, ok := strings.CutPrefix(channel, part)
		if !ok {
			return false
		}
		channel = rest
	}
	return strings.TrimLeft(channel, "0123456789") == OwnEnding(name)
}

// Twin returns the channel to which a process subscribes together with [Names.Base], so that it does not count as one of the
// others that listen there.
func (n *Names) Twin() string {
	name, _ := n.Keys[0].(string)
	return n.Base() + twinSuffix + OwnEnding(name)
}

const twinSuffix = ":" + lua.TwinName

// braced ends what rlock derives from the name {x}, by which it is not that of x: see [OwnEnding].
const braced = lua.BracedEnding

// OwnEnding returns what ends the keys, channels and seats that rlock derives from a name, and Redisson does not have. Redisson's rule
// makes one text of the names x and {x}, and of no other two. So what rlock makes of {x} has an ending that nothing else has.
// beside in line_prelude.lua is the same rule.
func OwnEnding(name string) string {
	if strings.HasPrefix(name, "{") && strings.HasSuffix(name, "}") && !strings.Contains(name[1:], "{") {
		return braced
	}
	return ""
}

// derived is Redisson's rule for the keys and channels that belong to a lock: they carry its name as hash tag, so that a
// cluster keeps them in the lock's slot.
func derived(prefix, name string) string {
	var text strings.Builder
	derive(&text, prefix, name)
	return text.String()
}

// derive appends a name that [derived] makes.
func derive(to *strings.Builder, prefix, name string) {
	opening, closing := ":{", "}"
	if strings.Contains(name, "{") {
		opening, closing = ":", ""
	}
	to.WriteString(prefix)
	to.WriteString(opening)
	to.WriteString(name)
	to.WriteString(closing)
}

// suffixed is Redisson's rule for keys that begin with the name.
func suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// CheckName returns ErrInvalidName, with the reason, for a name that cannot be that of a lock in Redis, or of a semaphore.
func (k *Kind) CheckName(name string, cluster bool) error {
	tagged := ""
	if cluster { // elsewhere it would be made in vain, for each handle
		tagged = derived("", name)
	}
	return checkName(name, tagged, cluster, cmp.Or(k.Noun, "lock"))
}

// checkName checks a name, given what carries the hash tag of the other keys, and what has that name.
func checkName(name, tagged string, cluster bool, what string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", fault.ErrInvalidName)
	case len(name) > maxName:
		return fmt.Errorf("%w: %s is longer than 64 KiB", fault.ErrInvalidName, fault.Quote(name))
	case reserved(name):
		return fmt.Errorf("%w: %s is a key or a channel that Redisson or rlock derives from the name of another lock",
			fault.ErrInvalidName, fault.Quote(name))
	case cluster && hashTag(name) != hashTag(tagged):
		return fmt.Errorf("%w: the braces of %s put the keys of the %s into different slots of the cluster",
			fault.ErrInvalidName, fault.Quote(name), what)
	}
	return nil
}

// reserved reports whether a name in Redis is one that is derived from another name, or whose channel would be. All of these have
// braces. Not among them is what begins with a name, such as {x}:timeout, the leases of a semaphore: that is of another type than
// whatever a user can make, so Redis refuses to mix them.
func reserved(name string) bool {
	if !strings.Contains(name, "{") {
		return false
	}
	for _, prefix := range [...]string{lua.LatchKey, "redisson_lock_queue", "redisson_lock_timeout", tokenKey} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.HasPrefix(rest, ":") {
			return true
		}
	}
	return strings.HasSuffix(strings.TrimSuffix(name, braced), twinSuffix)
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

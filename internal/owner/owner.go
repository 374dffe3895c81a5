// Package owner has the owners of locks. An owner has no data about locks: other packages attach theirs.
package owner

import "sync"

// Owner has the role of the thread to which a lock of Redisson belongs. Its address is its identity. One owner may hold
// locks of several clients. The zero value holds nothing. Its methods are safe for concurrent use.
type Owner struct {
	mu     sync.Mutex // a leaf
	only   any        // the holding of an owner that can have no other
	values map[any]any
}

// Value returns what was attached to the owner under a key. The first call for a key makes it.
func (o *Owner) Value(key any, create func() any) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	v, ok := o.values[key]
	if !ok {
		v = create()
		o.attach(key, v)
	}
	return v
}

// Attached returns what was attached to the owner under a key, or nil.
func (o *Owner) Attached(key any) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.values[key]
}

// Attach attaches a value under a key, in place of the one that was there.
func (o *Owner) Attach(key, value any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attach(key, value)
}

// attach is Attach. o.mu must be held.
func (o *Owner) attach(key, value any) {
	if o.values == nil {
		o.values = make(map[any]any)
	}
	o.values[key] = value
}

// Detach removes a value from under a key. It does nothing if another one is there.
func (o *Owner) Detach(key, value any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.values[key] == value {
		delete(o.values, key)
	}
}

func (o *Owner) hold(only any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.only = only
}

// Len returns how many values are attached.
func (o *Owner) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.values)
}

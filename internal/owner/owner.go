// Package owner has the owners of locks. An owner knows nothing of locks: other packages attach to it what they know.
package owner

import "sync"

// Owner stands for the thread that Redisson's locks belong to. It is known by its address. One owner may hold locks of
// several clients. The zero value holds nothing. Its methods are safe for concurrent use.
type Owner struct {
	mu     sync.Mutex // a leaf
	only   any        // the only holding of an owner that nobody else can name
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

// attach is Attach for a caller that has the mutex.
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

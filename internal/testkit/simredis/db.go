package simredis

import (
	"cmp"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
)

// DB is a keyspace.
type DB struct{ keys map[string]*value }

func newDB() *DB { return &DB{map[string]*value{}} }

// Clone returns a copy, which no command changes.
func (d *DB) Clone() *DB {
	c := newDB()
	for key, v := range d.keys {
		c.keys[key] = v.clone()
	}
	return c
}

// value is the value of one key: one of its four pointers is set, or none for a string.
type value struct {
	text   string
	hash   *hash
	list   *list
	zset   *zset
	expire int64 // Unix ms; zero means never
}

type list struct{ all []string }

func (v *value) clone() *value {
	c := *v
	switch {
	case v.hash != nil:
		c.hash = v.hash.clone()
	case v.list != nil:
		c.list = &list{slices.Clone(v.list.all)}
	case v.zset != nil:
		c.zset = &zset{slices.Clone(v.zset.order), maps.Clone(v.zset.scores)}
	}
	return &c
}

// kind returns the name of its type.
func (v *value) kind() string {
	switch {
	case v.hash != nil:
		return "hash"
	case v.list != nil:
		return "list"
	case v.zset != nil:
		return "zset"
	}
	return "string"
}

// empty reports whether it has no elements any more, so that Redis removes the key.
func (v *value) empty() bool {
	return v.hash != nil && v.hash.size() == 0 || v.list != nil && len(v.list.all) == 0 || v.zset != nil && len(v.zset.order) == 0
}

// get returns the value of a key, or nil. A key lives through the millisecond in which it expires.
func (s *Server) get(key string) *value {
	v := s.db.keys[key]
	if v != nil && v.expire != 0 && !s.applies && v.expire < s.now() {
		if !s.isReplica() { // a replica removes what its master has removed
			s.remove(key)
		}
		return nil
	}
	return v
}

// remove removes a key that has expired or is evicted.
func (s *Server) remove(key string) {
	delete(s.db.keys, key)
	s.propagate([]string{"DEL", key})
}

// find returns the value of a key, or nil if there is none. The value must be of that type.
func (s *Server) find(key, kind string) (*value, Err) {
	v := s.get(key)
	if v != nil && v.kind() != kind {
		return nil, errWrongType
	}
	return v, ""
}

// tidy removes a key whose value has become empty.
func (s *Server) tidy(key string, v *value) {
	if v.empty() {
		delete(s.db.keys, key)
	}
}

// removeFrom is a command that removes its arguments from the value of its key, which has to be of a kind, and replies how many were there.
func (s *Server) removeFrom(a []string, kind string, remove func(v *value, what string) bool) any {
	v, err := s.find(a[1], kind)
	switch {
	case err != "":
		return err
	case v == nil:
		return int64(0)
	}
	n := int64(0)
	for _, what := range a[2:] {
		n += truth(remove(v, what))
	}
	s.tidy(a[1], v)
	return n
}

// Keys returns the living keys, in alphabetical order.
func (s *Server) Keys() []string {
	all := slices.Sorted(maps.Keys(s.db.keys))
	return slices.DeleteFunc(all, func(key string) bool { return s.get(key) == nil })
}

// place returns where a name stands in an order that Redis leaves open. It is never zero, which is where a scan begins.
func (s *Server) place(name string) uint32 {
	h := fnv.New64a()
	var seed [8]byte
	for i := range seed {
		seed[i] = byte(s.Seed >> (8 * i))
	}
	_, _ = h.Write(seed[:])
	_, _ = h.Write([]byte(name))
	sum := h.Sum64() // its last bytes hardly change the upper half
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	return max(1, uint32(sum>>32))
}

// shuffle brings names into the order of their places.
func (s *Server) shuffle(names []string) []string {
	places := make(map[string]uint32, len(names))
	for _, name := range names {
		places[name] = s.place(name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(places[a], places[b]), cmp.Compare(a, b))
	})
	return names
}

// equal reports whether two values are equal. A value may be nil.
func (v *value) equal(o *value) bool {
	if v == nil || o == nil {
		return v == o
	}
	return reflect.DeepEqual(v, o)
}

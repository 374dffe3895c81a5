package simredis

import (
	"maps"
	"slices"
	"strconv"
)

// hash keeps the order in which its fields came, as a small hash of Redis does. The order of a big one is open.
type hash struct {
	names  []string
	values map[string]string
	big    bool
}

// The bounds of a small hash: how many fields, and bytes of a field or a value. Once it is big, it remains so.
const (
	smallHash = 128
	smallText = 64
)

func newHash() *hash { return &hash{values: map[string]string{}} }

func (h *hash) clone() *hash { return &hash{slices.Clone(h.names), maps.Clone(h.values), h.big} }

func (h *hash) size() int { return len(h.values) }

// set reports whether the field is new.
func (h *hash) set(field, text string) bool {
	_, old := h.values[field]
	h.values[field] = text
	if !old {
		h.names = append(h.names, field)
	}
	h.big = h.big || len(h.names) > smallHash || len(field) > smallText || len(text) > smallText
	return !old
}

// remove reports whether the field was there.
func (h *hash) remove(field string) bool {
	if _, ok := h.values[field]; !ok {
		return false
	}
	delete(h.values, field)
	i := slices.Index(h.names, field)
	h.names = slices.Delete(h.names, i, i+1)
	return true
}

// fields returns the names of its fields in their order.
func (s *Server) fields(h *hash) []string {
	if h.big {
		return s.shuffle(slices.Clone(h.names))
	}
	return h.names
}

var hashCommands = map[string]run{
	"HSET":       cmdHSet,
	"HSETNX":     cmdHSetNX,
	"HGET":       cmdHGet,
	"HMGET":      cmdHMGet,
	"HSTRLEN":    cmdHStrLen,
	"HDEL":       cmdHDel,
	"HEXISTS":    cmdHExists,
	"HLEN":       cmdHLen,
	"HGETALL":    func(s *Server, a []string) any { return s.listed(a[1], true, true) },
	"HKEYS":      func(s *Server, a []string) any { return s.listed(a[1], true, false) },
	"HVALS":      func(s *Server, a []string) any { return s.listed(a[1], false, true) },
	"HINCRBY":    cmdHIncrBy,
	"HSCAN":      cmdHScan,
	"HRANDFIELD": cmdHRandField,
}

// hashOf returns the hash of a key, which has no fields if there is none.
func (s *Server) hashOf(key string) (*hash, Err) {
	v, err := s.find(key, "hash")
	if v == nil {
		return newHash(), err
	}
	return v.hash, err
}

// hashFor returns the hash of a key to write into.
func (s *Server) hashFor(key string) (*hash, Err) {
	v, err := s.find(key, "hash")
	if err != "" {
		return nil, err
	}
	if v == nil {
		v = &value{hash: newHash()}
		s.db.keys[key] = v
	}
	return v.hash, ""
}

func cmdHSet(s *Server, a []string) any {
	if len(a)%2 != 0 {
		return errArity("hset")
	}
	h, err := s.hashFor(a[1])
	if err != "" {
		return err
	}
	n := int64(0)
	for i := 2; i < len(a); i += 2 {
		n += truth(h.set(a[i], a[i+1]))
	}
	return n
}

func cmdHSetNX(s *Server, a []string) any {
	h, err := s.hashFor(a[1])
	if err != "" {
		return err
	}
	if _, ok := h.values[a[2]]; ok {
		return int64(0)
	}
	h.set(a[2], a[3])
	return int64(1)
}

func cmdHGet(s *Server, a []string) any {
	h, err := s.hashOf(a[1])
	if err != "" {
		return err
	}
	if text, ok := h.values[a[2]]; ok {
		return text
	}
	return nil
}

func cmdHMGet(s *Server, a []string) any {
	h, err := s.hashOf(a[1])
	if err != "" {
		return err
	}
	all := make([]any, len(a)-2)
	for i, field := range a[2:] {
		if text, ok := h.values[field]; ok {
			all[i] = text
		}
	}
	return all
}

func cmdHStrLen(s *Server, a []string) any {
	h, err := s.hashOf(a[1])
	if err != "" {
		return err
	}
	return int64(len(h.values[a[2]]))
}

func cmdHDel(s *Server, a []string) any {
	return s.removeFrom(a, "hash", func(v *value, field string) bool { return v.hash.remove(field) })
}

func cmdHExists(s *Server, a []string) any {
	h, err := s.hashOf(a[1])
	if err != "" {
		return err
	}
	_, ok := h.values[a[2]]
	return truth(ok)
}

func cmdHLen(s *Server, a []string) any {
	h, err := s.hashOf(a[1])
	if err != "" {
		return err
	}
	return int64(h.size())
}

// listed returns the fields of a hash, or their values, or both.
func (s *Server) listed(key string, names, values bool) any {
	h, err := s.hashOf(key)
	if err != "" {
		return err
	}
	all := make([]any, 0, 2*h.size())
	for _, name := range s.fields(h) {
		if names {
			all = append(all, name)
		}
		if values {
			all = append(all, h.values[name])
		}
	}
	return all
}

func cmdHIncrBy(s *Server, a []string) any {
	by, ok := parseInt(a[3])
	if !ok {
		return errNotInt
	}
	h, err := s.hashOf(a[1])
	if err != "" {
		return err
	}
	n := int64(0)
	if text, old := h.values[a[2]]; old {
		if n, ok = parseInt(text); !ok {
			return Err("ERR hash value is not an integer")
		}
	}
	if overflows(n, by) {
		return errOverflow
	}
	if h, err = s.hashFor(a[1]); err != "" {
		return err
	}
	h.set(a[2], strconv.FormatInt(n+by, 10))
	return n + by
}

// cmdHScan returns a part of a big hash, and all of a small one.
func cmdHScan(s *Server, a []string) any {
	if _, ok := parseCursor(a[2]); !ok {
		return errCursor
	}
	v, err := s.find(a[1], "hash")
	switch {
	case err != "":
		return err
	case v == nil:
		return []any{"0", []any{}}
	}
	part, err := scanOptions(a[2], a[3:], false)
	if err != "" {
		return err
	}
	h := v.hash
	names, next := h.names, "0"
	if h.big {
		names, next = s.scan(slices.Clone(h.names), part)
	}
	all := []any{}
	for _, name := range names {
		if part.match(name) {
			all = append(all, name, h.values[name])
		}
	}
	return []any{next, all}
}

// cmdHRandField returns the first fields in the order of the seed, where Redis draws some.
func cmdHRandField(s *Server, a []string) any {
	if len(a) == 2 {
		h, err := s.hashOf(a[1])
		if err != "" {
			return err
		} else if h.size() == 0 {
			return nil
		}
		return s.shuffle(slices.Clone(h.names))[0]
	}
	count, ok := parseInt(a[2])
	switch withValues := len(a) == 4 && same(a[3], "WITHVALUES"); {
	case !ok:
		return errNotInt
	case len(a) > 3 && !withValues:
		return errSyntax
	case count < 0 || withValues:
		return Err("ERR simredis does not know this form of HRANDFIELD")
	}
	h, err := s.hashOf(a[1])
	if err != "" {
		return err
	}
	names := s.shuffle(slices.Clone(h.names))
	return texts(names[:min(int64(len(names)), count)])
}

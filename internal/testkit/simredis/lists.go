package simredis

import (
	"math"
	"slices"
)

var listCommands = map[string]run{
	"RPUSH":  func(s *Server, a []string) any { return s.push(a, false) },
	"LPUSH":  func(s *Server, a []string) any { return s.push(a, true) },
	"LPOP":   cmdLPop,
	"LLEN":   cmdLLen,
	"LINDEX": cmdLIndex,
	"LRANGE": cmdLRange,
	"LREM":   cmdLRem,
	"LPOS":   cmdLPos,
}

func (s *Server) push(a []string, first bool) any {
	v, err := s.find(a[1], "list")
	if err != "" {
		return err
	}
	if v == nil {
		v = &value{list: &list{}}
		s.db.keys[a[1]] = v
	}
	if first {
		added := slices.Clone(a[2:])
		slices.Reverse(added)
		v.list.all = append(added, v.list.all...)
	} else {
		v.list.all = append(v.list.all, a[2:]...)
	}
	return int64(len(v.list.all))
}

// elements returns the elements of a list, none if there is no list.
func (s *Server) elements(key string) ([]string, Err) {
	v, err := s.find(key, "list")
	if v == nil {
		return nil, err
	}
	return v.list.all, ""
}

func cmdLPop(s *Server, a []string) any {
	count := int64(1)
	switch {
	case len(a) > 3:
		return errArity("lpop")
	case len(a) == 3:
		n, ok := parseInt(a[2])
		if !ok || n < 0 {
			return Err("ERR value is out of range, must be positive")
		}
		count = n
	}
	v, err := s.find(a[1], "list")
	switch {
	case err != "":
		return err
	case v == nil:
		return nil
	}
	n := int(min(count, int64(len(v.list.all))))
	some := texts(v.list.all[:n])
	v.list.all = slices.Delete(v.list.all, 0, n)
	s.tidy(a[1], v)
	if len(a) == 2 {
		return some[0]
	}
	return some
}

func cmdLLen(s *Server, a []string) any {
	all, err := s.elements(a[1])
	if err != "" {
		return err
	}
	return int64(len(all))
}

func cmdLIndex(s *Server, a []string) any {
	all, err := s.elements(a[1])
	switch {
	case err != "":
		return err
	case all == nil:
		return nil
	}
	i, ok := parseInt(a[2])
	if !ok {
		return errNotInt
	}
	n := int64(len(all))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return nil
	}
	return all[i]
}

// bounds turns a range of Redis into one of Go.
func bounds(first, last string, n int) (from, to int, ok bool) {
	start, ok1 := parseInt(first)
	stop, ok2 := parseInt(last)
	if !ok1 || !ok2 {
		return 0, 0, false
	}
	size := int64(n)
	if start < 0 {
		start = max(start+size, 0)
	}
	if stop < 0 {
		stop += size
	}
	stop = min(stop, size-1)
	if start > stop || start >= size {
		return 0, 0, true
	}
	return int(start), int(stop) + 1, true
}

func cmdLRange(s *Server, a []string) any {
	if _, _, ok := bounds(a[2], a[3], 0); !ok {
		return errNotInt
	}
	all, err := s.elements(a[1])
	if err != "" {
		return err
	}
	from, to, _ := bounds(a[2], a[3], len(all))
	return texts(all[from:to])
}

func cmdLRem(s *Server, a []string) any {
	limit, ok := parseInt(a[2])
	if !ok {
		return errNotInt
	}
	v, err := s.find(a[1], "list")
	switch {
	case err != "":
		return err
	case v == nil:
		return int64(0)
	}
	backwards := limit < 0
	if limit = max(limit, -limit); limit <= 0 {
		limit = math.MaxInt64
	}
	if backwards {
		slices.Reverse(v.list.all)
	}
	removed := int64(0)
	v.list.all = slices.DeleteFunc(v.list.all, func(element string) bool {
		if element != a[3] || removed == limit {
			return false
		}
		removed++
		return true
	})
	if backwards {
		slices.Reverse(v.list.all)
	}
	s.tidy(a[1], v)
	return removed
}

// cmdLPos knows no option but MAXLEN.
func cmdLPos(s *Server, a []string) any {
	most := int64(0)
	for i := 3; i < len(a); i += 2 {
		switch {
		case i+1 == len(a):
			return errSyntax
		case same(a[i], "MAXLEN"):
			n, ok := parseInt(a[i+1])
			if !ok || n < 0 {
				return Err("ERR MAXLEN can't be negative")
			}
			most = n
		case same(a[i], "RANK"), same(a[i], "COUNT"):
			return Err("ERR simredis does not know this form of LPOS")
		default:
			return errSyntax
		}
	}
	all, err := s.elements(a[1])
	if err != "" {
		return err
	}
	if most > 0 && most < int64(len(all)) {
		all = all[:most]
	}
	if i := slices.Index(all, a[2]); i >= 0 {
		return int64(i)
	}
	return nil
}

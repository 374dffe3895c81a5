package simredis

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
)

// zset is a sorted set.
type zset struct {
	order  []scored
	scores map[string]float64
}

type scored struct {
	score  float64
	member string
}

func compareScored(a, b scored) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.member, b.member))
}

func newZSet() *zset { return &zset{scores: map[string]float64{}} }

// rank returns the place of a member that is there.
func (z *zset) rank(member string) int {
	i, _ := slices.BinarySearchFunc(z.order, scored{z.scores[member], member}, compareScored)
	return i
}

func (z *zset) set(member string, score float64) {
	z.remove(member)
	e := scored{score + 0, member} // a small set of Redis has no negative zero
	i, _ := slices.BinarySearchFunc(z.order, e, compareScored)
	z.order = slices.Insert(z.order, i, e)
	z.scores[member] = e.score
}

// remove reports whether the member was there.
func (z *zset) remove(member string) bool {
	if _, ok := z.scores[member]; !ok {
		return false
	}
	i := z.rank(member)
	z.order = slices.Delete(z.order, i, i+1)
	delete(z.scores, member)
	return true
}

// within returns the range of places whose scores are in an interval.
func (z *zset) within(low, high bound) (from, to int) {
	from = sort.Search(len(z.order), func(i int) bool {
		score := z.order[i].score
		return score > low.score || !low.open && score == low.score
	})
	to = sort.Search(len(z.order), func(i int) bool {
		score := z.order[i].score
		return score > high.score || high.open && score == high.score
	})
	return from, max(from, to)
}

// bound is one end of an interval of scores.
type bound struct {
	score float64
	open  bool // the score itself is not in the interval
}

// parseBounds reads an interval, as strtod of the C library does, for which an empty text is zero.
func parseBounds(texts ...string) (all []bound, ok bool) {
	for _, text := range texts {
		b := bound{open: strings.HasPrefix(text, "(")}
		if b.open {
			text = text[1:]
		}
		if text = cText(text); text != "" {
			if b.score, ok = cFloat(strings.TrimLeft(text, space)); !ok || math.IsNaN(b.score) {
				return nil, false
			}
		}
		all = append(all, b)
	}
	return all, true
}

var zsetCommands = map[string]run{
	"ZADD":             cmdZAdd,
	"ZINCRBY":          cmdZIncrBy,
	"ZREM":             cmdZRem,
	"ZREMRANGEBYSCORE": cmdZRemRangeByScore,
	"ZCARD":            cmdZCard,
	"ZSCORE":           cmdZScore,
	"ZRANK":            cmdZRank,
	"ZCOUNT":           cmdZCount,
	"ZRANGE":           cmdZRange,
	"ZRANGEBYSCORE":    func(s *Server, a []string) any { return s.rangeByScore(a, false) },
	"ZREVRANGEBYSCORE": func(s *Server, a []string) any { return s.rangeByScore(a, true) },
}

// zsetOf returns the sorted set of a key, which has no members if there is none.
func (s *Server) zsetOf(key string) (*zset, Err) {
	v, err := s.find(key, "zset")
	if v == nil {
		return newZSet(), err
	}
	return v.zset, err
}

func cmdZIncrBy(s *Server, a []string) any {
	return cmdZAdd(s, []string{"ZADD", a[1], "INCR", a[2], a[3]})
}

func cmdZAdd(s *Server, a []string) any {
	only, pairs := zaddOptions(a[2:])
	if len(pairs) == 0 || len(pairs)%2 != 0 {
		return errSyntax
	}
	switch gt, lt, nx := only["GT"], only["LT"], only["NX"]; {
	case nx && only["XX"]:
		return Err("ERR XX and NX options at the same time are not compatible")
	case gt && nx || lt && nx || gt && lt:
		return Err("ERR GT, LT, and/or NX options at the same time are not compatible")
	case only["INCR"] && len(pairs) > 2:
		return Err("ERR INCR option supports a single increment-element pair")
	}
	scores := make([]float64, len(pairs)/2)
	for i := range scores {
		score, ok := parseFloat(pairs[2*i])
		if !ok {
			return errNotFloat
		}
		scores[i] = score
	}
	v, err := s.find(a[1], "zset")
	if err != "" {
		return err
	}
	if v == nil {
		v = &value{zset: newZSet()}
	}
	added, changed := int64(0), int64(0)
	var last any
	for i, score := range scores {
		what, now := v.zset.add(pairs[2*i+1], score, only)
		switch what {
		case zsetRefused:
			continue
		case zsetNaN:
			return errNaN
		case zsetAdded:
			added++
		case zsetChanged:
			changed++
		case zsetSame:
		}
		last = formatScore(now)
	}
	if !v.empty() {
		s.db.keys[a[1]] = v
	}
	switch {
	case only["INCR"]:
		return last
	case only["CH"]:
		return added + changed
	}
	return added
}

func zaddOptions(a []string) (only map[string]bool, pairs []string) {
	for i, option := range a {
		switch name := strings.ToUpper(option); name {
		case "NX", "XX", "GT", "LT", "CH", "INCR":
			if only == nil {
				only = map[string]bool{}
			}
			only[name] = true
		default:
			return only, a[i:]
		}
	}
	return only, nil
}

// zsetChange is what became of one member.
type zsetChange int

const (
	zsetRefused zsetChange = iota
	zsetNaN
	zsetSame
	zsetAdded
	zsetChanged
)

// add adds a member, or changes its score, and returns the score that it has now.
func (z *zset) add(member string, score float64, only map[string]bool) (zsetChange, float64) {
	old, is := z.scores[member]
	if !is {
		if only["XX"] {
			return zsetRefused, 0
		}
		z.set(member, score)
		return zsetAdded, score
	}
	if only["NX"] {
		return zsetRefused, old
	}
	if only["INCR"] {
		if score += old; math.IsNaN(score) {
			return zsetNaN, old
		}
	}
	switch {
	case only["GT"] && score <= old, only["LT"] && score >= old:
		return zsetRefused, old
	case score == old:
		return zsetSame, score
	}
	z.set(member, score)
	return zsetChanged, score
}

func cmdZRem(s *Server, a []string) any {
	return s.removeFrom(a, "zset", func(v *value, member string) bool { return v.zset.remove(member) })
}

func cmdZRemRangeByScore(s *Server, a []string) any {
	ends, ok := parseBounds(a[2], a[3])
	if !ok {
		return errRange
	}
	v, err := s.find(a[1], "zset")
	switch {
	case err != "":
		return err
	case v == nil:
		return int64(0)
	}
	from, to := v.zset.within(ends[0], ends[1])
	for _, e := range slices.Clone(v.zset.order[from:to]) {
		v.zset.remove(e.member)
	}
	s.tidy(a[1], v)
	return int64(to - from)
}

func cmdZCard(s *Server, a []string) any {
	z, err := s.zsetOf(a[1])
	if err != "" {
		return err
	}
	return int64(len(z.order))
}

func cmdZScore(s *Server, a []string) any {
	z, err := s.zsetOf(a[1])
	if err != "" {
		return err
	}
	if score, ok := z.scores[a[2]]; ok {
		return formatScore(score)
	}
	return nil
}

func cmdZRank(s *Server, a []string) any {
	z, err := s.zsetOf(a[1])
	if err != "" {
		return err
	}
	if _, ok := z.scores[a[2]]; ok {
		return int64(z.rank(a[2]))
	}
	return nil
}

func cmdZCount(s *Server, a []string) any {
	ends, ok := parseBounds(a[2], a[3])
	if !ok {
		return errRange
	}
	z, err := s.zsetOf(a[1])
	if err != "" {
		return err
	}
	from, to := z.within(ends[0], ends[1])
	return int64(to - from)
}

package simredis

import (
	"slices"
	"strings"
)

// ranged is what a ZRANGE asks for.
type ranged struct {
	scores, byScore, reverse, limited bool
	offset, most                      int64
}

func cmdZRange(s *Server, a []string) any {
	r, err := rangeOptions(a[4:], true)
	switch {
	case err != "":
		return err
	case r.limited && r.most != -1 && !r.byScore: // Redis does not see a LIMIT of -1
		return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	case r.byScore:
		return s.byScore(a[1], a[2], a[3], r)
	}
	if _, _, ok := bounds(a[2], a[3], 0); !ok {
		return errNotInt
	}
	z, err := s.zsetOf(a[1])
	if err != "" {
		return err
	}
	order := z.order
	if r.reverse {
		order = slices.Clone(order)
		slices.Reverse(order)
	}
	from, to, _ := bounds(a[2], a[3], len(order))
	return members(order[from:to], r.scores)
}

func (s *Server) rangeByScore(a []string, reverse bool) any {
	r, err := rangeOptions(a[4:], false)
	if err != "" {
		return err
	}
	r.reverse = reverse
	return s.byScore(a[1], a[2], a[3], r)
}

func rangeOptions(options []string, all bool) (r ranged, err Err) {
	r.most = -1
	for i := 0; i < len(options); i++ {
		switch name := strings.ToUpper(options[i]); {
		case name == "WITHSCORES":
			r.scores = true
		case name == "LIMIT" && i+2 < len(options):
			offset, ok := parseInt(options[i+1])
			most, ok2 := parseInt(options[i+2])
			if !ok || !ok2 {
				return r, errNotInt
			}
			r.limited, r.offset, r.most = true, offset, most
			i += 2
		case name == "REV" && all:
			r.reverse = true
		case name == "BYSCORE" && all:
			r.byScore = true
		case name == "BYLEX" && all:
			return r, "ERR simredis does not know this form of ZRANGE"
		default:
			return r, errSyntax
		}
	}
	return r, ""
}

func (s *Server) byScore(key, first, last string, r ranged) any {
	if r.reverse {
		first, last = last, first
	}
	ends, ok := parseBounds(first, last)
	if !ok {
		return errRange
	}
	z, err := s.zsetOf(key)
	if err != "" {
		return err
	}
	from, to := z.within(ends[0], ends[1])
	part := z.order[from:to]
	if r.reverse {
		part = slices.Clone(part)
		slices.Reverse(part)
	}
	if r.limited {
		if r.offset < 0 || r.offset > int64(len(part)) {
			return []any{}
		}
		if part = part[r.offset:]; r.most >= 0 && r.most < int64(len(part)) {
			part = part[:r.most]
		}
	}
	return members(part, r.scores)
}

func members(part []scored, scores bool) any {
	all := make([]any, 0, 2*len(part))
	for _, e := range part {
		all = append(all, e.member)
		if scores {
			all = append(all, formatScore(e.score))
		}
	}
	return all
}

package simredis

import (
	"math"
	"strconv"
	"strings"
)

// keyCommands are about keys of any type, and about the server.
var keyCommands = map[string]run{
	"TIME":        cmdTime,
	"EXISTS":      cmdExists,
	"DEL":         cmdDel,
	"UNLINK":      cmdDel,
	"TYPE":        cmdType,
	"RENAME":      cmdRename,
	"PTTL":        func(s *Server, a []string) any { return s.left(a[1], 1) },
	"TTL":         func(s *Server, a []string) any { return s.left(a[1], 1000) },
	"PEXPIRETIME": cmdPExpireTime,
	"PERSIST":     cmdPersist,
	"PEXPIRE":     func(s *Server, a []string) any { return s.expire(a, s.now(), 1) },
	"EXPIRE":      func(s *Server, a []string) any { return s.expire(a, s.now(), 1000) },
	"PEXPIREAT":   func(s *Server, a []string) any { return s.expire(a, 0, 1) },
	"EXPIREAT":    func(s *Server, a []string) any { return s.expire(a, 0, 1000) },
	"DBSIZE":      func(s *Server, _ []string) any { return int64(len(s.Keys())) },
	"KEYS":        cmdKeys,
	"SCAN":        cmdScan,
	"FLUSHALL":    cmdFlush,
	"FLUSHDB":     cmdFlush,
}

func cmdTime(s *Server, _ []string) any {
	now := s.micros()
	return []any{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}
}

func cmdExists(s *Server, a []string) any {
	n := int64(0)
	for _, key := range a[1:] {
		n += truth(s.get(key) != nil)
	}
	return n
}

func cmdDel(s *Server, a []string) any {
	n := int64(0)
	for _, key := range a[1:] {
		if s.get(key) != nil {
			delete(s.db.keys, key)
			n++
		}
	}
	return n
}

func cmdType(s *Server, a []string) any {
	if v := s.get(a[1]); v != nil {
		return Status(v.kind())
	}
	return Status("none")
}

func cmdRename(s *Server, a []string) any {
	v := s.get(a[1])
	if v == nil {
		return Err("ERR no such key")
	}
	delete(s.db.keys, a[1])
	s.db.keys[a[2]] = v
	return Status("OK")
}

// left returns how long a key has left: -1 means that it has no lease, and -2 that there is none.
func (s *Server) left(key string, unit int64) any {
	v := s.get(key)
	switch {
	case v == nil:
		return int64(-2)
	case v.expire == 0:
		return int64(-1)
	}
	return (v.expire - s.now() + unit/2) / unit
}

func cmdPExpireTime(s *Server, a []string) any {
	v := s.get(a[1])
	switch {
	case v == nil:
		return int64(-2)
	case v.expire == 0:
		return int64(-1)
	}
	return v.expire
}

func cmdPersist(s *Server, a []string) any {
	v := s.get(a[1])
	if v == nil || v.expire == 0 {
		return int64(0)
	}
	v.expire = 0
	return int64(1)
}

// expire sets when a key expires, given from when its argument counts.
func (s *Server) expire(a []string, from, unit int64) any {
	only, err := expireOptions(a[3:])
	if err != "" {
		return err
	}
	at, ok := parseInt(a[2])
	if !ok {
		return errNotInt
	}
	if at > math.MaxInt64/unit || at < math.MinInt64/unit || at*unit > math.MaxInt64-from {
		return errExpireTime(strings.ToLower(a[0]))
	}
	at = at*unit + from
	v := s.get(a[1])
	switch {
	case v == nil,
		only["NX"] && v.expire != 0, only["XX"] && v.expire == 0,
		only["GT"] && (v.expire == 0 || at <= v.expire), only["LT"] && v.expire != 0 && at >= v.expire:
		return int64(0)
	case at <= s.now() && !s.applies:
		delete(s.db.keys, a[1])
	default:
		v.expire = at
	}
	return int64(1)
}

func expireOptions(options []string) (only map[string]bool, err Err) {
	if len(options) == 0 {
		return nil, ""
	}
	only = map[string]bool{}
	for _, option := range options {
		switch name := strings.ToUpper(option); name {
		case "NX", "XX", "GT", "LT":
			only[name] = true
		default:
			return nil, Err(clean("ERR Unsupported option " + option))
		}
	}
	switch {
	case only["NX"] && len(only) > 1:
		return nil, "ERR NX and XX, GT or LT options at the same time are not compatible"
	case only["GT"] && only["LT"]:
		return nil, "ERR GT and LT options at the same time are not compatible"
	}
	return only, ""
}

func cmdKeys(s *Server, a []string) any {
	all := []any{}
	for _, key := range s.shuffle(s.Keys()) {
		if a[1] == "*" || matches(a[1], key) {
			all = append(all, key)
		}
	}
	return all
}

func cmdScan(s *Server, a []string) any {
	part, err := scanOptions(a[1], a[2:], true)
	if err != "" {
		return err
	}
	names, next := s.scan(s.Keys(), part)
	all := []any{}
	for _, key := range names {
		if v := s.get(key); part.match(key) && (part.kind == "" || same(part.kind, v.kind())) {
			all = append(all, key)
		}
	}
	return []any{next, all}
}

// scanned is what a SCAN or HSCAN asks for.
type scanned struct {
	cursor, count uint64
	pattern       string
	kind          string // empty means any
}

func (p *scanned) match(name string) bool { return p.pattern == "*" || matches(p.pattern, name) }

func scanOptions(cursor string, options []string, ofKeys bool) (p scanned, err Err) {
	p.count, p.pattern = 10, "*"
	at, ok := parseCursor(cursor)
	if !ok {
		return p, errCursor
	}
	p.cursor = at
	for i := 0; i < len(options); i += 2 {
		if i+1 == len(options) {
			return p, errSyntax
		}
		switch text := options[i+1]; {
		case same(options[i], "COUNT"):
			n, ok := parseInt(text)
			if !ok {
				return p, errNotInt
			} else if n < 1 {
				return p, errSyntax
			}
			p.count = uint64(n)
		case same(options[i], "MATCH"):
			p.pattern = text
		case same(options[i], "TYPE") && ofKeys:
			p.kind = text
		default:
			return p, errSyntax
		}
	}
	return p, ""
}

// parseCursor reads a cursor, as strtoul of the C library does.
func parseCursor(text string) (uint64, bool) {
	if text = cText(text); text == "" {
		return 0, true
	}
	digits := strings.TrimPrefix(text, "-")
	if len(digits) == len(text) {
		digits = strings.TrimPrefix(text, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if text[0] == '-' {
		n = -n
	}
	return n, err == nil
}

// scan returns some names, and the cursor that continues. The cursor is a place: so a scan from zero finds every name that is there all
// the time, whatever else comes and goes.
func (s *Server) scan(names []string, part scanned) (some []string, next string) {
	from := uint32(part.cursor) // Redis masks the cursor, too
	for _, name := range s.shuffle(names) {
		place := s.place(name)
		switch {
		case place < from:
		case uint64(len(some)) >= part.count && place != s.place(some[len(some)-1]):
			return some, strconv.FormatUint(uint64(place), 10)
		default:
			some = append(some, name)
		}
	}
	return some, "0"
}

func cmdFlush(s *Server, a []string) any {
	if len(a) > 2 || len(a) == 2 && !same(a[1], "ASYNC") && !same(a[1], "SYNC") {
		return errSyntax
	}
	s.db.keys = map[string]*value{}
	return Status("OK")
}

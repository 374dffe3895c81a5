package simredis

import (
	"math"
	"strconv"
	"strings"
)

var stringCommands = map[string]run{
	"GET":    cmdGet,
	"SET":    cmdSet,
	"STRLEN": cmdStrLen,
	"INCR":   func(s *Server, a []string) any { return s.increase(a[1], 1) },
	"DECR":   func(s *Server, a []string) any { return s.increase(a[1], -1) },
	"INCRBY": cmdIncrBy,
	"DECRBY": cmdDecrBy,
}

func cmdGet(s *Server, a []string) any {
	v, err := s.find(a[1], "string")
	switch {
	case err != "":
		return err
	case v == nil:
		return nil
	}
	return v.text
}

func cmdStrLen(s *Server, a []string) any {
	v, err := s.find(a[1], "string")
	switch {
	case err != "":
		return err
	case v == nil:
		return int64(0)
	}
	return int64(len(v.text))
}

// setting is what the options of SET say.
type setting struct {
	only      string // NX, XX or empty
	get, keep bool
	lease     string
	unit      int64 // of the lease, in ms; zero means that there is none
	now       int64 // 1 if the lease begins now, 0 if it is a time
}

func cmdSet(s *Server, a []string) any {
	o, err := setOptions(a[3:])
	if err != "" {
		return err
	}
	v := &value{text: a[2]}
	if o.unit != 0 {
		at, ok := parseInt(o.lease)
		switch {
		case !ok:
			return errNotInt
		case at <= 0 || at > math.MaxInt64/o.unit || at*o.unit > math.MaxInt64-o.now*s.now():
			return errExpireTime("set")
		}
		v.expire = at*o.unit + o.now*s.now()
	}
	var reply any = Status("OK")
	old := s.get(a[1])
	if o.get {
		if old == nil {
			reply = nil
		} else if old.kind() != "string" {
			return errWrongType
		} else {
			reply = old.text
		}
	}
	if o.only == "NX" && old != nil || o.only == "XX" && old == nil {
		if o.get {
			return reply
		}
		return nil
	}
	if o.keep && old != nil {
		v.expire = old.expire
	}
	s.db.keys[a[1]] = v
	return reply
}

func setOptions(options []string) (o setting, err Err) {
	for i := 0; i < len(options); i++ {
		switch name := strings.ToUpper(options[i]); name {
		case "NX", "XX":
			if o.only != "" && o.only != name {
				return o, errSyntax
			}
			o.only = name
		case "GET":
			o.get = true
		case "KEEPTTL":
			o.keep = true
		case "PX", "EX", "PXAT", "EXAT":
			if o.unit != 0 || i+1 == len(options) {
				return o, errSyntax
			}
			o.unit = 1
			if name[0] == 'E' {
				o.unit = 1000
			}
			o.now = truth(len(name) == 2)
			i++
			o.lease = options[i]
		default:
			return o, errSyntax
		}
		if o.keep && o.unit != 0 {
			return o, errSyntax
		}
	}
	return o, ""
}

func cmdIncrBy(s *Server, a []string) any {
	by, ok := parseInt(a[2])
	if !ok {
		return errNotInt
	}
	return s.increase(a[1], by)
}

func cmdDecrBy(s *Server, a []string) any {
	by, ok := parseInt(a[2])
	switch {
	case !ok:
		return errNotInt
	case by == math.MinInt64:
		return Err("ERR decrement would overflow")
	}
	return s.increase(a[1], -by)
}

func (s *Server) increase(key string, by int64) any {
	v, err := s.find(key, "string")
	if err != "" {
		return err
	}
	n, ok := int64(0), true
	if v != nil {
		n, ok = parseInt(v.text)
	}
	switch {
	case !ok:
		return errNotInt
	case overflows(n, by):
		return errOverflow
	case v == nil:
		v = &value{}
		s.db.keys[key] = v
	}
	v.text = strconv.FormatInt(n+by, 10)
	return n + by
}

func overflows(n, by int64) bool {
	return by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by
}

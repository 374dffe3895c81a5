package simredis

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// parameter is one of CONFIG.
type parameter struct {
	initial   string
	kind      parameterKind
	low, high int64 // of a number
	one       []string
	alias     string // another name of it
}

type parameterKind int

const (
	aText parameterKind = iota
	aNumber
	someMemory
	yesOrNo
	oneOf
	fixed
)

const mostInt = 1<<31 - 1

// settings are the parameters that simredis has. Those of them that it does not act on are accepted all the same.
var settings = map[string]parameter{
	"maxmemory":                   {initial: "0", kind: someMemory},
	"maxmemory-policy":            {initial: "noeviction", kind: oneOf, one: policies},
	"maxclients":                  {initial: "10000", kind: aNumber, low: 1, high: 1<<32 - 1},
	"min-replicas-to-write":       {initial: "0", kind: aNumber, high: mostInt, alias: "min-slaves-to-write"},
	"min-replicas-max-lag":        {initial: "10", kind: aNumber, high: mostInt, alias: "min-slaves-max-lag"},
	"replica-serve-stale-data":    {initial: "yes", kind: yesOrNo, alias: "slave-serve-stale-data"},
	"replica-read-only":           {initial: "yes", kind: yesOrNo, alias: "slave-read-only"},
	"stop-writes-on-bgsave-error": {initial: "yes", kind: yesOrNo},
	"requirepass":                 {},
	"save":                        {initial: "3600 1 300 100 60 10000"},
	"notify-keyspace-events":      {},
	"dir":                         {initial: "/"},
	"appendonly":                  {initial: "no", kind: yesOrNo},
	"busy-reply-threshold":        {initial: "5000", kind: aNumber, high: 1<<63 - 1, alias: "lua-time-limit"},
	"timeout":                     {initial: "0", kind: aNumber, high: mostInt},
	"tcp-keepalive":               {initial: "300", kind: aNumber, high: mostInt},
	"key-load-delay":              {initial: "0", kind: aNumber, low: -mostInt - 1, high: mostInt},
	"cluster-node-timeout":        {initial: "15000", kind: aNumber, high: 1<<63 - 1},
	"cluster-announce-port":       {initial: "0", kind: aNumber, high: 65535},
	"cluster-enabled":             {initial: "no", kind: fixed},
	"databases":                   {initial: "16", kind: fixed},
}

var policies = []string{
	"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction",
}

// settingOf returns the name of a parameter, given that or its alias.
func settingOf(name string) (string, bool) {
	name = strings.ToLower(name)
	if _, ok := settings[name]; ok {
		return name, true
	}
	for of, p := range settings {
		if p.alias != "" && p.alias == name {
			return of, true
		}
	}
	return "", false
}

// value returns what a parameter becomes by a text, or what is wrong with the text.
func (p parameter) value(text string) (value, wrong string) {
	switch p.kind {
	case aNumber:
		n, ok := parseInt(text)
		if !ok {
			return "", "argument couldn't be parsed into an integer"
		} else if n < p.low || n > p.high {
			return "", "argument must be between " + strconv.FormatInt(p.low, 10) + " and " + strconv.FormatInt(p.high, 10) + " inclusive"
		}
	case someMemory:
		n, ok := parseMemory(text)
		if !ok {
			return "", "argument must be a memory value"
		}
		return strconv.FormatUint(n, 10), ""
	case yesOrNo:
		if text = strings.ToLower(text); text != "yes" && text != "no" {
			return "", "argument must be 'yes' or 'no'"
		}
	case oneOf:
		if text = strings.ToLower(text); !slices.Contains(p.one, text) {
			return "", "argument(s) must be one of the following: " + strings.Join(p.one, ", ")
		}
	case fixed:
		return "", "can't set immutable config"
	case aText:
	}
	return text, ""
}

var unitsOfMemory = map[string]uint64{
	"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30,
}

// parseMemory reads a number of bytes such as 4mb.
func parseMemory(text string) (uint64, bool) {
	text = strings.ToLower(cText(text))
	digits := strings.TrimRight(text, "bkmg")
	if digits == "" {
		return 0, text == "" || unitsOfMemory[text] != 0
	}
	unit, ok := unitsOfMemory[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 64)
	return n * unit, ok && err == nil
}

// number returns a parameter that is a number.
func (s *Server) number(name string) int64 {
	n, _ := strconv.ParseInt(s.settings[name], 10, 64)
	return n
}

func cmdConfigSet(c *Conn, a []string) any {
	if len(a)%2 != 0 {
		return errSyntax
	}
	s, next := c.server, map[string]string{}
	for i := 2; i < len(a); i += 2 {
		failed := func(why string) Err {
			return Err(clean("ERR CONFIG SET failed (possibly related to argument " + inQuotes(a[i]) + ") - " + why))
		}
		name, ok := settingOf(a[i])
		if !ok {
			return Err(clean("ERR Unknown option or number of arguments for CONFIG SET - " + inQuotes(a[i])))
		}
		if _, twice := next[name]; twice {
			return failed("duplicate parameter")
		}
		value, wrong := settings[name].value(a[i+1])
		if wrong != "" {
			return failed(wrong)
		}
		next[name] = value
	}
	if password, ok := next["requirepass"]; ok && password != s.settings["requirepass"] {
		s.requirePassword(password)
	}
	maps.Copy(s.settings, next)
	s.learnSettings()
	return Status("OK")
}

// requirePassword gives the user "default" a password, or none.
func (s *Server) requirePassword(password string) {
	u := s.users[defaultUser]
	u.apply("resetpass")
	if password == "" {
		u.apply("nopass")
	} else {
		u.apply(">" + password)
	}
}

func cmdConfigGet(c *Conn, a []string) any {
	found := map[string]string{}
	for of, p := range settings {
		for _, name := range []string{of, p.alias} {
			if name != "" && slices.ContainsFunc(a[2:], func(pattern string) bool { return matches(strings.ToLower(pattern), name) }) {
				found[name] = c.server.settings[of]
			}
		}
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	all := []any{}
	for _, name := range c.server.shuffle(names) {
		all = append(all, name, found[name])
	}
	return all
}

package simredis

import (
	"encoding/json"
	"strconv"
	"strings"
)

// dump is a value as DUMP replies it. The form is that of simredis: a redis-server cannot read it.
type dump struct {
	Kind   string
	Texts  [][]byte
	Scores []string
	Big    bool
}

var dumpCommands = map[string]run{"DUMP": cmdDump, "RESTORE": cmdRestore, "MIGRATE": cmdMigrate}

// pack returns a value as a text.
func (v *value) pack() string {
	d := dump{Kind: v.kind()}
	switch {
	case v.hash != nil:
		d.Big = v.hash.big
		for _, name := range v.hash.names {
			d.Texts = append(d.Texts, []byte(name), []byte(v.hash.values[name]))
		}
	case v.list != nil:
		for _, text := range v.list.all {
			d.Texts = append(d.Texts, []byte(text))
		}
	case v.zset != nil:
		for _, e := range v.zset.order {
			d.Texts, d.Scores = append(d.Texts, []byte(e.member)), append(d.Scores, formatScore(e.score))
		}
	default:
		d.Texts = [][]byte{[]byte(v.text)}
	}
	text, _ := json.Marshal(d) // it has nothing but texts
	return string(text)
}

// unpack returns the value that a text has.
func unpack(text string) (*value, bool) {
	var d dump
	if json.Unmarshal([]byte(text), &d) != nil || d.Kind == "" {
		return nil, false
	}
	v := &value{}
	switch d.Kind {
	case "hash":
		v.hash = newHash()
		for i := 0; i+1 < len(d.Texts); i += 2 {
			v.hash.set(string(d.Texts[i]), string(d.Texts[i+1]))
		}
		v.hash.big = d.Big
	case "list":
		v.list = &list{}
		for _, text := range d.Texts {
			v.list.all = append(v.list.all, string(text))
		}
	case "zset":
		v.zset = newZSet()
		for i, member := range d.Texts {
			score, _ := parseFloat(d.Scores[i])
			v.zset.set(string(member), score)
		}
	default:
		v.text = string(d.Texts[0])
	}
	return v, true
}

func cmdDump(s *Server, a []string) any {
	if v := s.get(a[1]); v != nil {
		return v.pack()
	}
	return nil
}

func cmdRestore(s *Server, a []string) any {
	replace, absolute := false, false
	for _, option := range a[4:] {
		switch {
		case same(option, "REPLACE"):
			replace = true
		case same(option, "ABSTTL"):
			absolute = true
		default:
			return errSyntax
		}
	}
	if !replace && s.get(a[1]) != nil {
		return Err("BUSYKEY Target key name already exists.")
	}
	ttl, ok := parseInt(a[2])
	switch {
	case !ok:
		return errNotInt
	case ttl < 0:
		return Err("ERR Invalid TTL value, must be >= 0")
	}
	v, ok := unpack(a[3])
	if !ok {
		return Err("ERR DUMP payload version or checksum are wrong")
	}
	if v.expire = ttl; ttl != 0 && !absolute {
		v.expire += s.now()
	}
	s.db.keys[a[1]] = v
	return Status("OK")
}

// cmdMigrate moves keys to another server, at once.
func cmdMigrate(s *Server, a []string) any {
	port, ok := parseInt(a[2])
	if !ok || s.Resolve == nil {
		return errNotSimulated("the network")
	}
	to := s.Resolve(a[1], port)
	if to == nil {
		return Err("IOERR error or timeout connecting to the client")
	}
	replace := ""
	for _, option := range a[6:] {
		if same(option, "KEYS") {
			break
		} else if same(option, "REPLACE") {
			replace = "REPLACE"
		}
	}
	var moved []string
	for _, key := range movableKeys("migrate", a) {
		v := s.get(key)
		if v == nil {
			continue
		}
		left := int64(0)
		if v.expire != 0 {
			left = max(v.expire-s.now(), 1) // not the moment: the clock of the other server may differ
		}
		args := []string{"RESTORE", key, strconv.FormatInt(left, 10), v.pack()}
		if replace != "" {
			args = append(args, replace)
		}
		if err := to.take(args); err != "" {
			return Err("ERR Target instance replied with error: " + strings.TrimPrefix(string(err), "ERR "))
		}
		delete(s.db.keys, key)
		moved = append(moved, key)
	}
	if len(moved) == 0 {
		return Status("NOKEY")
	}
	return Status("OK")
}

// take runs RESTORE as MIGRATE of another server sends it.
func (s *Server) take(args []string) Err {
	restore := table["RESTORE"]
	if s.node != nil {
		if err := s.node.serve(restore, []routed{{restore, args}}, true, false); err != "" {
			return err
		}
	}
	err, _ := s.perform(s.own, restore, args).(Err)
	return err
}

package scene

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Log writes the events of a run for a reader: processes have their names, and what somebody does with a lock shows who has it and who wants it.
// It draws no random number, and so it has no map: the run is the same without it.
type Log struct {
	to      io.Writer
	names   []string    // of the locks
	clients [][2]string // their identities, and whose they are
	locks   []*logged
	events  []string
	broken  int // how many events there are up to the first broken promise
}

// logged is what the events say about a lock.
type logged struct {
	name       string
	has, wants []string // processes
	dead       []string // killed processes that had it
}

// NewLog returns a log of a scene.
func NewLog(to io.Writer, s Scene) *Log {
	l := &Log{to: to}
	for _, lock := range s.Locks {
		for _, name := range append(strings.Fields(lock.Name), lock.Name) {
			if !slices.Contains(l.names, name) {
				l.names = append(l.names, name)
			}
		}
	}
	return l
}

// Write implements [io.Writer]. It gets one event, of a [simnet.Trace].
func (l *Log) Write(p []byte) (int, error) {
	at, event, _ := strings.Cut(strings.TrimSuffix(string(p), "\n"), " ")
	if who, id, ok := strings.Cut(event, " starts, and is "); ok {
		id, _, _ = strings.Cut(id, " ")
		l.clients = append(l.clients, [2]string{id, who})
	} else {
		for _, c := range l.clients {
			event = strings.ReplaceAll(event, c[0], c[1])
		}
	}
	if d, err := time.ParseDuration(at); err == nil {
		at = d.Round(time.Microsecond).String()
	}
	line := fmt.Sprintf("%14s  %s%s", at, strings.Map(legible, event), l.follow(event))
	l.events = append(l.events, line)
	if l.broken == 0 && strings.HasPrefix(event, "BROKEN") {
		l.broken = len(l.events)
	}
	if l.to != nil {
		if _, err := io.WriteString(l.to, line+"\n"); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// legible has a dot in the place of each byte of a permit's id that is no text.
func legible(r rune) rune {
	if unicode.IsPrint(r) && r != unicode.ReplacementChar {
		return r
	}
	return '.'
}

// follow notes what an event says about a lock, and returns who has and who wants it then.
func (l *Log) follow(event string) string {
	who, does, _ := strings.Cut(event, " ")
	if strings.HasPrefix(does, "is dead to ") {
		for _, k := range l.locks {
			k.dies(who)
		}
		return ""
	}
	for _, verb := range []struct {
		text, end string
		change    func(k *logged)
	}{
		{"wants ", ": ", func(k *logged) { k.wants = append(k.wants, who) }},
		{"does not get ", ": ", func(k *logged) { remove(&k.wants, who) }},
		{"got ", ", with the token ", func(k *logged) { remove(&k.wants, who); k.has, k.dead = append(k.has, who), nil }},
		{"unlocks ", ": ", func(k *logged) { remove(&k.has, who) }},
		{"gave up ", ": ", func(k *logged) { remove(&k.has, who) }},
		{"received ", " of ", func(k *logged) { remove(&k.has, does[strings.LastIndex(does, " ")+1:]); k.has = append(k.has, who) }},
	} {
		name, ok := strings.CutPrefix(does, verb.text)
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, verb.end)
		if slices.Contains(l.names, name) {
			k := l.lock(name)
			verb.change(k)
			return "   <" + l.state(name) + ">"
		}
	}
	return ""
}

// lock returns what is known about the lock of a name.
func (l *Log) lock(name string) *logged {
	for _, k := range l.locks {
		if k.name == name {
			return k
		}
	}
	l.locks = append(l.locks, &logged{name: name})
	return l.locks[len(l.locks)-1]
}

// state says who has and who wants a lock, and what shares a member with it.
func (l *Log) state(name string) string {
	var all []string
	for _, k := range l.locks {
		shares := slices.ContainsFunc(strings.Fields(k.name), func(member string) bool { return slices.Contains(strings.Fields(name), member) })
		if k.name != name && (!shares || len(k.has)+len(k.dead)+len(k.wants) == 0) {
			continue
		}
		text := k.name + ": nobody"
		if len(k.has) > 0 {
			text = k.name + ": " + strings.Join(k.has, ", ")
		}
		if len(k.dead) > 0 {
			text += "; of the dead: " + strings.Join(k.dead, ", ")
		}
		if len(k.wants) > 0 {
			text += "; wanted by " + strings.Join(k.wants, ", ")
		}
		all = append(all, text)
	}
	return strings.Join(all, " | ")
}

// dies notes that a process was killed. What it has stays until its lease ends.
func (k *logged) dies(who string) {
	for remove(&k.wants, who) {
	}
	for remove(&k.has, who) {
		k.dead = append(k.dead, who)
	}
}

// remove removes one name from a list. It reports false if there is none.
func remove(list *[]string, name string) bool {
	i := slices.Index(*list, name)
	if i < 0 {
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}

// Story returns the last events up to the first broken promise that concern its lock, or else its process, and what nemeses did.
func (l *Log) Story(n int) (all []string) {
	if l.broken == 0 {
		return nil
	}
	end := l.events[l.broken-1]
	var about []string
	for _, name := range l.names {
		if mentions(end, name) {
			about = append(about, name)
		}
	}
	if len(about) == 0 {
		for _, c := range l.clients {
			if mentions(end, c[1]) {
				about = append(about, c[1])
			}
		}
	}
	for i := l.broken - 1; i >= 0 && len(all) < n; i-- {
		e := l.events[i]
		if i == l.broken-1 || slices.ContainsFunc(append(about, "nemesis", "hangs", "stops", "passes"), func(name string) bool { return mentions(e, name) }) {
			all = append(all, e)
		}
	}
	slices.Reverse(all)
	return all
}

// mentions reports whether an event has a name, alone, or in a key or a channel of Redis.
func mentions(event, name string) bool {
	for rest := event; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		before, after := " ", " "
		if i > 0 {
			before = rest[i-1 : i]
		}
		if end := i + len(name); end < len(rest) {
			after = rest[end : end+1]
		}
		if strings.Contains(" {[\"", before) && strings.Contains(" }],:;\">", after) {
			return true
		}
		rest = rest[i+1:]
	}
}

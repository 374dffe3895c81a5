package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// use is what a lock uses a key or a channel for.
type use struct {
	name, kind string
	role       string // what it is
	sort       string // the type of the key in Redis, or "channel"
}

// uses returns all keys and channels of a lock, as the code makes them for one holder of a client.
func uses(kindName string, k *Kind, name, clientID string, number int64) map[string]use {
	all := make(map[string]use)
	add := func(text, role, sort string) { all[sortOf(sort)+text] = use{name, kindName, role, sort} }
	if k == CountDown {
		l := NewLatch(name, clientID)
		marks, _ := l.keys[1].(string)
		add(l.Name(), "lock", "string")
		add(marks, "tombstones", "hash")
		add(l.Channel, "Redisson's channel", "channel")
		return all
	}
	n := NewNames(k, name, clientID)
	h := NewHolder(k, n, clientID, number)
	text := func(key any) string {
		s, _ := key.(string)
		return s
	}
	if k.HasPermits() {
		add(text(n.Keys[0]), "lock", "string")
	} else {
		add(text(n.Keys[0]), "lock", "hash")
	}
	for i, key := range k.Keys {
		switch key {
		case "redisson_lock_queue":
			add(text(n.Keys[i+1]), "queue", "list")
		case "redisson_lock_timeout":
			add(text(n.Keys[i+1]), "deadlines", "zset")
		case tokenKey:
			add(text(n.Keys[i+1]), "token", "string")
		case seatsKey:
			add(text(n.Keys[i+1]), "seats", "hash")
		case "*" + leases:
			add(text(n.Keys[i+1]), "leases", "zset")
		default:
			panic("a key of unknown use: " + key)
		}
	}
	add(text(n.Keys[len(n.Keys)-1]), "tombstones", "hash")
	if k.HoldKey != "" {
		add(h.Keys(n)[len(n.Keys)-1], "hold", "string")
	}
	if k.Renew != nil {
		renewal := NewRenewal(k.Renew, 1, 1)
		renewal.Renew(&h, name)
		for _, key := range renewal.Keys {
			if _, known := all["key "+text(key)]; !known {
				panic("a renewal has a key of unknown use: " + text(key))
			}
		}
	}
	for _, key := range n.LineKeys {
		if _, known := all["key "+text(key)]; !known {
			add(text(key), "line", "zset")
		}
	}
	if n.Channel != "" {
		add(n.Channel, "Redisson's channel", "channel")
	}
	if k.Line != nil {
		add(n.Base(), "Redisson's channel", "channel")
		add(n.Twin(), "twin", "channel")
		add(n.Own(), "own channel", "channel")
	}
	if k.Queues {
		seat := NewSeat(n, clientID, 1)
		add(seat.Channel, "channel of a seat", "channel")
		all["seat in "+text(n.Keys[1])+" "+text(seat.name)] = use{name, kindName, "seat", "member"}
	}
	return all
}

// sortOf returns the space of names to which a sort belongs: a key and a channel of one name have nothing in common.
func sortOf(sort string) string {
	if sort == "channel" {
		return "channel "
	}
	return "key "
}

// mayShare reports whether two locks of different names may have something in common.
func mayShare(a, b use) bool {
	switch {
	case a.sort != b.sort:
		return true // Redis refuses the command of the one that comes second: see TestKeysOfAnotherType
	case a.role != b.role:
		return false
	}
	// What Redisson's layout has in common for x and {x}, and the marks of a latch, whose name always gets braces: a client never uses
	// a number twice.
	return a.role == "tombstones" && (a.kind == "latch" || b.kind == "latch") || slices.Contains([]string{"queue", "deadlines", "token", "leases", "Redisson's channel"}, a.role) &&
		(a.name == "{"+b.name+"}" || b.name == "{"+a.name+"}")
}

// TestLocksHaveNothingInCommon is rule T.1: two locks of different names share no key, channel, seat or member by which one of them
// could be granted, freed, woken for good or shown as the other. It takes names that could collide, and their derived keys and
// channels as names in turn. No name has the id of a client, which is random: it could be the channel of that client.
func TestLocksHaveNothingInCommon(t *testing.T) {
	t.Parallel()
	clients := []string{"c1c1c1c1-7c0f-4f5e-9f0c-3f9b1f0d2a77", "c2c2c2c2-7c0f-4f5e-9f0c-3f9b1f0d2a77"}
	kinds := map[string]*Kind{"permit": Permit, "plain permit": PlainPermit, "latch": CountDown}
	maps.Copy(kinds, Kinds)
	names := make(map[string]bool)
	used := make(map[string][]use)
	var derivedNames []string
	var number int64 // a client never uses one twice
	visit := func(name string, derive bool) {
		if names[name] {
			return
		}
		names[name] = true
		for kindName, k := range kinds {
			if k == CountDown && CheckLatch(name, false) != nil || k != CountDown && k.CheckName(name, false) != nil {
				continue
			}
			for i, client := range clients {
				number++
				for text, u := range uses(kindName, k, name, client, number) {
					if i == 0 || !slices.ContainsFunc(used[text], func(o use) bool { return o == u }) {
						used[text] = append(used[text], u)
					}
					_, text, _ = strings.Cut(text, " ")
					if derive && u.sort != "member" && !strings.Contains(text, client) {
						derivedNames = append(derivedNames, text)
					}
				}
			}
		}
	}
	level := []string{"x", "a}b", "}", "{", "x:y", "timeout"}
	for depth := range 3 {
		var next []string
		for _, name := range level {
			visit(name, depth < 2)
			for _, form := range []string{
				"{%s}", "%s{1}", "{1}%s", "%s}", "{%s", "p:%s", "p:{%s}", "{%s}:y", "%s{}", "%s:waiters", "%s:rlock", "%s:timeout", "%s:-1", "%s" + twinSuffix,
			} {
				next = append(next, fmt.Sprintf(form, name))
			}
		}
		level = next
	}
	for _, name := range derivedNames {
		visit(name, false)
		visit("{"+name+"}", false)
	}
	for text, all := range used {
		for i, a := range all {
			for _, b := range all[:i] {
				require.True(t, a.name == b.name || mayShare(a, b), "%s is the %s of the %s %q, and the %s of the %s %q",
					text, a.role, a.kind, a.name, b.role, b.kind, b.name)
			}
		}
	}
	require.Greater(t, len(names), 1000)
}

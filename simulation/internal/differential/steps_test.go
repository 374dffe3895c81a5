package differential

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// step is one thing that happens, after some time. The zero conn is the connection of the commands; the others have subscriptions.
type step struct {
	after time.Duration
	what  string
	conn  int
	args  []string
}

// What a step can be, besides a subscription, which has the name of its command in Redis.
const (
	command = "command"
	drop    = "drop" // a connection loses all its subscriptions
	compare = "compare"
)

// String names scripts, so that a person can read it.
func (s step) String() string {
	args := make([]string, len(s.args))
	for i, arg := range s.args {
		if args[i] = scriptNames()[arg]; args[i] == "" {
			args[i] = fmt.Sprintf("%.300q", arg)
		}
	}
	return fmt.Sprint("+", s.after, " ", s.what, " ", s.conn, " ", strings.Join(args, " "))
}

// scriptNames has the names of scripts by their digests and sources.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, s := range scripts() {
		names[s.digest], names[s.source] = "<"+s.name+">", "<source of "+s.name+">"
	}
	return names
})

// conns is how many connections have subscriptions.
const conns = 3

// place is a Redis that steps can be played on. Each play begins with an empty one. It returns the outcome of each step: the reply to a
// command, and for compare all messages and keys.
type place interface{ play(steps []step) []any }

// began is when each play begins.
var began = time.Date(2026, 1, 1, 0, 0, 0, 123456000, time.UTC)

// differ plays steps on two places. It returns the first step whose outcomes differ, or -1, and the outcomes.
func differ(steps []step, a, b place) (at int, first, second []any) {
	first, second = a.play(steps), b.play(steps)
	for i := range steps {
		first[i], second[i] = normal(steps[i], first[i]), normal(steps[i], second[i])
		if !reflect.DeepEqual(first[i], second[i]) {
			return i, first, second
		}
	}
	return -1, first, second
}

// shrink returns a shorter list of steps after which the outcomes differ: it leaves out whatever is not needed. The time passes
// nevertheless.
func shrink(steps []step, a, b place) []step {
	for size := len(steps) / 2; size > 0; size /= 2 {
		for from := 0; from+size < len(steps); {
			fewer := slices.Concat(steps[:from], steps[from+size:])
			for _, s := range steps[from : from+size] {
				fewer[from].after += s.after
			}
			if at, _, _ := differ(fewer, a, b); at >= 0 {
				steps = fewer[:at+1]
			} else {
				from += size
			}
		}
	}
	return steps
}

// normal returns an outcome without what Redis leaves open.
func normal(s step, outcome any) any {
	switch o := outcome.(type) {
	case simredis.Err:
		if strings.HasPrefix(string(o), "ERR Error compiling script") {
			return simredis.Err("ERR Error compiling script")
		}
	case []any:
		if s.what == command && unordered(s.args) {
			return sorted(o)
		}
		if s.what == command && strings.EqualFold(s.args[0], "SCAN") && len(o) == 2 {
			keys, _ := o[1].([]any)
			return []any{o[0], sorted(keys)}
		}
	}
	return outcome
}

// unordered reports whether the order of a reply is open.
func unordered(args []string) bool {
	return strings.EqualFold(args[0], "KEYS") || strings.EqualFold(args[0], "PUBSUB") && len(args) > 1 && strings.HasSuffix(args[1], "CHANNELS")
}

func sorted(list []any) []any {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// contents returns all keys, with types, leases and values.
func contents(do func(commands [][]string) []any) any {
	list, _ := do([][]string{{"KEYS", "*"}})[0].([]any)
	keys := sorted(list)
	var kinds, values [][]string
	for _, k := range keys {
		key, _ := k.(string)
		kinds = append(kinds, []string{"TYPE", key}, []string{"PTTL", key})
	}
	replies := do(kinds)
	for i, k := range keys {
		key, _ := k.(string)
		value, ok := map[any][]string{
			simredis.Status("hash"): {"HGETALL", key}, simredis.Status("list"): {"LRANGE", key, "0", "-1"},
			simredis.Status("zset"): {"ZRANGE", key, "0", "-1", "WITHSCORES"}, simredis.Status("string"): {"GET", key},
		}[replies[2*i]]
		if !ok { // the type was refused
			value = []string{"TYPE", key}
		}
		values = append(values, value)
	}
	return []any{keys, replies, do(values)}
}

package differential

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// raws is how many keys are of raw commands: the first ones of a generator.
const raws = 4

func digestOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// generator makes the steps of a round. A round is about few names, so that its commands meet.
type generator struct {
	*rand.Rand
	scripts []script
	names   []string
	kinds   []*wire.Kind // those that the round mixes
	past    [][]string   // commands that may come again, late
	steps   []step
	keys    []string // that the calls so far have named
	fields  []string // holders and arguments that they have named
}

// newGenerator returns the generator of a round of a seed.
func newGenerator(seed, round uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, round)), scripts: scripts(), keys: []string{"raw:a", "raw:b", "raw:c", "{raw}:d"}} // a string, a hash, a list, a sorted set
	g.names = pick(g, [][]string{{"order:7"}, {"a", "{a}"}, {"x{y}z", "b"}, {"Ω", "c"}})
	all := kinds()
	switch g.IntN(4) {
	case 0:
		g.kinds = all
	case 1, 2: // kinds that share the name
		first := pick(g, all)
		for _, k := range all {
			if k.Family == first.Family {
				g.kinds = append(g.kinds, k)
			}
		}
	default:
		g.kinds = []*wire.Kind{pick(g, all)}
	}
	return g
}

func pick[E any](g *generator, all []E) E { return all[g.IntN(len(all))] }

// one reports true once in so many times.
func (g *generator) one(in int) bool { return g.IntN(in) == 0 }

// round returns the steps of a round, with so many commands.
func (g *generator) round(commands int) []step {
	g.load()
	for range commands {
		s := step{after: g.pause(), what: command}
		switch g.IntN(40) {
		case 0:
			s = step{what: compare}
		case 1, 2:
			s = g.subscription()
		case 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
			s.args = g.raw()
		case 13, 14:
			s.args = g.number()
		case 15, 16, 17:
			s.args = g.implausible()
		case 18, 19:
			s.args = g.number()
		case 20, 21, 22:
			if len(g.past) > 0 {
				s.args = pick(g, g.past)
				break
			}
			fallthrough
		default:
			s.args = g.plausible()
		}
		if s.what == command && g.one(2000) {
			g.steps = append(g.steps, step{what: command, args: []string{"SCRIPT", "FLUSH"}}, s)
			g.load()
			continue
		}
		g.steps = append(g.steps, s)
	}
	return append(g.steps, step{what: compare})
}

// load has the server know all scripts.
func (g *generator) load() {
	for _, s := range g.scripts {
		g.steps = append(g.steps, step{what: command, args: []string{"SCRIPT", "LOAD", s.source}})
	}
}

// pause returns how much time passes before a command: mostly none, often as much as a lease has.
func (g *generator) pause() time.Duration {
	switch g.IntN(20) {
	case 0, 1, 2, 3:
		return time.Duration(g.leases()) * time.Millisecond
	case 4, 5:
		return time.Millisecond
	case 6, 7:
		return time.Duration(g.IntN(1500)) * time.Microsecond
	}
	return 0
}

// leases returns a lease in ms, of few.
func (g *generator) leases() int64 {
	return pick(g, []int64{1, 2, 2, 3, 5, 10, 10, 50, 1000, 3000, 3000, 30000, 30000, 30000, 120000})
}

func (g *generator) lease() time.Duration { return time.Duration(g.leases()) * time.Millisecond }

func (g *generator) subscription() step {
	s := step{what: pick(g, []string{
		"subscribe", "subscribe", "subscribe", "ssubscribe", "ssubscribe", "psubscribe", "unsubscribe", "sunsubscribe", "punsubscribe", drop,
	}), conn: 1 + g.IntN(conns)}
	switch s.what {
	case drop:
	case "psubscribe", "punsubscribe":
		// Redis delivers a message that matches several patterns in no order. So a connection has one.
		s.args = []string{[]string{"*", "redisson_*:{*", "*raw:?"}[s.conn-1]}
	default:
		s.args = []string{g.channel()}
	}
	return s
}

func (g *generator) channel() string {
	k := pick(g, g.kinds)
	client := g.client()
	n := wire.NewNames(k, pick(g, g.names), client)
	channels := []string{n.Channel, n.Base(), n.Own(), "raw:a", "raw:b"}
	if n.Base() != "" {
		channels = append(channels, n.Twin())
	}
	if k.Queues {
		channels = append(channels, wire.NewSeat(n, client, 1+g.IntN(2)).Channel)
	}
	if channel := pick(g, channels); channel != "" {
		return channel
	}
	return "raw:a"
}

// client returns the id of one of few clients.
func (g *generator) client() string {
	return fmt.Sprintf("0f0e0d0c-0b0a-4908-8706-05040302010%d", g.IntN(3))
}

// send returns a call as a command, and keeps it for later.
func (g *generator) send(c wire.Call) []string {
	if c.Script.Announces != wire.Untold {
		c.Args.Publish = pick(g, []wire.Publish{wire.PublishPlain, wire.PublishPlain, wire.PublishSharded, wire.PublishNode})
	}
	if c.Script.Forgets && g.one(3) {
		c.Args.Other = fmt.Sprint(g.IntN(8), " ", g.IntN(8))
	}
	args := []string{"EVALSHA", fmt.Sprint(c.Script.Digest), strconv.Itoa(len(c.Keys))}
	if g.one(10) {
		args[0], args[1] = "EVAL", c.Script.Source
	}
	for _, key := range c.Keys {
		args = append(args, fmt.Sprint(key))
	}
	for _, arg := range c.AppendArgv(nil) {
		args = append(args, fmt.Sprint(arg))
	}
	return g.keep(args, len(c.Keys))
}

// keep notes what a call has named.
func (g *generator) keep(args []string, keys int) []string {
	remember := func(list []string, texts []string) []string {
		for _, text := range texts {
			if len(list) < 60 {
				list = append(list, text)
			} else {
				list[raws+g.IntN(len(list)-raws)] = text
			}
		}
		return list
	}
	g.keys = remember(g.keys, args[3:3+keys])
	g.fields = remember(g.fields, args[3+keys:])
	if len(g.past) < 100 {
		g.past = append(g.past, args)
	} else {
		g.past[g.IntN(len(g.past))] = args
	}
	return args
}

// odd are arguments that no caller sends. None has more than 64 bytes, because the order of a hash with such a field is open.
var odd = []string{
	"", "0", "-1", "1", "3", "-0", "1e3", "0x10", "007", " 5", "5 ", "+5", "abc", "nan", "inf", "-inf", "1.5", "0.1", "-2.5", ".5", "1e-5", "1_0", "0b1",
	"99999999999999", "100000000000000", "9007199254740993", "3000000000000000", "1e15", "1e17", "123456789012345678", "1e999",
	"9223372036854775807", "-9223372036854775808", "9223372036854775808", "\x00\xff", "a\nb", "mode", "read", "write", "PUBLISH", "SPUBLISH", "NODE",
	"NX", "{", "}", "a|3000", "a|", "|t", "x 1", "+2", "5 0", "5 30000",
}

// implausible returns a call of any script with arguments that nobody may have sent, or a plausible one with one wrong argument.
func (g *generator) implausible() []string {
	if g.one(2) && len(g.past) > 0 {
		args := append([]string(nil), pick(g, g.past)...)
		if i := 3 + g.IntN(max(1, len(args)-3)); i < len(args) {
			args[i] = g.any()
		}
		return args
	}
	s := pick(g, g.scripts)
	args := []string{"EVALSHA", s.digest, ""}
	keys := g.IntN(s.keys + 2)
	if g.one(3) {
		keys = s.keys
	}
	for range keys {
		args = append(args, pick(g, g.keys))
	}
	args[2] = strconv.Itoa(keys)
	for range g.IntN(s.argv + 2) {
		args = append(args, g.any())
	}
	return args
}

// any returns any argument.
func (g *generator) any() string {
	switch {
	case g.one(2) || len(g.fields) == 0:
		return pick(g, odd)
	case g.one(4):
		return strconv.FormatInt(g.leases(), 10)
	}
	return pick(g, g.fields)
}

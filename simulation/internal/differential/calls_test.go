package differential

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// plausible returns a command that rlock may send, at that moment or too late.
func (g *generator) plausible() []string {
	if g.one(12) {
		return g.aboutLatch()
	}
	if g.one(40) {
		return g.aboutClient()
	}
	k := pick(g, g.kinds)
	name, client := pick(g, g.names), g.client()
	if k.HasPermits() {
		return g.aboutSemaphore(k, wire.NewNames(k, name, client))
	}
	n := wire.NewNames(k, name, client)
	h, last := wire.NewHolder(k, n, client, g.holder()), wire.NewHolder(k, n, client, g.holder())
	// A kind lacks some of its scripts, and then another call is made.
	for {
		if args, ok := g.aboutHolder(k, n, &h, &last, name); ok {
			return args
		}
	}
}

// holder returns the number of a holder, of few.
func (g *generator) holder() int64 { return int64(1 + g.IntN(5)) }

func (g *generator) aboutHolder(k *wire.Kind, n *wire.Names, h, last *wire.Holder, name string) (args []string, ok bool) {
	line := k.Line != nil
	switch g.IntN(16) {
	case 0, 1, 2:
		return g.send(h.Acquire(n, g.lease(), g.other(k))), true
	case 3, 4:
		if k.Queues {
			return g.send(h.Leave(n, g.tombstone(), wire.NewSeat(n, g.client(), 1+g.IntN(2)))), true
		}
		return g.send(h.Release(n, g.tombstone())), true
	case 5:
		return g.when(k.Count != nil, func() wire.Call { return h.Count(n, g.IntN(4), g.lease()) })
	case 6:
		return g.when(k.HandOver != nil, func() wire.Call { return h.HandOver(n, last, g.lease()) })
	case 7:
		return g.when(k.Park != nil, func() wire.Call { return h.Park(n, last, g.lease(), g.one(2)) })
	case 8:
		return g.when(k.HasTickets(), func() wire.Call {
			if g.one(2) {
				return h.Export(n, last, g.lease(), k.Queues || g.one(2))
			}
			return h.Adopt(n, last.Field, g.lease(), k.Queues || g.one(2))
		})
	case 9:
		return g.when(k.Inspect != nil, func() wire.Call {
			if g.one(2) {
				return k.InspectCall(n)
			}
			return h.Inspect(n)
		})
	case 10:
		return g.when(k.Force != nil && g.one(2), func() wire.Call {
			var from []string
			if g.one(2) {
				from = []string{fmt.Sprint(last.Field), "java:1"}
			}
			return k.ForceCall(n, line && k.Line.Force != nil && g.one(2), from...)
		})
	case 11:
		if k.Queues {
			seat := wire.NewSeat(n, strings.Split(fmt.Sprint(h.Field), ":")[0], 1+g.IntN(2))
			return g.send(h.Queue(n, g.lease(), g.lease(), g.term(), seat, g.one(2))), true
		}
		return g.when(k.Line.Stands() || line && k.Line.Yield != nil, func() wire.Call { return g.comes(k, n, h) })
	case 12:
		return g.when(line, func() wire.Call {
			var next *wire.Next
			if k.Line.Stands() && g.one(2) {
				next = &wire.Next{Holder: last, Lease: g.lease(), Term: g.term()}
			}
			return h.Give(n, g.tombstone(), g.term(), next)
		})
	case 13:
		return g.when(line && k.Line.Pump != nil, func() wire.Call { return k.PumpCall(n, "") })
	case 14:
		return g.when(k.Renew != nil, func() wire.Call {
			c := wire.NewRenewal(k.Renew, g.lease(), 2)
			c.Renew(h, name)
			c.Renew(last, pick(g, g.names))
			return c
		})
	}
	return texts(k.InfoCommand(n, g.one(2))), true
}

// comes returns the call by which a holder comes to the line, or yields to it.
func (g *generator) comes(k *wire.Kind, n *wire.Names, h *wire.Holder) wire.Call {
	if k.Line.Stands() {
		return h.Stand(n, g.lease(), g.term())
	}
	return h.Yield(n, g.lease(), pick(g, []time.Duration{-time.Second, 0, time.Second, time.Hour}), g.other(k))
}

// when returns a call, if the kind has it.
func (g *generator) when(has bool, call func() wire.Call) ([]string, bool) {
	if !has {
		return nil, false
	}
	return g.send(call()), true
}

// tombstone returns the lifetime of a tombstone, or zero.
func (g *generator) tombstone() time.Duration {
	if g.one(2) {
		return 0
	}
	return 2 * g.lease()
}

func (g *generator) term() time.Duration {
	return pick(g, []time.Duration{0, wire.Woken, 3 * time.Second, 3 * time.Second, 3 * time.Second, g.lease()})
}

// other returns the field by which an owner has the other side of a lock, or nil.
func (g *generator) other(k *wire.Kind) any {
	if k.Family != wire.RWFamily || g.one(2) {
		return nil
	}
	return fmt.Sprintf("%s:%d%s", g.client(), g.holder(), pick(g, []string{"", ":write"}))
}

func (g *generator) aboutSemaphore(k *wire.Kind, n *wire.Names) []string {
	s, number := wire.NewSemaphore(n), g.holder()
	id := strings.Repeat("i", 16)
	if len(g.fields) > 0 && g.one(2) {
		id = (pick(g, g.fields) + id)[:16]
	}
	switch g.IntN(10) {
	case 0, 1:
		return g.send(s.SetUp(number, int64(g.IntN(6)), pick(g, []time.Duration{0, 0, g.lease()})))
	case 2:
		if k == wire.PlainPermit {
			return g.send(s.Take(number, 1+g.IntN(3)))
		}
		return g.send(s.SetPermits(number, int64(g.IntN(6))))
	case 3:
		return g.send(s.AddPermits(number, int64(g.IntN(7)-3)))
	case 4:
		if k == wire.PlainPermit {
			return g.send(s.Drain(number))
		}
		return g.send(s.GiveBack(number, []string{id}))
	case 5:
		if k == wire.PlainPermit {
			return g.send(s.Undo(number, 1+g.IntN(3)))
		}
		return g.send(s.Count())
	case 6:
		return g.send(s.Delete(number))
	case 7:
		return g.send(s.Mark(number))
	case 8:
		if k == wire.PlainPermit {
			return g.send(s.Take(number, 1+g.IntN(3)))
		}
		return g.send(s.GiveBack(number+10, []string{id}))
	}
	return g.send(s.Count())
}

func (g *generator) aboutLatch() []string {
	l, number := wire.NewLatch(pick(g, g.names), g.client()), g.holder()
	switch g.IntN(8) {
	case 0:
		return g.send(l.TrySet(number, int64(g.IntN(4))))
	case 1:
		return g.send(l.TrySet(number, pick(g, []int64{wire.MaxCount, 99999999999999, 100000000000000})))
	case 2:
		return g.send(l.Delete(number))
	case 3:
		return g.send(l.Mark(number))
	case 4, 5:
		return g.send(l.Count())
	}
	return g.send(l.CountDown(number))
}

func (g *generator) aboutClient() []string {
	key := wire.ClientKey(g.client())
	switch g.IntN(4) {
	case 0:
		return texts([]any{"DEL", key})
	case 1:
		return texts(wire.ReadCommand(key))
	}
	identity := wire.Identity{"service", "", "1.0", "42", "1767225600000"}
	return texts(identity.WriteCommand(key, g.lease()))
}

func texts(args []any) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		all[i] = fmt.Sprint(arg)
	}
	return all
}

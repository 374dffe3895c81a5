package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

func script(c redistest.Command) bool { return c[0] == "evalsha" || c[0] == "eval" }

func every(redistest.Command) bool { return true }

func closeAll(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	n := 1 + r.IntN(5)
	for range n {
		node.Proxy.CloseAll()
		wait(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	e.What = fmt.Sprintf("%d times", n)
}

// replies loses the replies of up to most scripts, in one of the ways that a proxy offers.
func replies(lose func(*redistest.Proxy, int, func(redistest.Command) bool) *redistest.Fault, most int) nemesis {
	return func(a *Arena, r *rand.Rand, e *Event) {
		node, _ := a.master(r)
		n := 1 + r.IntN(most)
		f := lose(node.Proxy, n, script)
		wait(short(r))
		f.Release()
		e.What = fmt.Sprintf("%d of up to %d", len(f.Met()), n)
	}
}

func delay(a *Arena, r *rand.Rand, e *Event) {
	d := time.Duration(r.Int64N(int64(shortLease * 12 / 10)))
	node, _ := a.master(r)
	node.Proxy.Delay(d)
	wait(short(r))
	node.Proxy.Delay(0)
	e.What = fmt.Sprint("replies by ", d)
}

// kinds are the kinds of lock whose requests the nemeses delay.
var kinds = []*wire.Kind{wire.Plain, wire.Fenced, wire.Spin, wire.Fair, wire.FencedFair, wire.Read, wire.Write, wire.FencedWrite}

// runs reports whether a command runs one of the scripts that of returns for a kind.
func runs(c redistest.Command, of func(k *wire.Kind) []*wire.Script) bool {
	return script(c) && slices.ContainsFunc(kinds, func(k *wire.Kind) bool {
		return slices.ContainsFunc(of(k), func(s *wire.Script) bool { return s != nil && (c[1] == s.Digest || c[1] == s.Source) })
	})
}

// acquires reports whether a command asks for a lock.
func acquires(c redistest.Command) bool {
	return runs(c, func(k *wire.Kind) []*wire.Script {
		if k.Line == nil {
			return []*wire.Script{k.Acquire}
		}
		return []*wire.Script{k.Acquire, k.Line.Acquire}
	})
}

// holdRequests delays requests for locks until their callers have left.
func holdRequests(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	n := 8 + r.IntN(24)
	f := node.Proxy.HoldRequest(n, acquires)
	wait(readTimeout + short(r)/2)
	f.Release()
	e.What = fmt.Sprintf("%d of up to %d", len(f.Met()), n)
}

// passes reports whether a command hands a lock over, or is a release that names the next holder of its process.
func passes(c redistest.Command) bool {
	if runs(c, func(k *wire.Kind) []*wire.Script { return []*wire.Script{k.HandOver} }) {
		return true
	}
	const following = 6 // the index of the argument
	keys, err := strconv.Atoi(c[min(2, len(c)-1)])
	return err == nil && len(c) > 3+keys+following && c[3+keys+following] != "" &&
		runs(c, func(k *wire.Kind) []*wire.Script {
			if k.Line == nil {
				return nil
			}
			return []*wire.Script{k.Line.Release}
		})
}

// holdPassing delays hand-overs until some of the next holders have left.
func holdPassing(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	f := node.Proxy.HoldRequest(-1, passes)
	wait(readTimeout + short(r))
	f.Release()
	e.What = fmt.Sprintf("%d of them", len(f.Met()))
}

func blackHole(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	d := short(r) * 5 / 4
	a.overstay(r)
	if e.What = "both ways"; r.IntN(2) == 0 {
		node.Proxy.Freeze()
		a.silence(r, e, d)
		node.Proxy.Thaw()
		return
	}
	e.What = "of replies"
	f := node.Proxy.SwallowReply(-1, every)
	a.silence(r, e, d)
	f.Release()
}

func split(a *Arena, r *rand.Rand, e *Event) {
	d := time.Duration(1+r.IntN(30)) * time.Millisecond
	node, _ := a.master(r)
	node.Proxy.Split(d)
	wait(short(r))
	node.Proxy.Split(0)
	e.What = fmt.Sprint("the server's output, ", d, " apart")
}

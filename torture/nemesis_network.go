package torture

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
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

func blackHole(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	d := short(r) * 5 / 4
	if e.What = "both ways"; r.IntN(2) == 0 {
		node.Proxy.Freeze()
		wait(d)
		node.Proxy.Thaw()
		return
	}
	e.What = "of replies"
	f := node.Proxy.SwallowReply(-1, every)
	wait(d)
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

package simnet

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// Link is the network between one process and one server. It is safe for concurrent use.
type Link struct {
	server *Server
	name   string
	index  uint64
	peer   bool // of another library than rlock, which does not know that its commands may be repeated

	executed atomic.Int64
	unread   atomic.Int64 // see [Link.Unread]
	witness  Witness      // nil means none

	mu    sync.Mutex
	dead  bool
	cut   time.Time         // until when nothing passes
	clog  Clog              // that began last
	drawn map[uint64]uint64 // how often each key was drawn
	conns []*conn           // of subscriptions
}

// NewLink returns the link of one more process.
func (s *Server) NewLink(process string) *Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &Link{server: s, name: process, index: uint64(len(s.links)), drawn: make(map[uint64]uint64)}
	s.links = append(s.links, l)
	return l
}

// Witness is told of each call of a process when that sends it. The function that it returns, unless that is nil, is told of the reply when
// the process gets that.
type Witness func(c *wire.Call) func(r wire.Reply)

// Watch sets the witness of the calls of a driver that is opened with the link, or with several links of which it is the first. It must be
// called before.
func (l *Link) Watch(w Witness) { l.witness = w }

// witnessed tells the witness of calls. The function that it returns tells it of the replies.
func (l *Link) witnessed(calls []wire.Call) func(out []wire.Reply) {
	if l.witness == nil {
		return func([]wire.Reply) {}
	}
	replied := make([]func(wire.Reply), len(calls))
	for i := range calls {
		replied[i] = l.witness(&calls[i])
	}
	return func(out []wire.Reply) {
		for i, f := range replied {
			if f != nil {
				f(out[i])
			}
		}
	}
}

// Executed is how many commands of the process were executed, without those whose script the server did not know.
func (l *Link) Executed() int { return int(l.executed.Load()) }

// Unread returns the longest for which a message of a subscription has been there before the process read it, since it was last asked.
func (l *Link) Unread() time.Duration { return time.Duration(l.unread.Swap(0)) }

// Server is the name of the server.
func (l *Link) Server() string { return l.server.name }

// Dead reports whether the process was killed.
func (l *Link) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Healthy reports whether the process is alive, and reaches the server.
func (l *Link) Healthy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead && !time.Now().Before(l.cut) && !time.Now().Before(l.clog.until)
}

// Kill ends the process: it sends and receives nothing any more, and the server soon notices that its connections are gone.
func (l *Link) Kill() {
	l.mu.Lock()
	l.dead = true
	conns := slices.Clone(l.conns)
	l.mu.Unlock()
	l.server.trace.Note("%s is dead to %s", l.name, l.server.name)
	for _, c := range conns {
		c.lostByServer(l.delay("kill", c.sub.wanted()))
	}
}

// Clog has some connections hang for a while, each in one direction. What is sent on the others passes, and so overtakes what hangs.
type Clog struct {
	Requests float64 // the share of the commands that arrive only after it
	Replies  float64 // the share of those whose replies do
	Messages bool    // what comes on the subscription connections does, too

	until time.Time
}

// Clog begins one.
func (l *Link) Clog(d time.Duration, c Clog) {
	l.server.trace.Note("for %v, %.0f %% of the requests of %s to %s hang, %.0f %% of the replies, and messages: %v",
		d, 100*c.Requests, l.name, l.server.name, 100*c.Replies, c.Messages)
	l.mu.Lock()
	defer l.mu.Unlock()
	c.until = time.Now().Add(d)
	l.clog = c
}

// Cut lets nothing pass for a while. Everything that is sent meanwhile arrives after it.
func (l *Link) Cut(d time.Duration) {
	l.server.trace.Note("nothing passes between %s and %s for %v", l.name, l.server.name, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = time.Now().Add(d)
}

// BreakSubscriptions breaks the subscription connections. Neither side notices a silent break for a while. Until then, messages
// are lost, and the server still counts the subscriber.
func (l *Link) BreakSubscriptions(silent bool, serverAfter time.Duration) {
	l.mu.Lock()
	conns := slices.Clone(l.conns)
	l.mu.Unlock()
	how := "with a reset"
	if silent {
		how = "without a word"
	}
	l.server.trace.Note("the subscriptions of %s at %s break %s, which the server notices after %v", l.name, l.server.name, how, serverAfter)
	for _, c := range conns {
		c.breaks(silent, serverAfter)
	}
}

// draw returns the source of random numbers for an event. It depends on what the event is and on how often that has happened, but not on
// which goroutine comes first.
func (l *Link) draw(event ...string) *rand.Rand {
	h := fnv.New64a()
	for _, text := range event {
		_, _ = h.Write(append([]byte(text), 0))
	}
	key := h.Sum64()
	l.mu.Lock()
	n := l.drawn[key]
	l.drawn[key] = n + 1
	l.mu.Unlock()
	return rand.New(rand.NewPCG(l.server.seed^key*0x9e3779b97f4a7c15, n<<8|l.index))
}

// delay draws how long a packet takes.
func (l *Link) delay(event ...string) time.Duration {
	return l.server.faults.Load().way(l.draw(event...))
}

// seldom are the scripts that are sent seldom: not those for each turn of an owner, and to renew its lease.
var seldom = []string{"count", "handover", "park", "handoff", "pump", "force"}

// at returns the faults for commands.
func (f *Faults) at(cmds [][]string) *Faults {
	aimed := slices.ContainsFunc(cmds, func(c []string) bool {
		name, _ := script(c)
		return slices.Contains(seldom, strings.TrimSuffix(name, withText))
	})
	if f.Aim == 0 || !aimed {
		return f
	}
	more := *f
	for _, chance := range []*float64{&more.Slow, &more.LostSend, &more.LostReply, &more.Silent, &more.Late, &more.Repeated} {
		*chance *= f.Aim
	}
	return &more
}

func (f *Faults) way(r *rand.Rand) time.Duration {
	usual := max(f.Latency, 10*time.Microsecond)
	d := usual/2 + time.Duration(r.Int64N(int64(usual)))
	if f.Slow > 0 && r.Float64() < f.Slow {
		d += time.Duration(r.Int64N(int64(f.SlowMax)))
	}
	return d
}

// blocked returns for how long nothing passes from now on.
func (l *Link) blocked() time.Duration {
	l.mu.Lock()
	until := l.cut
	l.mu.Unlock()
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	if l.server.hangs.After(until) {
		until = l.server.hangs
	}
	return max(time.Until(until), 0)
}

// Package simnet is a network with one Redis and several client processes, in virtual time, of which a seed decides every delay and
// every fault. It runs in a bubble of testing/synctest.
package simnet

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// Faults are what may happen to a command, each with its probability.
type Faults struct {
	Latency   time.Duration // the usual time of a way
	Slow      float64       // it takes up to SlowMax instead
	SlowMax   time.Duration
	LostReply float64 // the connection breaks after the command was executed
	LostSend  float64 // the connection breaks before
	Silent    float64 // nothing comes back, and the driver gives up; the command was executed or not
	Late      float64 // the driver gives up, and the command is executed up to LateMax later
	LateMax   time.Duration
}

// World is the server and the network.
type World struct {
	Seed   uint64
	Server *simredis.Server
	Faults Faults
	Ahead  time.Duration // of the server's clock
	Began  time.Time

	mu       sync.Mutex // for the server; nobody sleeps while holding it
	down     bool
	hangs    time.Time // until when the server answers nothing
	links    []*Link
	hash     uint64
	Commands int
	Messages int
	Keep     bool // the trace
	Trace    []string
	Silent   func(l *Link, args []string) bool // whether a command is executed and has no reply
	Record   bool                              // the events for Events
	Events   []Event
	Final    *simredis.DB
	FinalAt  time.Time
	Last     int
	Ran      func(l *Link, args []string, reply any) // with the server locked
}

// Event is something that happened at the server.
type Event struct {
	Micros int64
	What   string // command, subscribe, unsubscribe, drop, flush, message
	Sub    *simredis.Subscriber
	Args   []string
	Reply  any
}

func (w *World) record(e Event) {
	if w.Record {
		e.Micros = time.Now().Add(w.Ahead).UnixMicro()
		w.Events = append(w.Events, e)
	}
}

// Flush has the server forget all scripts.
func (w *World) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record(Event{What: "flush"})
	w.Server.FlushScripts()
}

// NewWorld returns a world.
func NewWorld(seed uint64) *World {
	w := &World{Seed: seed, Began: time.Now(), hash: 14695981039346656037}
	w.Server = simredis.New(func() time.Time { return time.Now().Add(w.Ahead) })
	return w
}

// Hash is the hash of everything that the server did.
func (w *World) Hash() uint64 { return w.hash }

func (w *World) note(format string, args ...any) {
	line := fmt.Sprintf("%v ", time.Since(w.Began)) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], w.hash)
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(line))
	w.hash = h.Sum64()
	if w.Keep {
		w.Trace = append(w.Trace, line)
	}
}

// Note adds a line to the trace.
func (w *World) Note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, args...)
}

// With runs a function while nothing else happens at the server.
func (w *World) With(f func(s *simredis.Server)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.Server)
}

// Link is the network of one process.
type Link struct {
	w     *World
	Index int
	Name  string

	mu      sync.Mutex
	dead    bool
	cut     time.Time // until when nothing passes
	seen    map[uint64]uint64
	subs    map[*sub]struct{}
	order   []*sub
	Foreign bool
}

// NewLink returns the network of one more process.
func (w *World) NewLink(name string) *Link {
	l := &Link{w: w, Index: len(w.links), Name: name, seen: map[uint64]uint64{}, subs: map[*sub]struct{}{}}
	w.links = append(w.links, l)
	return l
}

// Dead reports whether the process was killed.
func (l *Link) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Healthy reports whether the process is alive and reached.
func (l *Link) Healthy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead && !time.Now().Before(l.cut)
}

// Kill ends the process: nothing is sent or received any more, and the server soon notices that its connections are gone.
func (l *Link) Kill() {
	l.mu.Lock()
	l.dead = true
	subs := append([]*sub(nil), l.order...)
	l.mu.Unlock()
	for _, s := range subs {
		s.serverLoses(l.delay(key("kill", s.channelsText())))
	}
}

// Cut lets nothing pass for a while. Everything that was sent arrives after it.
func (l *Link) Cut(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = time.Now().Add(d)
}

// BreakSubs breaks the subscription connections. A silent break is noticed by neither side for a while: messages are lost, but the
// server counts the subscriber for that long.
func (l *Link) BreakSubs(silent bool, serverAfter time.Duration) {
	l.mu.Lock()
	subs := append([]*sub(nil), l.order...)
	l.mu.Unlock()
	for _, s := range subs {
		s.breaks(silent, serverAfter)
	}
}

// key is a number for an event that does not depend on the order in which goroutines run.
func key(texts ...string) uint64 {
	h := fnv.New64a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// random returns the source for the next event with this key.
func (l *Link) random(k uint64) *rand.Rand {
	l.mu.Lock()
	n := l.seen[k]
	l.seen[k] = n + 1
	l.mu.Unlock()
	return rand.New(rand.NewPCG(l.w.Seed^k*0x9e3779b97f4a7c15, n<<8|uint64(l.Index)))
}

// way returns how long a packet takes.
func (w *World) way(r *rand.Rand) time.Duration {
	f := &w.Faults
	base := max(f.Latency, 10*time.Microsecond)
	d := base/2 + time.Duration(r.Int64N(int64(base)))
	if f.Slow > 0 && r.Float64() < f.Slow {
		d += time.Duration(r.Int64N(int64(f.SlowMax)))
	}
	return d
}

func (l *Link) delay(k uint64) time.Duration { return l.w.way(l.random(k)) }

// blocked returns for how long nothing passes.
func (l *Link) blocked() time.Duration {
	l.mu.Lock()
	until := l.cut
	l.mu.Unlock()
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.hangs.After(until) {
		until = l.w.hangs
	}
	return time.Until(until)
}

// Exec runs a command at the server at once.
func (l *Link) Exec(args ...string) any { return l.exec(args) }

// exec runs a command at the server.
func (l *Link) exec(args []string) any {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	at := len(w.Events)
	w.record(Event{What: "command", Args: args})
	r := w.Server.Do(args...)
	if w.Record {
		w.Events[at].Reply = r
	}
	w.Commands++
	w.note("%s %s = %v", l.Name, args, r)
	if w.Ran != nil {
		w.Ran(l, args, r)
	}
	return r
}

// Hang has the server answer nothing for a while.
func (w *World) Hang(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hangs = time.Now().Add(d)
}

// Down stops the server, which breaks all connections, and Up starts it again with data, nil for none.
func (w *World) Down() {
	w.mu.Lock()
	w.down = true
	links := append([]*Link(nil), w.links...)
	w.mu.Unlock()
	for _, l := range links {
		l.BreakSubs(false, 0)
	}
}

// Up starts the server again.
func (w *World) Up(db *simredis.DB) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
	w.Server.Reset(db)
}

// IsDown reports whether the server is down.
func (w *World) IsDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

package table

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// world is everything that the model test moves: two or three tables, which stand for as many processes, a server, the calls between
// them, and the verbs and exits under way. A schedule of numbers decides every choice, so it can be repeated.
type world struct {
	now       clock.Instant
	random    uint64
	names     [2]*name
	crowded   bool // all attempts are for the first name
	keepsOn   bool // no client shuts down
	procs     []*process
	owners    [2]*owner.Owner // shared ones; both belong to all tables
	verbs     []*verb
	exits     []*exit
	bag       []*flight
	batches   []*renewal // to be sent
	records   []*record
	grants    map[string]*Grant // by field
	begun     map[*Grant]bool   // those that were held once
	step      int
	log       []string
	logging   bool
	lines     map[*localQueue]*evidence // what the heads of each local queue know
	byAttempt map[*Attempt]*verb
	asked     map[string]int64 // the longest lease that a command asked for a field, in ms
	places    int              // given out in local queues
	cfg       config.Config
	epochs    uint64 // of confirmations
	foreign   bool   // a peer that is no rlock takes part
	hands     bool   // holds are exported and adopted
	fleet     bool   // the processes wait for one name in its line, and little fails
	tickets   []*ticket
	counts    bool // Redis counts the receivers of a message: there is a line
}

// name is one name in Redis.
type name struct {
	index  int
	text   string
	family wire.Family
	server *server
	peer   peer
	ranks  []ranked
	places []seated // in the queue of a fair lock after the last action

	replicas [3]*backup
	snapshot *backup
}

func (w *world) nameOf(text string) *name {
	if text == w.names[0].text {
		return w.names[0]
	}
	return w.names[1]
}

// message is a message, or the confirmation of a subscription.
type message struct {
	name     *name
	channel  string
	payload  string
	confirms *subscription // nil: it is a message
}

// verb is an attempt, and the step that it is at.
type verb struct {
	proc     *process
	name     *name
	a        *Attempt
	step     Step
	over     clock.Instant // when the pause is over; zero means never
	canceled bool
	began    int // the step in which it began
	ended    bool
	asks     int // since it was told of its end
	line     *localQueue
	tries    bool // it is in no local queue yet
	unsent   bool // its latest call was not sent
	slept    bool
	place    int       // in its local queue
	told     *evidence // of its own questions
	seen     *ending
	ticket   *ticket       // that it adopts; nil means that it acquires
	holds    []*record     // that its context carries, the nearest one first
	missed   bool          // Redis did not have the holder of that ticket
	lag      time.Duration // from the execution of its latest call to the reply: its hint is that old
}

type (
	waitEnd   struct{ *verb }
	callerEnd struct{ *verb }
)

var errWaitOver = errors.New("the wait is over")

func (v waitEnd) Err() error {
	if v.canceled || v.a.Ends != 0 && v.proc.world.now >= v.a.Ends {
		return errWaitOver
	}
	return nil
}

func (v callerEnd) Err() error {
	if v.canceled {
		return errWaitOver
	}
	return nil
}

// exit is an unlock or a background release, and the step that it is at.
type exit struct {
	proc    *process
	name    *name
	x       *Exit
	rec     *record // nil for a background release
	step    Step
	over    clock.Instant
	before  error // why the acquisition was over before
	exports bool  // it exports the acquisition
}

// renewal is a batch to be sent.
type renewal struct {
	proc *process
	b    *Batch
	step int // in which it was sent
	sent clock.Instant
}

// forcing is an unlock by force.
type forcing struct {
	proc *process
	key  Key
}

// extension is one call that lengthens a lease.
type extension struct {
	rec  *record
	d    time.Duration
	sent clock.Instant
}

// flight is a call in the bag. One of verb, exit, renewal, extension, force and pump gets its reply, or late does.
type flight struct {
	call     wire.Call
	proc     *process
	name     *name
	verb     *verb
	exit     *exit
	renewal  *renewal
	extend   *extension
	force    *forcing
	pump     *pumping
	late     *Grant
	number   uint64 // what late gets with the reply
	slot     bool
	acked    bool
	left     bool // its caller left: the reply goes to late
	dead     bool // nobody gets the reply any more
	executed bool
	at       clock.Instant // when it was executed
	reply    wire.Reply
	step     int           // in which it was sent
	sent     clock.Instant // of a verb or an exit
	until    clock.Instant // until when it may be executed
	within   clock.Instant // when its verb leaves at the latest
}

// record is what the model knows of an acquisition.
type record struct {
	acq      *Acquisition
	proc     *process
	name     *name
	handle   *Handle
	owner    *owner.Owner
	base     *owner.Owner // that WithOwner put into the context that acquired
	holds    []*record    // that this context carries
	byHold   bool
	seen     *ending // of the attempt that acquired
	done     <-chan struct{}
	unlocked bool  // an unlock began
	settled  bool  // an unlock returned nil or a loss
	told     error // what Notify told
	over     bool  // lost before its unlock began
	ended    bool  // its end was looked at
}

// open reports whether an acquisition may be unlocked, by a process that is not stopped.
func (r *record) open() bool { return !r.unlocked && !r.proc.stopped }

// failure is a broken invariant: its name, a colon, and the story.
type failure string

func (w *world) failf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func (w *world) logf(format string, args ...any) {
	if w.logging {
		w.log = append(w.log, fmt.Sprintf("%4d %12v  ", w.step, time.Duration(w.now))+fmt.Sprintf(format, args...))
	}
}

// rand returns a number from 0 to n-1, which depends on the choice only.
func (w *world) rand(n int) int {
	w.random += 0x9e3779b97f4a7c15
	z := w.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(n)) // both fit
}

func oneOf[T any](w *world, all ...T) T { return all[w.rand(len(all))] }

// pick returns one of the elements that fit, and reports whether there is any.
func pick[T any](w *world, all []T, fits func(T) bool) (found T, ok bool) {
	n := 0
	for _, v := range all {
		if fits(v) {
			n++
		}
	}
	if n == 0 {
		return found, false
	}
	k := w.rand(n)
	for _, v := range all {
		if fits(v) {
			if k == 0 {
				return v, true
			}
			k--
		}
	}
	return found, false
}

var familyKinds = [wire.Families][]*wire.Kind{
	wire.PlainFamily: {wire.Plain, wire.Fenced, wire.Spin, wire.Plain},
	wire.FairFamily:  {wire.Fair, wire.FencedFair},
	wire.RWFamily:    {wire.Write, wire.Read, wire.FencedWrite, wire.Read},
}

const (
	modelWatchdog = 3 * time.Second
	modelCommand  = 500 * time.Millisecond
	modelPoll     = 5 * time.Second
	modelBatch    = 2
)

// newWorld makes a world from a number.
func newWorld(choice uint32) *world {
	w := &world{now: clock.Instant(time.Second), random: uint64(choice), grants: make(map[string]*Grant), begun: make(map[*Grant]bool), lines: make(map[*localQueue]*evidence), byAttempt: make(map[*Attempt]*verb), asked: make(map[string]int64)}
	cfg := config.Config{
		WatchdogTimeout: modelWatchdog, CommandTimeout: modelCommand, PollInterval: modelPoll,
		MaxHold: oneOf(w, 0, 0, 0, 4*time.Second), FairWait: oneOf(w, 10*time.Second, 10*time.Second, 900*time.Millisecond), BatchSize: modelBatch,
		HandOvers: oneOf(w, 3, 3, 3, 0), HandOverTime: oneOf(w, time.Second, 50*time.Millisecond),
		StandBack: 2 * time.Millisecond, Acks: w.rand(8) == 0, Cluster: w.rand(8) == 0,
		Random: func(d time.Duration) time.Duration { return time.Duration(w.rand(int(d))) },
	}
	w.cfg, w.crowded = cfg, w.rand(2) == 0
	w.owners = [2]*owner.Owner{new(owner.Owner), new(owner.Owner)}
	w.keepsOn = w.rand(2) == 0
	var families [2]wire.Family
	nonReentrant := w.rand(8) == 0
	w.hands = w.rand(3) == 0
	w.foreign, w.counts = w.rand(3) == 0, w.rand(3) > 0
	if w.fleet = w.rand(5) < 2; w.fleet {
		w.crowded, w.counts = true, true
	}
	for i, text := range [2]string{"a", "{a}"} { // which have common channels, by Redisson's rule
		families[i] = oneOf(w, wire.PlainFamily, wire.RWFamily, wire.PlainFamily, wire.RWFamily, wire.FairFamily, wire.PlainFamily, wire.PlainFamily)
		if w.fleet && i == 0 {
			families[0] = oneOf(w, wire.PlainFamily, wire.PlainFamily, wire.RWFamily)
		}
		w.names[i] = &name{index: i, text: text, family: families[i], server: newServer(text, families[i])}
		n := w.names[i]
		n.peer.listens = w.foreign && w.rand(2) == 0
		n.server.skew, n.server.lined = time.Hour, w.counts && families[i] != wire.FairFamily
		n.server.tick(w.now)
		n.server.counts, n.server.listens = !cfg.Cluster, w.listens(n)
		n.server.deliver = func(p *process, channel, payload string) {
			p.mail = append(p.mail, message{name: n, channel: channel, payload: payload})
		}
		n.server.watching = func(channel string) bool {
			return slices.ContainsFunc(w.procs, func(p *process) bool { s := p.sub(channel); return s != nil && s.subscribed })
		}
	}
	w.procs = make([]*process, oneOf(w, 2, 2, 3))
	if w.fleet {
		w.procs = make([]*process, oneOf(w, 2, 3, 3))
	}
	for i := range w.procs {
		cfg.ClientID = fmt.Sprintf("c%d", i)
		p := &process{world: w, index: i, tasks: task.New()}
		p.table = New(cfg, p.tasks, p, p)
		w.procs[i] = p
		for j, n := range w.names {
			for i, k := range familyKinds[families[j]] {
				h := &Handle{
					Key: p.table.Key(n.text, k.Family), Kind: k, Name: n.text, NonReentrant: nonReentrant && k == wire.Plain,
					FirstDelay: time.Millisecond, MaxDelay: 128 * time.Millisecond,
					Yields: k == wire.Read && i > 1, // the second one
				}
				p.handles[j] = append(p.handles[j], h)
			}
		}
	}
	return w
}

// listens has every process that is subscribed to a channel, and the peer.
func (w *world) listens(n *name) func(yield func(subscriber) bool) {
	return func(yield func(subscriber) bool) {
		for _, p := range w.procs {
			for _, s := range p.subs {
				if s.subscribed && !yield(subscriber{p, s.channel}) {
					return
				}
			}
		}
		if n.peer.listens {
			yield(subscriber{nil, w.base(n)})
		}
	}
}

// someone returns a process that is not stopped.
func (w *world) someone() *process {
	p, _ := pick(w, w.procs, awake) // one is
	return p
}

func awake(p *process) bool { return !p.stopped }

// The faults that a call may meet.
var (
	errPasses  = &fault.Error{Fate: fault.Rejected, Code: "LOADING", Transient: true, Err: errors.New("LOADING")}
	errStays   = &fault.Error{Fate: fault.Rejected, Code: "MISCONF", Err: errors.New("MISCONF")}
	errRights  = &fault.Error{Fate: fault.Rejected, Code: "NOPERM", Err: errors.New("NOPERM")}
	errNotSent = &fault.Error{Fate: fault.NotSent, Transient: true, Err: fault.ErrNotSent}
	errStopped = &fault.Error{Fate: fault.NotSent, Err: fmt.Errorf("%w: %w", fault.ErrNotSent, fault.ErrClosed)}
	errNoConn  = &fault.Error{Fate: fault.NotSent, Transient: true, Err: errors.New("no connection")}
	errDoubt   = &fault.Error{Fate: fault.InDoubt, Transient: true, Err: errors.New("connection reset")}
	errPartial = &fault.Error{Fate: fault.Partial, Transient: true, Code: "OOM", Err: errors.New("OOM")}
	errNoAcks  = &fault.Error{Fate: fault.Unreplicated, Transient: true, Err: fault.ErrNotReplicated}
	errLeft    = &fault.Error{Fate: fault.Left, Err: errWaitOver}
	errSilence = &fault.Error{Fate: fault.Left, Transient: true, Err: fault.ErrNoAnswer}
)

func (w *world) procOf(g *Grant) *process {
	return w.procs[slices.IndexFunc(w.procs, func(p *process) bool { return p.table == g.table })]
}

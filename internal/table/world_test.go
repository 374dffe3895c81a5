package table

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wake"
	"github.com/go-rlock/rlock/internal/wire"
)

// world is everything that the model test moves: two tables, which stand for two processes, a server, the calls between
// them, and the verbs and exits under way. A schedule of numbers decides every choice, so it can be repeated.
type world struct {
	now       clock.Instant
	random    uint64
	names     [2]*name
	crowded   bool // all attempts are for the first name
	keepsOn   bool // no client shuts down
	procs     [2]*process
	owners    [2]*Owner // shared ones; both belong to both tables
	verbs     []*verb
	exits     []*exit
	bag       []*flight
	batches   []*renewal // to be sent
	mail      []message
	records   []*record
	grants    map[string]*Grant // by field
	step      int
	log       []string
	logging   bool
	lines     map[*line]*evidence // what the heads of each local queue know
	byAttempt map[*Attempt]*verb
	handed    map[string]int   // how often a field was handed over without asking Redis
	asked     map[string]int64 // the longest lease that a command asked for a field, in ms
	places    int              // given out in local queues
	cfg       Config
}

// name is one name in Redis.
type name struct {
	index  int
	text   string
	server *server
	backup *backup
}

// process is one table with what surrounds it. It is the table's Messages and Told.
type process struct {
	world     *world
	index     int
	table     *Table
	tasks     *task.Group
	subs      []*subscription
	alarm     clock.Instant // zero means none
	handles   [2][]*Handle
	closed    bool
	drained   <-chan struct{} // of Stop; nil until it was called
	handOvers uint64          // when Stop was called
	notices   Notices
	// refused is the step in which an attempt for a name could last be refused.
	refused [2]int
	// since is the step since which there always was an attempt for a name: waiters take what those before them know.
	since  [2]int
	seen   [2]sight
	gaveUp [2]bool // a background release of a name went unanswered for too long
}

type subscription struct {
	channel   string
	listeners []chan struct{}
	confirmed bool
	messages  uint64
}

type message struct {
	to      *process
	name    *name
	channel string
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
	line     *line
	unsent   bool // its latest call was not sent
	slept    bool
	place    int           // in its local queue
	told     *evidence     // of its own questions
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
	proc   *process
	name   *name
	x      *Exit
	rec    *record // nil for a background release
	step   Step
	over   clock.Instant
	before error // why the acquisition was over before
}

// renewal is a batch to be sent.
type renewal struct {
	proc *process
	b    *Batch
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

// flight is a call in the bag. One of verb, exit, renewal, extension and force gets its reply, or late does.
type flight struct {
	call     wire.Call
	proc     *process
	name     *name
	verb     *verb
	exit     *exit
	renewal  *renewal
	extend   *extension
	force    *forcing
	late     *Grant
	slot     bool
	acked    bool
	left     bool // its caller left: the reply goes to late
	dead     bool // nobody gets the reply any more
	executed bool
	at       clock.Instant // when it was executed
	reply    wire.Reply
	until    clock.Instant // until when it may be executed
	within   clock.Instant // when its verb leaves at the latest
}

// record is what the model knows of an acquisition.
type record struct {
	acq      *Acquisition
	proc     *process
	name     *name
	handle   *Handle
	owner    *Owner
	byHold   bool
	done     <-chan struct{}
	unlocked bool // an unlock began
	settled  bool // an unlock returned nil or a loss
	leaked   bool
	told     error // what Notify told
	over     bool  // lost before its unlock began
	ended    bool  // its end was looked at
}

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
	w := &world{now: clock.Instant(time.Second), random: uint64(choice), grants: make(map[string]*Grant), lines: make(map[*line]*evidence), byAttempt: make(map[*Attempt]*verb), handed: make(map[string]int), asked: make(map[string]int64)}
	cfg := Config{
		WatchdogTimeout: modelWatchdog, CommandTimeout: modelCommand, PollInterval: modelPoll,
		MaxHold: oneOf(w, 0, 0, 0, 4*time.Second), FairWait: oneOf(w, 10*time.Second, 10*time.Second, 900*time.Millisecond), BatchSize: modelBatch,
		HandOvers: oneOf(w, 3, 3, 3, 0), HandOverTime: oneOf(w, time.Second, 50*time.Millisecond),
		Lazy: w.rand(2) == 0, StandBack: 2 * time.Millisecond, Acks: w.rand(8) == 0, Cluster: w.rand(8) == 0,
		Random: func(d time.Duration) time.Duration { return time.Duration(w.rand(int(d))) },
	}
	w.cfg, w.crowded = cfg, w.rand(2) == 0
	w.keepsOn = w.rand(2) == 0
	var families [2]wire.Family
	nonReentrant := w.rand(8) == 0
	for i, text := range [2]string{"a", "b"} {
		families[i] = oneOf(w, wire.PlainFamily, wire.RWFamily, wire.PlainFamily, wire.RWFamily, wire.FairFamily)
		w.names[i] = &name{index: i, text: text, server: newServer(nil)}
		n := w.names[i]
		n.server.now, n.server.counts = w.now, !cfg.Cluster
		n.server.announce = func(channel string) int64 { return w.announce(n, channel) }
	}
	for i := range w.procs {
		cfg.ClientID = fmt.Sprintf("c%d", i)
		p := &process{world: w, index: i, tasks: task.New()}
		p.table = New(cfg, p.tasks, p, p)
		w.procs[i], w.owners[i] = p, NewOwner()
		for j, n := range w.names {
			for _, k := range familyKinds[families[j]] {
				h := &Handle{
					Key: p.table.Key(n.text, k.Family), Kind: k, Name: n.text, NonReentrant: nonReentrant && k == wire.Plain,
					FirstDelay: time.Millisecond, MaxDelay: 128 * time.Millisecond,
				}
				p.handles[j] = append(p.handles[j], h)
			}
		}
	}
	return w
}

// Heard implements Messages.
func (p *process) Heard(channel string) (messages uint64, subscribed bool) {
	if s := p.sub(channel); s != nil {
		return s.messages, s.confirmed
	}
	return 0, false
}

func (p *process) sub(channel string) *subscription {
	for _, s := range p.subs {
		if s.channel == channel {
			return s
		}
	}
	return nil
}

// Alarm implements Told.
func (p *process) Alarm(at clock.Instant) {
	if p.alarm == 0 || at < p.alarm {
		p.alarm = at
	}
}

// Unlisten implements Told.
func (p *process) Unlisten(channel string, heard chan struct{}) {
	s := p.sub(channel)
	if s == nil {
		p.world.failf("Empty: %s is unlistened to, but nobody listens", channel)
	}
	before := len(s.listeners)
	s.listeners = queue.Without(s.listeners, heard)
	if len(s.listeners) == before {
		p.world.failf("Empty: %s is unlistened to by a stranger", channel)
	}
	if len(s.listeners) == 0 {
		p.subs = queue.Without(p.subs, s)
	}
}

// Log implements Told.
func (p *process) Log(line Line) {
	if line.Message == LogNotReleased {
		p.gaveUp[p.world.nameOf(line.Lock).index] = true
	}
}

func (p *process) listen(channel string, heard chan struct{}) {
	s := p.sub(channel)
	if s == nil {
		s = &subscription{channel: channel, confirmed: p.world.rand(2) == 0}
		p.subs = append(p.subs, s)
	}
	s.listeners = append(s.listeners, heard)
	if s.confirmed {
		wake.PutToken(heard)
	}
}

func (s *subscription) notify() {
	for _, heard := range s.listeners {
		wake.PutToken(heard)
	}
}

// announce sends a message to every process that is subscribed.
func (w *world) announce(n *name, channel string) (receivers int64) {
	for _, p := range w.procs {
		if s := p.sub(channel); s != nil && s.confirmed {
			w.mail = append(w.mail, message{p, n, channel})
			receivers++
		}
	}
	return receivers
}

// deliver tells what the latest call of the table left to be told.
func (p *process) deliver() { p.notices.Deliver(p) }

// The faults that a call may meet.
var (
	errPasses  = &fault.Error{Fate: fault.Rejected, Code: "LOADING", Transient: true, Err: errors.New("LOADING")}
	errStays   = &fault.Error{Fate: fault.Rejected, Code: "NOPERM", Err: errors.New("NOPERM")}
	errNotSent = &fault.Error{Fate: fault.NotSent, Transient: true, Err: fault.ErrNotSent}
	errStopped = &fault.Error{Fate: fault.NotSent, Err: fmt.Errorf("%w: %w", fault.ErrNotSent, fault.ErrClosed)}
	errNoConn  = &fault.Error{Fate: fault.NotSent, Transient: true, Err: errors.New("no connection")}
	errDoubt   = &fault.Error{Fate: fault.InDoubt, Transient: true, Err: errors.New("connection reset")}
	errPartial = &fault.Error{Fate: fault.Partial, Transient: true, Code: "OOM", Err: errors.New("OOM")}
	errNoAcks  = &fault.Error{Fate: fault.Unreplicated, Transient: true, Err: fault.ErrNotReplicated}
	errLeft    = &fault.Error{Fate: fault.Left, Err: errWaitOver}
	errSilence = &fault.Error{Fate: fault.Left, Transient: true, Err: fault.ErrNoAnswer}
)

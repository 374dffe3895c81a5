package table

import (
	"slices"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// process is one table with what surrounds it. It is the table's Messages and Told.
type process struct {
	world     *world
	index     int
	table     *Table
	tasks     *task.Group
	subs      []*subscription
	mail      []message // on the connection with its subscriptions, in order
	stopped   bool      // it takes no step
	pumps     []*pumping
	pumpFails int           // in a row
	alarm     clock.Instant // zero means none
	handles   [2][]*Handle
	closed    bool
	drained   <-chan struct{} // of Stop; nil until it was called
	handOvers uint64          // when Stop was called
	notices   notice.List
	// refused is the step in which an attempt for a name could last be refused.
	refused [2]int
	// since is the step since which there always was an attempt for a name: waiters take what those before them know.
	since  [2]int
	seen   [2]sight
	gaveUp [2]bool // a background release of a name went unanswered for too long
}

type subscription struct {
	channel    string
	listeners  []chan struct{}
	watches    int    // how often it is watched
	subscribed bool   // Redis sends messages
	confirmed  bool   // the process knows that
	epoch      uint64 // of the latest confirmation
	messages   uint64
	public     clock.Instant // when the twin announced a public release; zero means that its message came, or that there is none
}

// Received implements Messages.
func (p *process) Received(channel string) (messages uint64, subscribed bool) {
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
	if s.idle() && p.world.rand(2) == 0 { // or the UNSUBSCRIBE comes later
		p.subs = queue.Without(p.subs, s)
	}
}

// Log implements Told.
func (p *process) Log(e notice.Entry) {
	if e.Message == notice.LogNotReleased {
		p.gaveUp[p.world.nameOf(e.Lock).index] = true
	}
}

func (p *process) listen(channel string, heard chan struct{}, since uint64) {
	s := p.sub(channel)
	if s == nil {
		s = p.subscribe(channel, p.world.rand(2) == 0)
	}
	s.listeners = append(s.listeners, heard)
	if s.confirmed && s.epoch != since {
		queue.PutToken(heard)
	}
}

func (p *process) subscribe(channel string, atOnce bool) *subscription {
	s := &subscription{channel: channel}
	p.subs = append(p.subs, s)
	if atOnce {
		s.subscribed = true
		p.confirm(s)
	}
	return s
}

// idle reports whether nobody needs the subscription.
func (s *subscription) idle() bool { return len(s.listeners) == 0 && s.watches == 0 }

func (s *subscription) notify() {
	for _, heard := range s.listeners {
		queue.PutToken(heard)
	}
}

// confirm takes the confirmation of a subscription.
func (p *process) confirm(s *subscription) {
	p.world.epochs++
	s.confirmed, s.epoch, s.public = true, p.world.epochs, 0
	s.notify()
	p.freed(s)
}

// deliver tells what the latest call of the table left to be told.
func (p *process) deliver() { p.notices.Deliver(p) }

// lost reports whether an owner must unlock a name before it may acquire it again.
func (w *world) lost(p *process, n *name, o *owner.Owner) bool {
	return slices.ContainsFunc(w.records, func(r *record) bool {
		return r.proc == p && r.name == n && r.owner == o && !r.unlocked && r.acq.Err(w.now) != nil
	})
}

// holds reports whether an owner holds a name, on either side.
func (w *world) holds(p *process, n *name, o *owner.Owner) bool {
	return o != nil && slices.ContainsFunc(w.records, func(r *record) bool {
		return r.proc == p && r.name == n && r.owner == o && !r.unlocked && r.acq.Err(w.now) == nil
	})
}

// holdsWithoutToken reports whether an owner holds a name, not only to read, without a token.
func (w *world) holdsWithoutToken(p *process, n *name, o *owner.Owner) bool {
	return slices.ContainsFunc(w.records, func(r *record) bool {
		k := r.acq.grant.handle.Kind
		return r.proc == p && r.name == n && r.owner == o && !r.unlocked && r.acq.Err(w.now) == nil &&
			k.Side == wire.MainSide && !k.Tokens
	})
}

// run runs a call about one name.
func (w *world) run(f *flight) {
	s, c := f.name.server, &f.call
	quiet, hushed, process := s.quiet, s.hushed, f.proc.index+1
	f.reply = s.run(c)
	if c.Script != wire.Spin.Release || text(c.Args.Channel) != "" || f.reply.N == 0 {
		return
	}
	// A spin lock is freed without a message. Only the waiters of its own process know, if an unlock freed it.
	known := f.exit != nil && !f.exit.x.background && !f.dead && !f.left
	s.quiet = quiet || s.lined || !known || hushed != 0 && hushed != process
	s.hushed = process
}

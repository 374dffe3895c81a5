package table

import (
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

// action is something that can happen. do reports whether it was possible; it changes nothing if it was not.
type action struct {
	name   string
	weight int
	do     func(w *world) bool
	seldom bool // in a fleet
}

var actions = []action{
	{"start", 14, (*world).start, false},
	{"start beside", 6, (*world).startBeside, true},
	{"execute", 24, (*world).executeOne, false},
	{"answer", 24, (*world).answerOne, false},
	{"doubt", 3, (*world).doubt, false},
	{"reject", 4, (*world).reject, true},
	{"silence", 2, (*world).silence, true},
	{"cancel", 3, (*world).cancel, false},
	{"notice the end", 4, (*world).noticeEnd, false},
	{"wake", 30, (*world).wake, false},
	{"resume", 8, (*world).resume, false},
	{"deliver", 8, (*world).deliverMail, false},
	{"cut", 1, (*world).cut, false},
	{"confirm", 12, (*world).confirm, false},
	{"pump", 8, (*world).pump, false},
	{"unsubscribe", 1, (*world).unsubscribe, false},
	{"pause", 1, (*world).pause, false},
	{"go on", 4, (*world).goOn, false},
	{"a peer listens", 1, (*world).peerListens, false},
	{"a peer takes", 2, (*world).peerTakes, false},
	{"a peer releases", 3, (*world).peerReleases, false},
	{"step Redis's clock", 1, (*world).stepClock, true},
	{"advance a little", 5, (*world).advanceLittle, false},
	{"advance to an event", 6, (*world).advanceToEvent, false},
	{"advance a lease", 1, (*world).advanceLease, false},
	{"due", 14, (*world).due, false},
	{"send", 10, (*world).send, false},
	{"send again", 1, (*world).sendAgain, true},
	{"unlock", 10, (*world).unlock, false},
	{"unlock again", 1, (*world).unlockAgain, false},
	{"export", 3, (*world).export, true},
	{"adopt", 4, (*world).adopt, true},
	{"extend", 3, (*world).extend, true},
	{"leave an extension", 1, (*world).leaveExtension, false},
	{"force", 1, (*world).force, true},
	{"force by a stranger", 1, (*world).forceByStranger, true},
	{"fail over", 1, (*world).failOver, false},
	{"stop", 4, (*world).stop, true},
	{"close", 1, (*world).close, true},
}

// wheel has the index of each action as often as its weight says.
var wheel = func() (wheel []int) {
	for i, a := range actions {
		for range a.weight {
			wheel = append(wheel, i)
		}
	}
	return wheel
}()

// act carries out one choice, and checks the invariants. It reports whether the action was possible.
func (w *world) act(choice uint32) bool {
	a := &actions[wheel[int(choice&0xffff)%len(wheel)]]
	w.random = uint64(choice)
	w.step++
	w.logf("-- %s (%#x)", a.name, choice)
	if w.fleet && a.seldom && w.rand(4) > 0 || !a.do(w) {
		w.step--
		if w.logging {
			w.log = w.log[:len(w.log)-1]
		}
		return false
	}
	w.check()
	w.replicate()
	return true
}

// admit begins a verb that acquires.
func (w *world) admit(p *process, n *name, h *Handle, o *owner.Owner) bool {
	return w.admitFor(nil, p, n, h, o)
}

// admitFor begins a verb that acquires, or that adopts the hold of a ticket. Its context has an owner, or carries holds, or both.
func (w *world) admitFor(k *ticket, p *process, n *name, h *Handle, base *owner.Owner, holds ...*record) bool {
	if len(w.verbs) >= 7 {
		return false
	}
	v := &verb{proc: p, name: n, began: w.step - 1, told: new(evidence), ticket: k, holds: holds}
	v.a = &Attempt{Handle: h, Who: owner.Who{Holds: claims(holds), Owner: base}, ByHold: w.rand(3) == 0, Single: w.rand(4) == 0}
	w.byAttempt[v.a] = v
	v.seen = &ending{world: w}
	v.a.Witness = v.seen
	if w.fleet {
		v.a.Single = v.a.Single && w.rand(4) == 0
	}
	v.a.Lease = oneOf(w, modelWatchdog, modelWatchdog, modelWatchdog, 200*time.Millisecond, time.Second, 2*time.Second, 9*time.Second)
	v.a.Renewed = v.a.Lease == modelWatchdog || w.rand(3) == 0
	if h.Kind.Park != nil && w.rand(6) == 0 {
		v.a.AtLeast, v.a.ByHold = oneOf(w, 50*time.Millisecond, time.Second, 10*time.Second), true
	}
	v.a.Wait, v.a.Caller = waitEnd{v}, callerEnd{v}
	if !v.a.Single && w.rand(2) == 0 {
		wait := time.Duration(w.rand(300)) * time.Millisecond
		v.a.Ends, v.a.Bound = w.now.Add(wait), w.now.Add(max(wait, w.cfg.Floor()))
	}
	if v.a.Single {
		v.a.Bound = w.now.Add(oneOf(w, w.cfg.Floor(), w.cfg.CommandTimeout))
	}
	if k != nil {
		v.a.Ticket, v.a.ByHold, v.a.Single, v.a.AtLeast, v.a.Ends, v.a.Bound = k.field, true, false, 0, 0, w.now.Add(modelCommand)
	}
	if !slices.ContainsFunc(w.verbs, func(v *verb) bool { return v.proc == p && v.name == n }) {
		p.since[n.index] = v.began
	}
	began := p.tasks.Begin()
	o := ownerOf(holds, base)
	lost := w.lost(p, n, o)
	again := (v.a.AtLeast > 0 || k != nil) && w.holds(p, n, o)
	bare := h.Kind.Tokens && w.holdsWithoutToken(p, n, o)
	w.logf("%s begins: lease %v, renewed %v, single %v, by hold %v, ends %v",
		v, v.a.Lease, v.a.Renewed, v.a.Single, v.a.ByHold, time.Duration(v.a.Ends))
	s := p.table.Admit(v.a, w.now, &p.notices)
	w.checkOwner(v)
	switch {
	case !began && (s.Do != Done || s.Err != fault.ErrClosed): // the very error
		w.failf("Ends: an attempt begins after Close: %s", s)
	case p.drained != nil && o == nil && (s.Do != Done || s.Err != fault.ErrClosed): // the very error
		w.failf("Stopped: an attempt begins after Stop: %s", s)
	case began && lost && s.Err != errStillLost: // the very error
		w.failf("LostSticky: the owner of a lost lock gets %s", s)
	case began && again && !lost && s.Err != fault.ErrReentered: // the very error
		w.failf("Kept: the owner of a hold gets %s", s)
	case began && bare && !again && !lost && s.Err != errStillLost && !errors.Is(s.Err, fault.ErrInvalidOption): // an unlock of the other side may be late
		w.failf("Token: the owner of a hold without a token gets %s", s)
	}
	p.deliver()
	if began {
		w.verbs = append(w.verbs, v)
		w.next(v, s)
	}
	return true
}

func (w *world) start() bool {
	p, n := w.someone(), w.names[w.rand(2)]
	if w.crowded {
		n = w.names[0]
	}
	handles := p.handles[n.index]
	return w.admit(p, n, handles[w.rand(len(handles))], oneOf(w, nil, nil, w.owners[0], w.owners[1]))
}

func (w *world) executeOne() bool {
	f, ok := pick(w, w.bag, func(f *flight) bool { return !f.executed && w.now < f.until })
	if !ok {
		return false
	}
	w.execute(f)
	if f.dead {
		w.bag = queue.Without(w.bag, f)
	}
	return true
}

func (w *world) answerOne() bool {
	f, ok := pick(w, w.bag, func(f *flight) bool { return f.executed && !f.proc.stopped })
	if ok {
		w.answer(f, f.reply)
	}
	return ok
}

// doubt loses the reply of a call, or its request. It prefers a reply that tells of a duty.
func (w *world) doubt() bool {
	f, ok := pick(w, w.bag, func(f *flight) bool {
		return !f.dead && !f.left && !f.proc.stopped && f.exit != nil && f.executed && f.reply.Gave().What == wire.ToPublic
	})
	if !ok {
		f, ok = pick(w, w.bag, func(f *flight) bool { return !f.dead && !f.proc.stopped })
	}
	if ok {
		w.answer(f, wire.Reply{N: -1, Err: errDoubt})
		f.dead = true
	}
	return ok
}

// reject answers with an error of the server, or does not send the call.
func (w *world) reject() bool {
	f, ok := pick(w, w.bag, func(f *flight) bool { return !f.dead && !f.proc.stopped })
	if !ok {
		return false
	}
	if f.verb != nil && f.slot && !f.executed && f.proc.drained != nil && !f.verb.step.Stays && w.rand(2) == 0 {
		w.answer(f, wire.Reply{N: -1, Err: errStopped})
		return true
	}
	freeing := f.exit != nil && f.exit.x.phase != showing
	switch kind := w.rand(4); {
	case f.executed && f.acked && f.reply.N >= 0 && w.cfg.Acks: // replicas are asked about granted locks only
		w.answer(f, wire.Reply{N: f.reply.N, Err: errNoAcks})
	case freeing && kind == 0:
		w.answer(f, wire.Reply{N: -1, Err: errPartial})
	case f.executed:
		return false
	case kind == 1 && !f.left:
		w.answer(f, wire.Reply{N: -1, Err: errNoConn})
	case kind == 2 && w.rand(4) == 0:
		w.answer(f, wire.Reply{N: -1, Err: errRights})
	case kind == 2:
		w.answer(f, wire.Reply{N: -1, Err: errStays})
	case (f.renewal != nil || f.extend != nil) && kind == 3:
		w.answer(f, wire.Reply{N: -1, Err: &fault.Error{Code: "TRYAGAIN", Transient: true, Err: errPasses.Err}})
	default:
		w.answer(f, wire.Reply{N: -1, Err: errPasses})
	}
	return true
}

// silence ends the patience with a call that was not answered within the command timeout.
func (w *world) silence() bool {
	f, ok := pick(w, w.bag, func(f *flight) bool {
		return !f.dead && !f.proc.stopped && (w.now >= f.until || f.verb != nil && w.now >= f.within)
	})
	if !ok {
		return false
	}
	if f.left || f.renewal != nil || f.force != nil || f.extend != nil {
		w.answer(f, wire.Reply{N: -1, Err: errDoubt})
		f.dead = true
		return true
	}
	w.answer(f, wire.Reply{N: -1, Err: errSilence})
	w.leave(f)
	return true
}

// leave gives the reply of a call to Late. It may be executed a little longer.
func (w *world) leave(f *flight) {
	f.left, f.verb, f.exit = true, nil, nil
	if f.late == nil {
		f.dead = true
	}
	if f.executed && !f.dead {
		w.bag = append(w.bag, f)
	}
}

func (w *world) cancel() bool {
	v, ok := pick(w, w.verbs, func(v *verb) bool { return !v.canceled })
	if ok {
		v.canceled = true
		w.logf("%s is canceled", v)
	}
	return ok
}

// noticeEnd tells a verb that its wait is over.
func (w *world) noticeEnd() bool {
	v, ok := pick(w, w.verbs, func(v *verb) bool { return !v.proc.stopped && w.endOf(v) >= Ended })
	if ok {
		w.end(v)
	}
	return ok
}

// endOf returns by what the step of a verb ends early, or ByNews if it does not.
func (w *world) endOf(v *verb) Cause {
	over := waitEnd{v}.Err() != nil
	if v.step.Do == Sleep && v.step.Outlives {
		over = v.canceled || v.step.Within > 0 && w.now >= v.a.Bound
	}
	switch {
	case v.step.Do == Ask && (v.canceled || over && !v.step.Outlives):
		return Ended
	case v.step.Do == Ask:
		return ByNews
	case over:
		return Ended
	case v.proc.closed, v.proc.drained != nil && !v.step.Stays:
		return Closed
	}
	return ByNews
}

func (w *world) end(v *verb) {
	p, why := v.proc, w.endOf(v)
	v.ended, v.asks = why != Closed || p.closed || !w.mayReenter(v, v.a.got), 0
	if v.step.Do == Sleep {
		s := p.table.Wake(v.a, why, w.now, &p.notices)
		p.deliver()
		w.next(v, s)
		return
	}
	for _, f := range w.bag {
		if f.verb != v || f.dead {
			continue
		}
		if f.slot && !f.executed && w.rand(2) == 0 {
			w.answer(f, wire.Reply{N: -1, Err: errNotSent})
			return
		}
		w.answer(f, wire.Reply{N: -1, Err: errLeft})
		w.leave(f)
		return
	}
}

// ready reports whether a channel has a token or is closed, and takes the token.
func ready(c <-chan struct{}, take bool) bool {
	if c == nil || cap(c) > 0 && len(c) == 0 {
		return false
	}
	if cap(c) > 0 && !take {
		return true
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wakeOf returns by what a sleeper may be woken now.
func (w *world) wakeOf(v *verb) (why Cause, ok bool) {
	if v.step.Do != Sleep {
		return 0, false
	}
	switch {
	case ready(v.step.Wait, false):
		return ByNews, true
	case ready(v.step.Heard, false):
		return ByMessage, true
	case v.over != 0 && w.now >= v.over:
		return ByTime, true
	}
	return 0, false
}

func (w *world) wake() bool {
	v, ok := pick(w, w.verbs, func(v *verb) bool {
		_, ok := w.wakeOf(v)
		return ok && !v.proc.stopped
	})
	if !ok {
		return false
	}
	if w.endOf(v) == Closed && w.rand(4) == 0 { // it hears of the shutdown first
		w.end(v)
		return true
	}
	why, _ := w.wakeOf(v)
	if why == ByNews && ready(v.step.Heard, false) && w.rand(2) == 0 {
		why = ByMessage
	}
	if why != ByTime && v.over != 0 && w.now >= v.over && w.rand(3) == 0 {
		why = ByTime
	}
	switch why {
	case ByNews:
		ready(v.step.Wait, true)
	case ByMessage:
		ready(v.step.Heard, true)
	default: // takes no token
	}
	w.logf("%s wakes: %d", v, why)
	claims := v.a.phase == claiming
	s := v.proc.table.Wake(v.a, why, w.now, &v.proc.notices)
	if claims {
		w.checkOwner(v)
	}
	v.proc.deliver()
	w.next(v, s)
	return true
}

package queue

// Bell wakes one sleeper. A ring before the sleep is not lost. The zero value has not rung. The caller's mutex guards it.
type Bell struct {
	c    chan struct{} // has a token when it has rung; nil means that no goroutine has slept yet
	rung bool          // before c was made
}

// Ring wakes the sleeper, or the next one.
func (b *Bell) Ring() {
	if b.c == nil {
		b.rung = true
		return
	}
	PutToken(b.c)
}

// C returns the channel to sleep on.
func (b *Bell) C() <-chan struct{} {
	if b.c == nil {
		b.c = make(chan struct{}, 1)
		if b.rung {
			b.c <- struct{}{}
		}
	}
	return b.c
}

// Slept reports whether a goroutine has slept.
func (b *Bell) Slept() bool { return b.c != nil }

// PutToken puts a token into a channel of capacity 1. It does nothing for a nil channel.
func PutToken(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Turns lets operations follow each other, one at a time. Announced operations come before others. In the zero value none
// is under way. The caller's mutex guards them.
type Turns struct {
	busy      bool
	announced int32
	idle      chan struct{} // closed when it is time for another look
}

// Begin begins an operation, and reports whether that is possible now.
func (t *Turns) Begin() bool {
	if t.busy || t.announced > 0 {
		return false
	}
	t.busy = true
	return true
}

// Announce makes way for an operation that BeginAnnounced will begin.
func (t *Turns) Announce() { t.announced++ }

// BeginAnnounced begins an announced operation, and reports whether that is possible now.
func (t *Turns) BeginAnnounced() bool {
	if t.busy {
		return false
	}
	t.announced--
	t.busy = true
	return true
}

// Withdraw ends the announcement of an operation that does not begin after all.
func (t *Turns) Withdraw() {
	t.announced--
	t.Notify()
}

// End ends the operation that is under way, if there is one, and wakes all that wait.
func (t *Turns) End() {
	if t.busy = false; t.idle != nil {
		t.Notify()
	}
}

// Notify wakes all waiters, which then look again.
func (t *Turns) Notify() {
	if t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Idle returns a channel that is closed when it is time to look again.
func (t *Turns) Idle() <-chan struct{} {
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	return t.idle
}

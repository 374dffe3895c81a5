package notice

import "context"

// Ending reports to users that a hold is over. In the zero value it is not over, and no user has asked. The mutex of the
// hold guards it.
type Ending struct {
	why    error                   // nil means that it is not over
	over   chan struct{}           // made when it is asked for, closed when why is set
	cancel context.CancelCauseFunc // called with why; nil if no function was set
}

// ended is the report of an end.
type ended struct {
	why    error
	over   chan struct{}
	cancel context.CancelCauseFunc
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns why it is over. Nil means that it is not.
func (e *Ending) Err() error { return e.why }

// Done returns a channel that is closed when it is over.
func (e *Ending) Done() <-chan struct{} {
	switch {
	case e.over != nil:
		return e.over
	case e.why != nil:
		return closedChan
	}
	e.over = make(chan struct{})
	return e.over
}

// Notify sets the function to which the end is reported, with its reason. It returns the reason if it is over already: then
// the function is not called.
func (e *Ending) Notify(tell context.CancelCauseFunc) error {
	if e.why == nil {
		e.cancel = tell
	}
	return e.why
}

// End ends it for a reason, unless it is over already. It reports whether it was not.
func (e *Ending) End(why error, n *List) bool {
	if e.why != nil {
		return false
	}
	e.why = why
	if e.over != nil || e.cancel != nil {
		n.endings = append(n.endings, ended{e.why, e.over, e.cancel})
	}
	e.cancel = nil // it keeps the user's context in memory
	return true
}

// Tell calls the function of Notify for a reason, although it is not over. The end will be reported too.
func (e *Ending) Tell(why error, n *List) {
	if e.why == nil && e.cancel != nil {
		n.endings = append(n.endings, ended{why: why, cancel: e.cancel})
	}
}

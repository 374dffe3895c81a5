package rlock

import "slices"

// gate lets one waiter of this process at a time contend for a name, in order of arrival: its head. The others cost
// Redis nothing. A gate exists while somebody is in it. Whoever holds the lock is not: the head leaves when it is
// granted, and the next one, who tries at once, takes over whatever wake-up the last one was given.
type gate struct {
	queue []*waiter
	last  outcome // of the latest attempt of a head: what a waiter reports who never got to try
}

type waiter struct {
	id   nameKey
	head chan struct{} // closed when it is this waiter's turn; nil: it was at once
}

// enter queues for a name.
func (c *Client) enter(id nameKey) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[id]
	if g == nil {
		g = &gate{}
		c.gates[id] = g
	}
	w := &waiter{id: id}
	if len(g.queue) > 0 {
		w.head = make(chan struct{})
	}
	g.queue = append(g.queue, w)
	return w
}

// leave makes way for the next waiter. It returns how the latest attempt of a head went.
func (c *Client) leave(w *waiter) outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[w.id]
	i := slices.Index(g.queue, w)
	g.queue = slices.Delete(g.queue, i, i+1)
	switch {
	case len(g.queue) == 0:
		delete(c.gates, w.id)
	case i == 0:
		close(g.queue[0].head)
	}
	return g.last
}

// report notes how an attempt of the head went. One that was granted refuses whoever comes next. Who is in no gate (nil)
// has nobody to tell.
func (c *Client) report(w *waiter, last outcome) {
	if w == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gates[w.id].last = last
}

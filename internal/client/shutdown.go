package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
)

// Shutdown tells the holders, waits until their locks are unlocked, and closes the client: see the root package.
func (c *Client) Shutdown(ctx context.Context) error {
	if c.carriedBy(ctx) {
		return &fault.OpError{Op: "shutdown", What: "with the context of a hold of this client", Err: fault.ErrInvalidOption}
	}
	if c.IsClosed() {
		c.Close() // waits for the Close that is under way
		return nil
	}
	var n notice.List
	drained := []<-chan struct{}{c.table.Stop(&n), c.core.Stop(&n, fault.ErrClosed)}
	c.wakeAll()
	n.Deliver(c)
	for _, one := range drained {
		select {
		case <-one:
		case <-ctx.Done():
		case <-c.tasks.Closed():
		}
	}
	why := fault.ErrClosed
	if ctx.Err() != nil {
		why = EndOf(ctx)
	}
	c.Close()
	if c.left == 0 {
		return nil
	}
	what := fmt.Sprintf("with %d holds left", c.left)
	if c.left == 1 {
		what = "with 1 hold left"
	}
	if len(c.leftOf) > 0 {
		what += " of " + some(c.leftOf)
	}
	return &fault.OpError{Op: "shutdown", What: what, Err: why}
}

// some returns the first three names, quoted.
func some(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names))) // other calls read them
	var text []string
	for _, name := range names[:min(len(names), 3)] {
		text = append(text, fault.Quote(name))
	}
	if len(names) > 3 {
		text = append(text, "...")
	}
	return strings.Join(text, ", ")
}

// carriedBy reports whether ctx carries a hold of this client that is not over.
func (c *Client) carriedBy(ctx context.Context) bool {
	for hold := carried(ctx); hold != nil; hold = carried(hold.parent) {
		if hold.of.Closed().Load() {
			continue
		}
		for _, l := range hold.of.Locks() {
			if l.client == c {
				return true
			}
		}
	}
	return false
}

// wakeAll wakes every call that sleeps, except a re-entry during Shutdown.
func (c *Client) wakeAll() { c.stop.Do(func() { close(c.stopping) }) }

// Stopping returns a channel that Shutdown and Close close.
func (c *Client) Stopping() <-chan struct{} { return c.stopping }

// IsStopping reports whether Shutdown or Close was called.
func (c *Client) IsStopping() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

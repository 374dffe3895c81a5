package client

import (
	"context"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock/internal/fault"
)

// ID returns the text by which [Client.UnlockID] knows the hold. Its client keeps the hold from the first call on, until it is unlocked. A
// hold that is over, or borrowed, has none.
func (h *Hold) ID() string {
	if !h.valid() {
		return ""
	}
	if _, isBorrowed := h.of.(borrowed); isBorrowed {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id == "" && !h.unlocked {
		h.id = uuid.NewString()
		h.of.Locks()[0].client.holds.Store(h.id, h) // the first one of a group
	}
	return h.id
}

// forget ends that the client keeps the hold.
func (h *Hold) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked = true; h.id != "" {
		h.of.Locks()[0].client.holds.Delete(h.id)
	}
}

// UnlockID ends the hold that has this ID.
func (c *Client) UnlockID(ctx context.Context, id string) error {
	hold, found := c.holds.Load(id)
	if !found {
		return &fault.OpError{Op: "unlock", What: "of the hold with the ID " + fault.Quote(id), Err: fault.ErrNotHeld}
	}
	return hold.(*Hold).Unlock(ctx)
}

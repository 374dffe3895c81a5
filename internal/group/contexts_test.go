package group

import (
	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/owner"
)

// ownerOf returns the owner for whom terms acquire a lock now, or nil.
func ownerOf(t client.Terms) *owner.Owner {
	if t.As == nil {
		return nil
	}
	o, _ := t.As[0].Now()
	return o
}

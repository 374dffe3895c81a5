package group

import (
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/table"
)

// ownerOf returns the owner for whom terms acquire now.
func ownerOf(t lease.Terms) *table.Owner {
	o, _ := t.As.Now()
	return o
}

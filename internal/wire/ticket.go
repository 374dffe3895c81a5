package wire

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// A hold is handed to another process through a holder that nobody is, which a ticket names: Export gives it the lock, and Adopt takes it.

// ticketPrefix begins a ticket: what it is, and the version of the rest, which is the name of the kind, the field of the holder and
// the name of the lock in Redis, separated by zero bytes, in base64.
const ticketPrefix = "rlock-ticket-1."

// HasTickets reports whether a hold of the kind can be handed to another process. Readers and permits are several at a time.
func (k *Kind) HasTickets() bool { return k.HandOff != nil }

// Ticket returns the ticket of the holder of a lock, given its field and the name of the lock in Redis.
func (k *Kind) Ticket(field, name string) string {
	return ticketPrefix + base64.RawURLEncoding.EncodeToString([]byte(k.Name()+"\x00"+field+"\x00"+name))
}

// OpenTicket returns the field of the holder that a ticket names, if the ticket is for this kind and this name in Redis. No error
// quotes the ticket, because whoever has it can have the lock.
func (k *Kind) OpenTicket(ticket, name string) (field string, err error) {
	if !k.HasTickets() {
		return "", fmt.Errorf("%w: a %s has no tickets", fault.ErrInvalidOption, k.What())
	}
	text, ok := strings.CutPrefix(ticket, ticketPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	parts := strings.SplitN(string(raw), "\x00", 3)
	if !ok || err != nil || len(parts) != 3 {
		return "", fmt.Errorf("%w: not a ticket of Export", fault.ErrInvalidOption)
	}
	kind, field, of := parts[0], parts[1], parts[2]
	switch {
	case of != name:
		return "", fmt.Errorf("%w: the ticket is for the lock %s in Redis, not %s", fault.ErrInvalidOption, fault.Quote(of), fault.Quote(name))
	case kind != k.Name():
		return "", fmt.Errorf("%w: the ticket is for a lock of the kind %q, not %q", fault.ErrInvalidOption, kind, k.Name())
	case !k.isField(field):
		return "", fmt.Errorf("%w: the ticket names no holder", fault.ErrInvalidOption)
	}
	return field, nil
}

// What returns what a value of the kind is, for people.
func (k *Kind) What() string {
	if name := k.Name(); k.Noun == "" && k != Plain {
		return name + " lock"
	}
	return k.Name()
}

// isField reports whether a text can be the field of a holder of the kind.
func (k *Kind) isField(text string) bool {
	client, number, found := strings.Cut(strings.TrimSuffix(text, k.FieldSuffix), ":")
	_, err := strconv.ParseUint(number, 10, 63)
	return found && client != "" && err == nil && strings.HasSuffix(text, k.FieldSuffix)
}

// Export returns the call that makes it the holder instead of the last one, until somebody adopts it or the lease ends. It draws no
// token. tells says that the first one of those who wait in Redis is told when the lease ends.
func (h *Holder) Export(n *Names, last *Holder, lease time.Duration, tells bool) Call {
	c := Call{Script: h.kind.HandOff, Keys: n.queued(), Args: h.args(lease, cmp.Or(n.base, n.Boxed), last.Field)}
	if !tells {
		c.Keys = slices.Replace(slices.Clone(c.Keys), 1, 2, c.Keys[0])
	}
	c.Args.Other = h.kind.Silent
	return c
}

// Adopt returns the call that makes it the holder instead of that of a ticket. It draws a token, if the kind has tokens.
func (h *Holder) Adopt(n *Names, field any, lease time.Duration, tells bool) Call {
	c := h.Export(n, &Holder{Field: field}, lease, tells)
	c.Args.Other = cmp.Or[any](c.Args.Other, "1")
	return c
}

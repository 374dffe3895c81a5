package wire

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// A hold is handed to another process through a holder that nobody is: Export hands the lock over to it, and Adopt hands it over
// from there. A ticket names that holder.

// ticketPrefix begins a ticket: what it is, and the version of the rest, which is the name of the kind, the field of the holder and
// the name of the lock in Redis, separated by zero bytes, in base64.
const ticketPrefix = "rlock-ticket-1."

// HasTickets reports whether a hold of the kind can be handed to another process. Readers and permits are several at a time.
func (k *Kind) HasTickets() bool { return k.Side == MainSide }

// ExportScript returns the script of [Holder.Export], or nil.
func (k *Kind) ExportScript() *Script {
	if !k.HasTickets() {
		return nil
	}
	return lockTicket
}

// AdoptScript returns the script of [Holder.Adopt], or nil.
func (k *Kind) AdoptScript() *Script {
	if k.HasTickets() && k.Tokens {
		return fencedTicket
	}
	return k.ExportScript()
}

// Ticket returns the ticket of the holder of a lock, given its name in Redis.
func (h *Holder) Ticket(name string) string {
	field, _ := h.Field.(string)
	return ticketPrefix + base64.RawURLEncoding.EncodeToString([]byte(h.kind.Name()+"\x00"+field+"\x00"+name))
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
// token.
func (h *Holder) Export(n *Names, last *Holder, lease time.Duration) Call {
	all := h.keys(n)
	return Call{Script: h.kind.ExportScript(), Keys: []any{all[0], all[len(all)-1]}, Args: h.args(lease, last.Field, nil)}
}

// Adopt returns the call that makes it the holder instead of that of a ticket. It draws a token, if the kind has tokens.
func (h *Holder) Adopt(n *Names, field string, lease time.Duration) Call {
	all := h.keys(n)
	c := Call{Script: h.kind.AdoptScript(), Keys: []any{all[0], all[len(all)-1]}, Args: h.args(lease, field, nil)}
	if h.kind.Tokens {
		c.Keys = []any{all[0], all[len(all)-2], all[len(all)-1]} // the key of the tokens comes last but one
	}
	return c
}

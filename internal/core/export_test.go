package core

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// Holder makes the calls of a number, for tests of the scripts.
type Holder struct{ a attempt }

// NewHolder returns a holder of so many permits with a lease.
func NewHolder(clientID, key string, number int64, permits int) *Holder {
	c := &Client{cfg: Config{ID: clientID}}
	keys, base := Permits.Keys(key)
	n := &name{client: c, kind: Permits, keys: keys, base: base}
	return &Holder{attempt{name: n, number: number, flags: fmt.Sprint(permits), field: fmt.Sprint(clientID, ":", number)}}
}

// Acquire returns the call that acquires, if it runs before a moment in us of Redis.
func (h *Holder) Acquire(mode string, lease time.Duration, until int64) wire.Call {
	h.a.millis = wire.Millis(lease)
	return h.a.acquireCall(mode, until)
}

// Release returns the call that gives back.
func (h *Holder) Release() wire.Call { return h.a.releaseCall("", "", 0) }

// Renew returns the call that renews.
func (h *Holder) Renew(lease time.Duration) wire.Call {
	key, holder := h.a.renewed()
	return wire.Call{Script: h.a.kind.renew(), Keys: []any{key}, Argv: []any{wire.Millis(lease), holder}}
}

// PermitIDs returns the ids of its permits.
func (h *Holder) PermitIDs() []string { return (&Hold{grant: &grant{attempt: &h.a}}).PermitIDs() }

// Package table is the lock table: everything that one client knows about its locks, their holders, their waiters and their
// deadlines. It decides, and the other packages carry out its decisions: it does no I/O, starts no goroutine and reads no
// clock. The verbs, the watchdog and late replies report what happened, and get the next [Step].
//
// Each exported method takes the table's mutex once. The caller's [notice.List] collects the reports that it must deliver when
// the mutex is free.
package table

import (
	"errors"
	"sync"

	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/table/internal/fairness"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// New returns an empty table.
func New(cfg config.Config, tasks *task.Group, messages Messages, receiver notice.Receiver) *Table {
	return &Table{
		cfg: cfg, tasks: tasks, messages: messages, receiver: receiver,
		trying: make(map[Key]*Attempt), placed: make(map[int64]*Attempt), seats: make(map[Key]*seats),
		alive: make(map[int64]*Grant), watches: make(map[string]*watched), pumps: make(map[string]*pump),
		publicReleases: queue.NewMemory[Key, fairness.Release](8), forced: queue.NewMemory[Key, lastForce](64),
	}
}

// lock takes the mutex, and returns it for the unlock.
func (t *Table) lock() *sync.Mutex {
	t.mu.Lock()
	t.sections++
	return &t.mu
}

// Key returns the key of a name in Redis.
func (t *Table) Key(name string, family wire.Family) Key { return Key{t, name, family} }

// Number returns a number that no grant has. A call that counts once has it: tombstones and marks are in one hash.
func (t *Table) Number() int64 {
	defer t.lock().Unlock()
	t.number++
	return t.number
}

// lossOf returns the error that reports an end to the users of a handle. The end of the client belongs to no single lock.
func lossOf(h *Handle, why error) error {
	if errors.Is(why, fault.ErrClosed) {
		return why
	}
	return &fault.OpError{Op: "hold", Name: h.Name, Err: why}
}

func (h *Handle) sideKey() HeldKey { return HeldKey{h.Key, h.Kind.Side} }

// Names returns the keys and the channel of the lock.
func (h *Handle) Names() *wire.Names {
	return h.names.Get(h.Kind, h.Key.Name, h.Key.Table.cfg.ClientID)
}

// Of returns the error of a call for the lock, for a log line or a caller.
func (h *Handle) Of(err *fault.Error) *fault.Error { return err.Of(h.Kind.Name(), h.Name, h.Key.Name) }

package lease

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// hear passes a message to the table, or to those who await a latch. The hub calls it in the order of the messages.
func (m *Manager) hear(channel, payload string, order uint64, arrived clock.Instant) {
	if wire.Signals(channel, m.cfg.Table.ClientID) {
		if payload == wire.LatchOpen {
			m.latches.Opened(channel, order)
		}
		return
	}
	message, ok := wire.ParseMessage(payload)
	if !ok {
		return
	}
	var n table.Notices
	m.table.Hear(channel, message, arrived, &n)
	n.Deliver(m)
}

// freed tells the table that a lock is free, by the channel on which that was announced.
func (m *Manager) freed(channel string) {
	var n table.Notices
	m.table.Freed(channel, &n)
	n.Deliver(m)
}

// unwatched tells the table that the hub does not watch a channel any more.
func (m *Manager) unwatched(channel string) {
	var n table.Notices
	m.table.Unwatched(channel, &n)
	n.Deliver(m)
}

// refused tells the table that the user may not subscribe to channels.
func (m *Manager) refused(channels []string) { m.table.Refused(channels, clock.Now()) }

// Pump implements [table.Told]. Close waits for the command, because others may rely on it. The caller, which may be the hub's
// reader, never does.
func (m *Manager) Pump(channel string, after time.Duration) {
	kept := m.tasks.Keep()
	m.Aside(func() {
		if kept {
			defer m.tasks.End()
		}
		if after > 0 {
			time.Sleep(after)
		}
		r := m.conn.Ask(context.Background(), transport.Question{Call: m.table.PumpCall(channel)}, nil)
		var n table.Notices
		m.table.Pumped(channel, r, clock.Now(), &n)
		n.Deliver(m)
	})
}

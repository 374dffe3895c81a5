package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// A permit of a plain semaphore has no lease. If Redis forgets a release, by a failover or a restore, the permit would be out for as
// long as anybody renews the receipt. Its client knows that it does not have the permit any more: of each receipt, the grant is among
// those that are not over, or nobody has it. So a client that is refused a permit looks at its receipts, and gives back what it does
// not have.

const (
	// auditEvery is how often a client looks at its receipts of a semaphore, at most.
	auditEvery = 3 * time.Second
	// maxAlive is for how many grants a client looks at its receipts. It names all of them.
	maxAlive = 1000
)

// Audit returns the call that asks for receipts of a semaphore which this client does not know. It reports false if it is too soon
// after another one.
func (t *Table) Audit(h *Handle, now clock.Instant) (wire.Call, bool) {
	defer t.lock().Unlock()
	if next, ok := t.audited.Of(h.Key); t.closed || ok && now < next {
		return wire.Call{}, false
	}
	t.audited.Set(h.Key, now.Add(auditEvery))
	var numbers []int64
	for number, g := range t.alive {
		if g.handle.Key == h.Key {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) > maxAlive {
		return wire.Call{}, false
	}
	return wire.NewSemaphore(h.Names()).Receipts(numbers, int64(now)), true
}

// Audited takes the reply to such a call, and gives the permits back. A grant that was made in the meantime is known by now, and one
// that is over by now has no receipt any more.
func (t *Table) Audited(h *Handle, r wire.Reply, now clock.Instant, n *notice.List) {
	defer t.lock().Unlock()
	for i := 0; r.Err == nil && i+1 < len(r.List); i += 2 {
		t.unknown(h, r.List[i], int(r.List[i+1]), t.cfg.Receipt(), now, n)
	}
}

package snippets

import (
	"context"
	"fmt"
	"go/ast"
	"go/types"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// The errors that a switch must not take for that of a context which ended the wait.
const (
	refused     = "rlock.ErrNotAcquired"
	unavailable = "rlock.ErrUnavailable"
)

// cases makes a switch that tells both errors apart say which case it takes.
func (c *checks) cases(s *ast.SwitchStmt) {
	var edits []edit
	var all []string
	for _, stmt := range s.Body.List {
		clause := stmt.(*ast.CaseClause)
		var asks []string
		for _, x := range clause.List {
			asks = append(asks, types.ExprString(x))
		}
		all = append(all, asks...)
		edits = append(edits, edit{clause.Colon + 1, fmt.Sprintf(" prelude.Take(%q);", strings.Join(asks, ", "))})
	}
	if asked := strings.Join(all, " "); strings.Contains(asked, refused) && strings.Contains(asked, unavailable) {
		c.switches, c.edits = true, append(c.edits, edits...)
	}
}

// Take notes what the case asks that a switch takes. A default asks nothing.
func (p *Prelude) Take(asks string) { p.taken = asks }

// Switch runs a snippet with a switch that tells errors apart, in a service with a deadline of its own: while another process holds
// the lock, and without Redis. In both cases the error also matches that of the context, which must not hide what Redis said.
func Switch(t *testing.T, where string, snippet func(*testing.T, *Prelude) error) {
	t.Helper()
	t.Parallel()
	t.Run("another process holds the lock", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Embedded(t)
		other, err := rlock.New(rdb)
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Close() })
		p := prelude(t, rdb)
		require.NoError(t, other.NewLock(p.Lock.Name()).Lock(p.Ctx))
		p.expire(t, snippet, func() bool { // a waiter listens once Redis has refused it
			channels, err := rdb.PubSubChannels(t.Context(), "*").Result()
			return err == nil && len(channels) > 0
		})
		require.Contains(t, p.taken, refused, "%s: another process holds the lock", where)
	})
	t.Run("Redis is down", func(t *testing.T) {
		t.Parallel()
		dialed := make(chan struct{}, 1)
		p := prelude(t, redistest.Open(t, &redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
			select {
			case dialed <- struct{}{}:
			default:
			}
			return nil, syscall.ECONNREFUSED
		}}), rlock.WithCommandTimeout(time.Second)) // for which Close tries to release what Redis may have granted
		p.expire(t, snippet, func() bool { return len(dialed) > 0 })
		require.Contains(t, p.taken, unavailable, "%s: Redis is down", where)
	})
}

// expire runs a snippet, and lets its deadline pass once its call has begun to wait.
func (p *Prelude) expire(t *testing.T, snippet func(*testing.T, *Prelude) error, waits func() bool) {
	t.Helper()
	deadline := deadline{p.Ctx, make(chan struct{})}
	p.Ctx = deadline
	over := make(chan error, 1)
	go func() { over <- snippet(t, p) }()
	redistest.Eventually(t, "the snippet waits for its lock", waits)
	close(deadline.passed)
	<-over // with the error that the switch has looked at
}

// deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context

	passed chan struct{}
}

// Done is closed when the deadline has passed.
func (d deadline) Done() <-chan struct{} { return d.passed }

// Err says that the deadline has passed, once it has.
func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

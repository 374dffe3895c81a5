package transport

import (
	"context"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// onlineFor is for how long it counts what a master has said about its replicas.
const onlineFor = time.Second

// online is how many replicas of a master were in step when it was asked.
type online struct {
	replicas int
	asked    clock.Instant
}

// onlineOf returns how many replicas of a master were online within the last second. A nil node is the only master.
func (c *Conn) onlineOf(ctx context.Context, node driver.Node) (int, *fault.Error) {
	addr, now := "", clock.Now()
	if node != nil {
		addr = node.Addr()
	}
	if v, ok := c.masters.Load(addr); ok {
		if known, _ := v.(online); now.Sub(known.asked) < onlineFor {
			return known.replicas, nil
		}
	}
	info, err := c.driver.Raw(ctx, node, "info", "replication")
	text, _ := info.(string)
	n, ok := countOnline(text)
	switch {
	case err == nil && !ok:
		return 0, driver.Unreplicated(nil, "INFO replication does not say how many replicas are online")
	case err == nil:
	case !err.Replied():
		return 0, err
	case !strings.Contains(err.Error(), "section (replication) is not supported"): // miniredis has none, and no replicas
		return 0, driver.Unreplicated(err.Needs("--acks all"), "Redis does not say how many replicas are online (INFO replication)")
	}
	c.masters.Store(addr, online{n, now})
	return n, nil
}

// countOnline counts the replicas in the reply to INFO replication that are online. It reports false for a text that does not say what the
// server is, or that speaks of replicas in other words than Redis does: then it is not known how many of them are in step.
func countOnline(text string) (n int, ok bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "role":
			ok = true
		case !strings.HasPrefix(name, "slave") || !strings.HasPrefix(value, "ip="):
		case !strings.Contains(value, ",state=") || !strings.Contains(value, ",offset="):
			return 0, false
		case strings.Contains(value, ",state=online,"):
			n++
		}
	}
	return n, ok
}

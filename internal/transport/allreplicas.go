package transport

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/replicas"
	"github.com/go-rlock/rlock/internal/wire"
)

// sendToAll sends a call that all replicas acknowledge which are connected. It sends the call again if there are more of them than it has
// waited for. That changes nothing, and may write nothing for which WAIT could wait. So the master says what its replicas have then.
func (c *Conn) sendToAll(ctx context.Context, node driver.Node, call wire.Call) (r wire.Reply) {
	addr := ""
	if node != nil {
		addr = node.Addr()
	}
	written := int64(0) // how much the master had written when it had executed the call for the first time
	for range maxRedirects {
		plan := c.replicas.Plan(addr, clock.Now())
		acks := driver.Acks{Replicas: plan.Wait, Timeout: c.Acks.Timeout, Asks: plan.Asks || written > 0}
		r = c.pipeAcked(ctx, node, call, &acks)
		if r.Err != nil && (!r.Err.Replied() || r.Err.Stale) {
			c.replicas.Doubt(addr)
		}
		if !r.Acquired() || acks.Acked < 0 { // it was refused, or Redis refuses WAIT
			if said, ok := replicas.Parse(acks.Info); ok {
				c.replicas.Hear(addr, &said, clock.Now())
			}
			return r
		}
		var v replicas.Verdict
		if r.Err, v = c.judge(ctx, node, addr, plan, &acks, &written); v != replicas.Again {
			break
		}
	}
	if r.Err != nil && !r.Err.Replied() {
		r.N = -1 // it is not known whether replicas have it, so the call is sent again
	}
	return r
}

// judge returns what comes of a call that was granted, and the error of one that nobody may rely on.
func (c *Conn) judge(
	ctx context.Context, node driver.Node, addr string, plan replicas.Plan, acks *driver.Acks, written *int64,
) (*fault.Error, replicas.Verdict) {
	v, news, said, until := replicas.Unknown, replicas.Nothing, (*replicas.Info)(nil), clock.Now().Add(acks.Timeout)
	for apart := false; v == replicas.Unknown; apart = true {
		if apart { // only now is it of importance
			var info any
			info, acks.InfoErr = c.driver.Raw(ctx, node, "info", "replication")
			acks.Info, _ = info.(string)
		}
		if apart || acks.Asks {
			var err *fault.Error
			if said, err = saidOf(acks); err != nil {
				return err, replicas.TooFew
			}
			if have := said.Have(*written); *written > 0 && have < acks.Acked {
				if clock.Now() < until { // WAIT has waited for nothing, so they have not had the time yet
					<-time.After(10 * time.Millisecond) // each replica says what it has at least once a second
					continue
				}
				acks.Acked = have
			}
		}
		v, news = c.replicas.Judge(addr, plan, acks.Acked, said, apart, clock.Now())
	}
	if news != replicas.Nothing && c.OnReplicas != nil {
		c.OnReplicas(news == replicas.Hang, fmt.Errorf("%d of %d replicas acknowledged within %v", acks.Acked, len(said.Acked), acks.Timeout))
	}
	switch v {
	case replicas.Enough:
		return nil, v
	case replicas.Again:
		*written = max(*written, said.Offset)
		return driver.Unreplicated(nil, "more replicas connect each time"), v
	default:
		return driver.Unreplicated(nil, "%d of %d replicas within %v, and %d are connected now", acks.Acked, acks.Replicas, acks.Timeout, len(said.Acked)), v
	}
}

// saidOf returns what a master has said about its replicas.
func saidOf(acks *driver.Acks) (*replicas.Info, *fault.Error) {
	said, ok := replicas.Parse(acks.Info)
	switch err := acks.InfoErr; {
	case err == nil && ok:
	case err == nil:
		return nil, driver.Unreplicated(nil, "INFO replication does not say how many replicas are connected")
	case !err.Replied():
		return nil, err
	case strings.Contains(err.Error(), "section (replication) is not supported"): // miniredis, which has none
		said.Master = true
	default:
		return nil, driver.Unreplicated(err.Needs("--acks all"), "Redis does not say how many replicas are connected (INFO replication)")
	}
	return &said, nil
}

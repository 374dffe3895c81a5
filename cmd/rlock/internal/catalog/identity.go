package catalog

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/wire"
)

// identify asks what the owners of some rows say about themselves, and remembers it. Without an answer they say nothing.
func (c *Catalog) identify(ctx context.Context, owners []string, known map[string]*rlock.Identity) {
	asked := map[string]*redis.Cmd{}
	pipe := c.rdb.Pipeline()
	for _, owner := range owners {
		if _, ok := known[owner]; !ok && owner != "" && asked[owner] == nil {
			asked[owner] = pipe.Do(ctx, wire.ReadCommand(c.prefix+wire.ClientKey(owner))...)
		}
	}
	if len(asked) > 0 {
		_, _ = pipe.Exec(ctx) // each command has its error
	}
	if len(known)+len(asked) > maxKnown {
		clear(known)
	}
	for owner, cmd := range asked {
		known[owner] = identityOf(wire.ParseIdentity(cmd.Val()))
	}
}

// identifyRows adds to rows what the clients of their holders say about themselves.
func (c *Catalog) identifyRows(ctx context.Context, rows []*Row, known map[string]*rlock.Identity) {
	owners := make([]string, len(rows))
	for i, row := range rows {
		owners[i] = wire.Digits(row.owner())
	}
	c.identify(ctx, owners, known)
	for i, row := range rows {
		row.Identity = known[owners[i]]
	}
}

// Who describes a process in one line, such as billing@host-1 (pid 7), or returns the id of its client if it has no identity.
func Who(client string, id *rlock.Identity) string {
	if id == nil {
		return client
	}
	text := id.Service
	if id.Host != "" {
		text += "@" + id.Host
	}
	if id.PID > 0 {
		text += " (pid " + strconv.Itoa(id.PID) + ")"
	}
	if text = strings.TrimSpace(text); text == "" {
		return client
	}
	return text
}

// Who describes the holder.
func (r *Row) Who() string { return Who(r.Client, r.Identity) }

// maxKnown is how many identities are remembered at a time.
const maxKnown = 10_000

// identityOf returns an identity that Redis has, or nil if it says nothing.
func identityOf(fields wire.Identity) *rlock.Identity {
	if fields == (wire.Identity{}) {
		return nil
	}
	for i, text := range fields { // no identity that rlock writes is longer
		fields[i] = strings.Clone(text[:min(len(text), 256)]) // so that the rest is not kept
	}
	return &rlock.Identity{Service: fields[0], Host: fields[1], Version: fields[2], PID: fields.PID(), Started: fields.Started()}
}

// leaseUntil returns what is left at a time of a lease of a permit, given its score.
func leaseUntil(score float64, now time.Time) time.Duration {
	if score >= forever {
		return -1
	}
	return time.Duration(score-float64(now.UnixMilli())) * time.Millisecond
}

// forever is the score of a permit without a lease.
var forever, _ = strconv.ParseFloat(lua.Never, 64)

package catalog

import (
	"context"
	"crypto/sha1" // by which Redis names scripts
	_ "embed"     // for the script
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/wire"
)

//go:embed glance.lua
var glanceSource string

var glanceDigest = func() string {
	sum := sha1.Sum([]byte(glanceSource))
	return hex.EncodeToString(sum[:])
}()

// Script returns the script of the command itself, by which it lists and shows.
func Script() lua.Script {
	return lua.Script{
		Name: "glance", Digest: glanceDigest, Text: glanceSource,
		File: "-- " + glanceDigest + " glance\n-- The command rlock sends it, with all that follows.\n\n" + glanceSource,
	}
}

// glanceKeys returns the keys of the script for a name in Redis.
func glanceKeys(name string) []string {
	lock, permits := wire.NewNames(wire.FencedFair, name, "").Keys, wire.NewNames(wire.Permit, name, "").Keys
	keys := make([]string, 0, 5)
	for _, key := range []any{lock[0], permits[1], lock[3], lock[1], lock[4]} {
		keys = append(keys, key.(string)) //nolint:forcetypeassert // they are strings
	}
	return keys
}

// glance asks one node about some names. It returns nil for what is neither a lock nor a semaphore.
//
// A node runs the commands of a packet in one go, so there must not be many.
func (c *Catalog) glance(ctx context.Context, node redis.Cmdable, names []string) ([]*Row, error) {
	pipe := node.Pipeline()
	cmds := make([]*redis.Cmd, len(names))
	for i, name := range names {
		if i == 0 {
			cmds[i] = pipe.Eval(ctx, glanceSource, glanceKeys(name)) // which has the node remember the script
		} else {
			cmds[i] = pipe.EvalSha(ctx, glanceDigest, glanceKeys(name))
		}
	}
	_, failed := pipe.Exec(ctx) // each command has its error, unless there was no connection
	rows := make([]*Row, len(names))
	for i, cmd := range cmds {
		if cmd.Err() == nil && cmd.Val() == nil && failed != nil {
			return nil, failed
		}
		row, err := rowOf(names[i], cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			row, err = rowOf(names[i], node.Eval(ctx, glanceSource, glanceKeys(names[i])))
		}
		if moved(err) { // the client follows the keys
			row, err = rowOf(names[i], c.rdb.Eval(ctx, glanceSource, glanceKeys(names[i])))
		}
		if moved(err) { // some keys are on either side. The name alone says the most
			row, err = rowOf(names[i], c.rdb.Eval(ctx, glanceSource, []string{names[i]}))
		}
		if err != nil {
			var reply redis.Error
			if errors.As(err, &reply) && len(names) > 1 { // the others may be without fault
				err = fmt.Errorf("%s: %w", fault.Quote(names[i]), err)
			}
			return nil, err
		}
		rows[i] = row
	}
	return rows, nil
}

// moved reports whether a command failed because of where its keys are: their slot moves, or the braces of a name have dealt them into
// several slots.
func moved(err error) bool {
	for _, code := range []string{"MOVED", "ASK", "TRYAGAIN", "CROSSSLOT"} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}

// rowOf returns what a reply of the script says. A reply without anything is nil.
func rowOf(name string, cmd *redis.Cmd) (*Row, error) {
	reply, err := cmd.Slice()
	if err != nil || len(reply) < 10 {
		return nil, err
	}
	text := func(i int) string { s, _ := reply[i].(string); return s }
	number := func(i int) int64 { n, _ := reply[i].(int64); return n }
	row := &Row{
		Name: name, Kind: Kind(text(0)), Mode: text(1), Holder: text(2), Holders: int(number(3)), Waiters: int(number(4)),
		Lease: wire.Lease(number(5)), Free: int(number(7)), Processes: int(number(8)), Kept: number(9) == 1,
	}
	switch row.Kind {
	case Semaphore:
		row.Holder = hex.EncodeToString([]byte(row.Holder))
	case PlainSemaphore:
	default:
		row.Client = wire.Client(row.Holder)
		row.fence(tokenOf(text(6)))
	}
	return row, nil
}

// fence notes the latest token of a lock.
func (r *Row) fence(token rlock.Token) {
	if k := wire.Kinds[string(r.Kind)]; token != 0 && k != nil && k.Fenced != nil {
		r.Kind = kind(k.Fenced)
	}
	r.Token = token
}

// identify adds what the clients of some rows say about themselves. Without an answer they say nothing.
func (c *Catalog) identify(ctx context.Context, rows []*Row, known map[string]*rlock.Identity) {
	asked := map[string]*redis.Cmd{}
	pipe := c.rdb.Pipeline()
	for _, row := range rows {
		owner := wire.Digits(row.owner())
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
	for _, row := range rows {
		row.Identity = known[wire.Digits(row.owner())]
	}
}

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

// tokenOf returns a token that Redis has as text, or 0 if it is none.
func tokenOf(text string) rlock.Token {
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return rlock.Token(token)
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

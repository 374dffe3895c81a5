package catalog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/wire"
)

// ErrNoHolders is the error for freeing a plain semaphore. Redis does not know who has its permits.
var ErrNoHolders = errors.New("a plain semaphore does not know its holders: add a permit instead")

// Show returns what Redis has of one lock or semaphore. It returns nil and no error if nobody holds it and nobody waits for it.
func (c *Catalog) Show(ctx context.Context, name string) (*Details, error) {
	row, err := c.row(ctx, name)
	if row == nil || err != nil {
		return nil, err
	}
	d := &Details{Row: *row}
	if row.semaphore() {
		return d, c.permits(ctx, d)
	}
	ctx, cancel := c.question(ctx)
	defer cancel()
	info, err := c.lock(row).Inspect(ctx)
	if err != nil {
		return nil, err
	}
	if info.HolderCount == 0 {
		return nil, nil // it was freed meanwhile
	}
	d.Lock, d.Lease, d.Holders, d.Waiters, d.Processes = &info, info.Lease, info.HolderCount, info.WaiterCount, processes(&info)
	d.fence(info.Token)
	first := info.Holders[0]
	d.Kept = first.Kept
	d.Mode, d.Holder, d.Client, d.Identity = first.Mode, first.Holder, first.Client, first.Identity
	return d, nil
}

// Free frees a lock from its holders, and wakes its waiters, if it has no other holders than these. Of a semaphore, it gives these permits
// back. It returns false if the lock has another holder, or none. The comparison and the deletion are one step in Redis.
func (c *Catalog) Free(ctx context.Context, name string, holders ...string) (bool, error) {
	row, err := c.row(ctx, name)
	ctx, cancel := c.question(ctx)
	defer cancel()
	switch {
	case row == nil || err != nil:
		return false, err
	case row.Kind == PlainSemaphore:
		return false, ErrNoHolders
	case row.Kind == Semaphore:
		err := c.locks.NewSemaphore(name).Release(ctx, holders...)
		if errors.Is(err, rlock.ErrNotHeld) {
			return false, nil
		}
		return err == nil, err
	}
	return c.lock(row).ForceUnlockFrom(ctx, holders...)
}

// row returns the row of a name, or nil.
func (c *Catalog) row(ctx context.Context, name string) (*Row, error) {
	if name == "" {
		return nil, rlock.ErrInvalidName
	}
	ctx, cancel := c.question(ctx)
	defer cancel()
	rows, err := c.glance(ctx, c.rdb, []string{c.prefix + name})
	if err != nil || rows[0] == nil {
		return nil, err
	}
	rows[0].Name = name
	c.identify(ctx, rows, map[string]*rlock.Identity{})
	return rows[0], nil
}

// lock returns a handle of a lock. A handle with tokens knows those of a lock without, too.
func (c *Catalog) lock(row *Row) *rlock.Lock {
	switch {
	case row.Kind == Fair, row.Kind == FencedFair:
		return c.locks.NewFairLock(row.Name, rlock.Fenced())
	case row.Mode == "read":
		return c.locks.NewRWLock(row.Name, rlock.Fenced()).ReadLock()
	case row.Mode != "":
		return c.locks.NewRWLock(row.Name, rlock.Fenced()).WriteLock()
	}
	return c.locks.NewFencedLock(row.Name)
}

// processes returns how many processes wait for a lock, or 0 if not all are known.
func processes(info *rlock.LockInfo) int {
	if len(info.Waiters) < info.WaiterCount {
		return 0
	}
	clients := make(map[string]bool)
	for _, w := range info.Waiters {
		clients[w.Client] = true
	}
	return len(clients)
}

// most is how many permits and waiters are shown.
const most = 100

// permits fills in the permits of a semaphore that are out, and its waiters.
func (c *Catalog) permits(ctx context.Context, d *Details) error {
	keys := glanceKeys(c.prefix + d.Name)
	ctx, cancel := c.question(ctx)
	defer cancel()
	now, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	ids, err := c.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: keys[1], Start: "(" + strconv.FormatInt(now.UnixMilli(), 10), Stop: "+inf", ByScore: true, Count: most,
	}).Result()
	if err != nil {
		return err
	}
	known := map[string]*rlock.Identity{}
	owners := make([]*Row, len(ids))
	for i, id := range ids {
		owners[i] = &Row{Kind: Semaphore, Holder: hex.EncodeToString(bytesOf(id.Member)), Lease: leaseUntil(id.Score, now)}
	}
	c.identify(ctx, owners, known)
	for _, owner := range owners {
		d.Permits = append(d.Permits, Permit{owner.Holder, owner.Lease, owner.Identity})
	}
	line, err := c.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: keys[2], Start: "0", Stop: int64(lua.WaitersEnd), ByScore: true, Count: most, // the members beyond are marks
	}).Result()
	if err != nil {
		return err
	}
	for _, member := range line {
		field, _, _ := strings.Cut(string(bytesOf(member.Member)), "|")
		row := &Row{Client: wire.Client(field)}
		c.identify(ctx, []*Row{row}, known)
		d.Queue = append(d.Queue, rlock.WaiterInfo{
			Client: row.Client, Since: time.UnixMicro(int64(member.Score)), Identity: row.Identity,
		})
	}
	return nil
}

func bytesOf(member any) []byte { return []byte(fmt.Sprint(member)) }

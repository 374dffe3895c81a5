package catalog

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/wire"
)

// most is how many holders and waiters are shown.
const most = 100

// Show returns what Redis has of one lock, semaphore or counter. It returns nil and no error if nobody holds it and nobody waits for it.
func (c *Catalog) Show(ctx context.Context, name string) (*Details, error) {
	s, row, err := c.one(ctx, name)
	if row == nil || err != nil {
		return nil, err
	}
	ctx, cancel := c.question(ctx)
	defer cancel()
	d := &Details{Row: *row, At: c.now(ctx)}
	switch row.Kind {
	case Counter:
		d.Waiters = c.listeners(ctx, s.name)
		d.Processes = max(0, d.Waiters)
		return d, nil
	case Semaphore:
		err = c.permits(ctx, d, s)
	default:
		err = c.holders(ctx, d, s)
	}
	if err != nil || row.Holders > 0 && len(d.HolderList) == 0 { // it was freed meanwhile
		return nil, err
	}
	if err := c.waiters(ctx, d, s); err != nil {
		return nil, err
	}
	var owners []string
	for _, h := range d.HolderList {
		owners = append(owners, wire.Digits(ownerOf(&h)))
	}
	for _, w := range d.WaiterList {
		owners = append(owners, wire.Digits(w.Client))
	}
	known := map[string]*rlock.Identity{}
	c.identify(ctx, owners, known)
	for i := range d.HolderList {
		d.HolderList[i].Identity = known[owners[i]]
	}
	for i := range d.WaiterList {
		d.WaiterList[i].Identity = known[owners[len(d.HolderList)+i]]
	}
	if len(d.HolderList) > 0 {
		first := d.HolderList[0]
		d.Kept, d.Mode, d.Holder, d.Client, d.Identity = first.Kept, first.Mode, first.Holder, first.Client, first.Identity
	}
	return d, nil
}

func ownerOf(h *rlock.HolderInfo) string {
	if h.Client == "" {
		return h.Holder
	}
	return h.Client
}

// holders fills in the holders of a lock, expired readers included.
func (c *Catalog) holders(ctx context.Context, d *Details, s *sight) error {
	leases := map[int][]*redis.DurationCmd{}
	prefix := s.name
	if !strings.Contains(prefix, "{") {
		prefix = "{" + prefix + "}"
	}
	pipe := func(p redis.Pipeliner, i, count int, holder string) {
		for entry := range min(count, most) {
			leases[i] = append(leases[i], p.PTTL(ctx, prefix+":"+holder+":rwlock_timeout:"+strconv.Itoa(entry+1)))
		}
	}
	for cursor := uint64(0); len(d.HolderList) < most; {
		pairs, next, err := c.rdb.HScan(ctx, s.name, cursor, "", most+1).Result()
		if err != nil {
			return Rights(err)
		}
		for i := 0; i+1 < len(pairs) && len(d.HolderList) < most; i += 2 {
			if pairs[i] == lua.ModeField {
				continue
			}
			count, _ := strconv.Atoi(pairs[i+1])
			h := rlock.HolderInfo{
				Holder: pairs[i], Client: wire.Client(pairs[i]), Mode: d.Mode, Acquisitions: count, Lease: d.Lease, Kept: d.Mode == "" && count == 0,
			}
			if d.Mode != "" {
				h.Mode = lua.ReadMode
				if strings.HasSuffix(h.Holder, lua.WriteSuffix) {
					h.Mode = lua.WriteMode
				}
			}
			d.HolderList = append(d.HolderList, h)
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	err := c.ask(ctx, func(p redis.Pipeliner) {
		for i, h := range d.HolderList {
			if h.Mode == lua.ReadMode {
				pipe(p, i, h.Acquisitions, h.Holder)
			}
		}
	})
	for i, entries := range leases {
		h := &d.HolderList[i]
		h.Lease, h.Expired = 0, true
		for _, left := range entries { // go-redis leaves Redis's -1 and -2 as they are
			if left.Val() != wire.NoKey {
				h.Lease, h.Expired = max(h.Lease, left.Val()), false
			}
		}
	}
	return err
}

// permits fills in the permits of a semaphore that are out.
func (c *Catalog) permits(ctx context.Context, d *Details, s *sight) error {
	ids, err := c.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: s.permits, Start: "(" + strconv.FormatInt(d.At.UnixMilli(), 10), Stop: "+inf", ByScore: true, Count: most,
	}).Result()
	for _, id := range ids {
		d.HolderList = append(d.HolderList, rlock.HolderInfo{Holder: permitID(id), Lease: leaseUntil(id.Score, d.At)})
	}
	return Rights(err)
}

// waiters fills in the waiters: those in the queue of a fair lock, or in the line.
func (c *Catalog) waiters(ctx context.Context, d *Details, s *sight) error {
	if d.Kind == Fair || d.Kind == FencedFair {
		seats, _ := s.inQueue()
		for _, seat := range seats {
			d.WaiterList = append(d.WaiterList, rlock.WaiterInfo{Client: wire.Client(seat), Redisson: !strings.Contains(seat, lua.SeatInfix)})
		}
		return nil
	}
	if d.Waiters == 0 {
		return nil
	}
	line, err := c.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: s.line, Start: "0", Stop: end, ByScore: true, Count: most, // the members beyond are marks
	}).Result()
	for _, member := range line {
		text, _ := member.Member.(string)
		d.WaiterList = append(d.WaiterList, rlock.WaiterInfo{Client: wire.Client(text), Since: time.UnixMicro(int64(member.Score))})
	}
	return Rights(err)
}

// listeners returns how many processes wait for a counter to change: those that are subscribed to the channels of a latch and of a plain
// semaphore of that name. It returns -1 if the user has no right to ask.
func (c *Catalog) listeners(ctx context.Context, name string) (n int) {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return -1
	}
	how := "numsub"
	if _, ok := c.rdb.(*redis.ClusterClient); ok {
		how = "shardnumsub"
	}
	channels := []string{"redisson_countdownlatch__channel__{" + name + "}", wire.NewNames(wire.PlainPermit, name, "").Channel}
	for _, node := range nodes {
		reply, err := node.Do(ctx, "pubsub", how, channels[0], channels[1]).Slice()
		if err != nil {
			return -1
		}
		for _, part := range reply {
			count, _ := part.(int64)
			n += int(count)
		}
	}
	return n
}

// Free frees a lock from its holders, and wakes its waiters, if it has no other holders than these. Of a semaphore, it gives these permits
// back. It returns false if the lock has another holder, or none. The comparison and the deletion are one step in Redis.
func (c *Catalog) Free(ctx context.Context, name string, holders ...string) (bool, error) {
	_, row, err := c.one(ctx, name)
	ctx, cancel := c.question(ctx)
	defer cancel()
	switch {
	case row == nil || err != nil || row.Kind == Counter:
		return false, err
	case row.Kind == Semaphore:
		err := c.locks.NewSemaphore(name).Release(ctx, holders...)
		if errors.Is(err, rlock.ErrNotHeld) {
			return false, nil
		}
		return err == nil, err
	}
	return c.lock(row).ForceUnlockFrom(ctx, holders...)
}

// one looks at one name, and returns its row, or nil.
func (c *Catalog) one(ctx context.Context, name string) (*sight, *Row, error) {
	if name == "" {
		return nil, nil, rlock.ErrInvalidName
	}
	sights, rows, err := c.look(ctx, []string{c.prefix + name})
	if err != nil || rows[0] == nil {
		return nil, nil, err
	}
	rows[0].Name = name
	return sights[0], rows[0], nil
}

// lock returns a handle of a lock. A handle with tokens knows those of a lock without, too.
func (c *Catalog) lock(row *Row) *rlock.Lock {
	switch {
	case row.Kind == Fair, row.Kind == FencedFair:
		return c.locks.NewFairLock(row.Name, rlock.Fenced())
	case row.Mode == "read":
		return c.locks.NewRWLock(row.Name, rlock.Fenced()).Reader()
	case row.Mode != "":
		return c.locks.NewRWLock(row.Name, rlock.Fenced()).Writer()
	}
	return c.locks.NewLock(row.Name, rlock.Fenced())
}

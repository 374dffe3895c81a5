package catalog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/wire"
)

// sight is one name while it is looked at, in three steps that each ask what the one before has left open. All commands read, and read no
// more than a few fields and members, whatever the key is: they take no other rights than +@read, which scripts are not a part of.
type sight struct {
	name                  string
	permits, queue, token string
	lines                 []string // of fair and write locks, and of all others

	sort, permitsSort           *redis.StatusCmd
	lineSorts                   []*redis.StatusCmd
	fields                      *redis.StringSliceCmd
	size, holders, over, queued *redis.IntCmd
	waiters                     []*redis.IntCmd
	lease                       *redis.DurationCmd
	values                      *redis.SliceCmd
	counter, latest             *redis.StringCmd
	first                       *redis.ZSliceCmd
	seats                       *redis.StringSliceCmd
	holder                      string
}

func newSight(name string) *sight {
	lock, permits := wire.NewNames(wire.FencedFair, name, "").Keys, wire.NewNames(wire.Permit, name, "").Keys
	text := func(key any) string { return fmt.Sprint(key) }
	turns, _ := core.Plain.Keys(name)
	return &sight{
		name: name, permits: text(permits[1]), lines: []string{text(lock[3]), text(turns[1])}, queue: text(lock[1]), token: text(lock[4]),
	}
}

// field is what the field of a holder looks like, and little else.
var field = regexp.MustCompile(`^[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+:`)

// digits is the longest text of a counter or of a token.
const digits = 20

// ask asks for the form of what is there.
func (s *sight) ask(ctx context.Context, p redis.Pipeliner) {
	switch s.sort.Val() {
	case "hash":
		s.fields = p.HRandField(ctx, s.name, 2) // without values, which may be long if it is no lock
	case "string":
		s.size, s.permitsSort, s.lines = p.StrLen(ctx, s.name), p.Type(ctx, s.permits), s.lines[1:]
	default:
		return
	}
	for _, line := range s.lines {
		s.lineSorts = append(s.lineSorts, p.Type(ctx, line))
	}
}

// count asks for what is shown of a lock or of a counter.
func (s *sight) count(ctx context.Context, p redis.Pipeliner, now time.Time) {
	switch {
	case s.fields != nil:
		at := slices.IndexFunc(s.fields.Val(), func(name string) bool { return len(name) <= 256 && field.MatchString(name) })
		if at < 0 {
			return
		}
		s.holder = s.fields.Val()[at]
		s.holders, s.lease, s.values = p.HLen(ctx, s.name), p.PTTL(ctx, s.name), p.HMGet(ctx, s.name, lua.ModeField, s.holder)
		s.latest, s.queued, s.seats = p.GetRange(ctx, s.token, 0, digits), p.LLen(ctx, s.queue), p.LRange(ctx, s.queue, 0, most-1)
	case s.size == nil || s.size.Val() == 0 || s.size.Val() > digits:
		return
	default:
		s.counter = p.Get(ctx, s.name)
		if s.permitsSort.Val() == "zset" {
			until := strconv.FormatInt(now.UnixMilli(), 10)
			s.holders, s.over = p.ZCard(ctx, s.permits), p.ZCount(ctx, s.permits, "-inf", until)
			s.first = p.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: s.permits, Start: "(" + until, Stop: "+inf", ByScore: true, Count: 1})
		}
	}
	for i, line := range s.lines {
		if s.lineSorts[i].Val() == "zset" {
			s.waiters = append(s.waiters, p.ZCount(ctx, line, "0", end)) // the members beyond are marks
		}
	}
}

var end = strconv.FormatInt(int64(lua.WaitersEnd), 10)

// row returns what the answers say, or nil for what is neither a lock nor a counter.
func (s *sight) row(now time.Time) *Row {
	row := &Row{Name: s.name, Holder: s.holder}
	for _, waiters := range s.waiters {
		row.Waiters += int(waiters.Val())
	}
	switch {
	case s.values != nil && len(s.values.Val()) == 2 && s.values.Val()[1] != nil: // or it was freed meanwhile
		return s.lock(row)
	case s.counter == nil:
		return nil
	}
	value, err := strconv.ParseInt(s.counter.Val(), 10, 64)
	if err != nil {
		return nil
	}
	row.Kind, row.Free, row.Processes = Counter, int(value), row.Waiters
	if s.first != nil {
		over := int(s.over.Val())
		row.Holders, row.Free = int(s.holders.Val())-over, row.Free+over
		for _, permit := range s.first.Val() {
			row.Holder, row.Lease = permitID(permit), leaseUntil(permit.Score, now)
		}
	}
	if row.Holders > 0 || row.Waiters > 0 {
		row.Kind = Semaphore
	}
	return row
}

// lock completes the row of a lock.
func (s *sight) lock(row *Row) *Row {
	mode, named := s.values.Val()[0].(string)
	if named && mode != lua.ReadMode && mode != lua.WriteMode {
		return nil
	}
	row.Kind, row.Mode, row.Processes = Lock, mode, row.Waiters
	if named {
		row.Kind = Kind(mode)
	}
	if s.queued.Val() > 0 || s.lineSorts[0].Val() == "hash" {
		row.Kind = Fair
		seats, clients := s.inQueue()
		row.Waiters, row.Processes = int(s.queued.Val())-(len(s.seats.Val())-len(seats)), 0
		if s.queued.Val() <= most {
			row.Processes = clients
		}
	}
	row.Holders, row.Lease, row.Client = int(s.holders.Val()), wire.Lease(s.lease.Val().Milliseconds()), wire.Client(s.holder)
	if s.lease.Val() < 0 {
		row.Lease = wire.Lease(int64(s.lease.Val())) // go-redis leaves Redis's -1 and -2 as they are
	}
	if named {
		row.Holders--
	}
	row.Kept = !named && s.values.Val()[1] == "0"
	if token, err := strconv.ParseUint(s.latest.Val(), 10, 64); err == nil && token != 0 {
		row.Token = rlock.Token(token)
		if k := wire.Kinds[string(row.Kind)]; k != nil && k.Fenced != nil {
			row.Kind = kind(k.Fenced)
		}
	}
	return row
}

// inQueue returns the waiters in the queue of a fair lock that are looked at, and of how many processes they are. The locks x and {x} have
// one queue, in which the seats of {x} end differently.
func (s *sight) inQueue() (seats []string, processes int) {
	ending := ""
	if strings.HasPrefix(s.name, "{") && strings.HasSuffix(s.name, "}") && strings.Count(s.name, "{") == 1 && strings.Count(s.name, "}") == 1 {
		ending = lua.BracedEnding
	}
	clients := map[string]bool{}
	for _, waiter := range s.seats.Val() {
		if m := seat.FindStringSubmatch(waiter); m == nil || m[1] == ending {
			seats = append(seats, waiter)
			clients[wire.Client(waiter)] = true
		}
	}
	return seats, len(clients)
}

var seat = regexp.MustCompile(`:-\d+(.*)$`)

// look returns what Redis has of some names: nil for what is neither a lock nor a counter. Of a cluster, the client knows where each is.
func (c *Catalog) look(ctx context.Context, names []string) ([]*sight, []*Row, error) {
	ctx, cancel := c.question(ctx)
	defer cancel()
	sights := make([]*sight, len(names))
	for i, name := range names {
		sights[i] = newSight(name)
	}
	each := func(ask func(s *sight, p redis.Pipeliner)) error {
		return c.ask(ctx, func(p redis.Pipeliner) {
			for _, s := range sights {
				ask(s, p)
			}
		})
	}
	if err := each(func(s *sight, p redis.Pipeliner) { s.sort = p.Type(ctx, s.name) }); err != nil {
		return nil, nil, err
	}
	if err := each(func(s *sight, p redis.Pipeliner) { s.ask(ctx, p) }); err != nil {
		return nil, nil, err
	}
	now := time.Now()
	if slices.ContainsFunc(sights, func(s *sight) bool { return s.permitsSort != nil && s.permitsSort.Val() == "zset" }) {
		now = c.now(ctx)
	}
	if err := each(func(s *sight, p redis.Pipeliner) { s.count(ctx, p, now) }); err != nil {
		return nil, nil, err
	}
	rows := make([]*Row, len(names))
	for i, s := range sights {
		rows[i] = s.row(now)
	}
	return sights, rows, nil
}

// now returns Redis's time, or that of this machine for a user who may not ask for it.
func (c *Catalog) now(ctx context.Context) time.Time {
	if now, err := c.rdb.Time(ctx).Result(); err == nil {
		return now
	}
	return time.Now()
}

// ask sends commands in one pipeline. A key that has become another type meanwhile, or has never been the one that it looks like, says nothing.
func (c *Catalog) ask(ctx context.Context, add func(p redis.Pipeliner)) error {
	pipe := c.rdb.Pipeline()
	add(pipe)
	if pipe.Len() == 0 {
		return nil
	}
	cmds, failed := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			if reply := redis.Error(nil); errors.As(err, &reply) {
				err = fmt.Errorf("%s of %s: %w", cmd.Name(), fault.Quote(fmt.Sprint(cmd.Args()[1])), err)
			}
			return Rights(err)
		}
	}
	if len(cmds) == 0 {
		return failed
	}
	return nil
}

// Rights adds to an error about rights where they are explained.
func Rights(err error) error {
	if redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("%w. See https://github.com/go-rlock/rlock/blob/main/docs/guide/operating.md#the-command", err)
	}
	return err
}

func permitID(permit redis.Z) string { return hex.EncodeToString([]byte(fmt.Sprint(permit.Member))) }

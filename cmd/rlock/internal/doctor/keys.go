package doctor

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// limits bound the search through the keys of one server.
type limits struct {
	calls  int           // of SCAN
	count  int64         // keys per call, which take Redis less than a millisecond
	within time.Duration // for all calls
	tokens int64         // from how many tokens on a warning is due
}

// usual are the limits. 100,000 tokens take about 12 MB (88 bytes, and the entry of the key), and whoever has so many makes names without
// bound, so there will be more.
var usual = limits{calls: 200, count: 1000, within: 3 * time.Second, tokens: 100_000}

// walk is how far a search went.
type walk struct {
	looked, all int64 // keys
	cut         bool
}

// scan visits the keys that match, in the order of the server, until the limits are reached. typ may be empty.
func (n *node) scan(ctx context.Context, l limits, match, typ string, visit func([]string) error) (w walk, err error) {
	started, cursor := time.Now(), uint64(0)
	w.all = n.keys()
	for range l.calls {
		var keys []string
		if keys, cursor, err = n.rdb.ScanType(ctx, cursor, match, l.count, typ).Result(); err != nil {
			return w, err
		}
		w.looked += l.count
		if err := visit(keys); err != nil {
			return w, err
		}
		if cursor == 0 {
			return w, nil
		}
		if time.Since(started) > l.within {
			break
		}
	}
	w.cut = true
	return w, nil
}

// keys returns how many keys the database has, by INFO.
func (n *node) keys() int64 {
	db := n.info["db"+strconv.Itoa(n.rdb.Options().DB)]
	text, _, _ := strings.Cut(strings.TrimPrefix(db, "keys="), ",")
	return parse(text)
}

const tokenStem = "redisson_lock_token:"

// tokens counts the keys of fencing tokens, which nothing ever deletes.
func tokens(ctx context.Context, d *deployment) (all []Finding) {
	var total, seen int64
	cut := false
	for _, n := range d.masters() {
		var here int64
		w, err := n.scan(ctx, d.limits, tokenStem+"*", "", func(keys []string) error {
			for _, key := range keys {
				if strings.HasPrefix(strings.TrimPrefix(key[len(tokenStem):], "{"), d.opts.Prefix) {
					here++
				}
			}
			return nil
		})
		if err != nil {
			all = append(all, found(n, Unknown, "The fencing tokens: %s.", why(err)))
			continue
		}
		seen += here
		if w.cut {
			cut = true
			if w.all > w.looked { // SCAN has no order, so the rest is like what was seen
				here = here * w.all / w.looked
			}
		}
		total += here
	}
	switch {
	case total >= d.limits.tokens:
		return append(all, found(nil, Warning,
			"There are about %d fencing tokens (%d were seen), and each new name of a fenced lock adds one for good. Use names that come again, and delete the tokens of names that will not; where Go alone draws them, tokens grow nevertheless, because they come from the clock.",
			total, seen))
	case cut:
		return append(all, found(nil, Note, "There are about %d fencing tokens (%d were seen), but only a part of the keys was looked at.", total, seen))
	}
	return all
}

// holder is what the field of a holder looks like, and little else. The scripts of rlock have the same rule.
var holder = regexp.MustCompile(`^[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+:-?\d+(:write)?$`)

// leases looks for locks without a lease.
func leases(ctx context.Context, d *deployment) (all []Finding) {
	var example string
	count, cut := 0, false
	for _, n := range d.masters() {
		w, err := n.scan(ctx, d.limits, literal(d.opts.Prefix)+"*", "hash", func(keys []string) error {
			locks, err := n.endless(ctx, keys)
			for _, lock := range locks {
				count++
				if example == "" || lock < example {
					example = lock
				}
			}
			return err
		})
		cut = cut || w.cut
		if err != nil {
			all = append(all, found(n, Unknown, "Locks without a lease: %s.", why(err)))
		}
	}
	switch {
	case count > 0:
		return append(all, found(nil, Warning,
			"%d locks have no lease, such as %.80q: neither rlock nor Redisson makes these. The next waiter of rlock gives it a lease, and Redisson's waits on. Delete it if nobody is inside.",
			count, example))
	case cut:
		return append(all, found(nil, Note, "No lock without a lease was seen, but only a part of the keys was looked at."))
	}
	return all
}

// endless returns those keys of hashes that look like a lock and have no TTL. A few fields of each are enough: all fields of a lock are
// holders, or the mode.
func (n *node) endless(ctx context.Context, keys []string) (locks []string, err error) {
	ttls, err := each(ctx, n, keys, func(p redis.Pipeliner, key string) *redis.DurationCmd { return p.PTTL(ctx, key) })
	if err != nil {
		return nil, err
	}
	var without []string
	for i, ttl := range ttls {
		if ttl.Val() == -1 { // nanosecond: go-redis leaves Redis's -1 as it is
			without = append(without, keys[i])
		}
	}
	few, err := each(ctx, n, without, func(p redis.Pipeliner, key string) *redis.StringSliceCmd { return p.HRandField(ctx, key, 3) })
	if err != nil {
		return nil, err
	}
	for i, names := range few {
		if slices.ContainsFunc(names.Val(), holder.MatchString) {
			locks = append(locks, without[i])
		}
	}
	return locks, nil
}

// each asks about keys. A hash may be gone meanwhile, or be another type.
func each[T redis.Cmder](ctx context.Context, n *node, keys []string, ask func(redis.Pipeliner, string) T) ([]T, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	answers := make([]T, len(keys))
	_, err := n.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			answers[i] = ask(p, key)
		}
		return nil
	})
	var reply redis.Error
	if asRedis(err, &reply) && !denied(err) {
		err = nil
	}
	return answers, err
}

// literal escapes what has a meaning in a pattern.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

package catalog

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/core"
)

// A SCAN looks at about scanned keys of Redis, in 0.1 ms, and the names that it finds are looked at in packets of so many.
const (
	scanned = 500
	packet  = 100
)

// nodes returns the masters.
func (c *Catalog) nodes(ctx context.Context) (nodes []*redis.Client, err error) {
	switch rdb := c.rdb.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		err = rdb.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node)
			return nil
		})
		return nodes, err
	case *redis.Client:
		return []*redis.Client{rdb}, nil
	}
	return nil, rlock.ErrInvalidOption
}

// search is one run of [Catalog.Find].
type search struct {
	c       *Catalog
	filter  *Filter
	prefix  string                 // of names in Redis
	pattern string                 // of what the keys have in them, too
	fits    func(name string) bool // of names without the key prefix
	known   map[string]*rlock.Identity
	yield   func(Row, error) bool
	stopped bool // the caller has seen enough
}

// run finds the rows of all nodes.
func (s *search) run(ctx context.Context) {
	nodes, err := s.c.nodes(ctx)
	for i := 0; i < len(nodes) && err == nil && !s.stopped; i++ {
		err = s.node(ctx, nodes[i])
	}
	if err != nil && !s.stopped {
		s.yield(Row{}, err)
	}
}

// node finds the rows of one node.
func (s *search) node(ctx context.Context, node *redis.Client) error {
	pattern := s.pattern
	if pattern == "" {
		pattern = escape(s.prefix)
	}
	if pattern = "*" + pattern + "*"; pattern == "**" { // the key of a semaphore's permits has a brace before the name
		pattern = "*"
	}
	for cursor := uint64(0); ; {
		keys, next, err := s.scan(ctx, node, cursor, pattern)
		if err != nil {
			return err
		}
		names := s.candidates(keys)
		for first := 0; first < len(names) && !s.stopped; first += packet {
			if err := s.look(ctx, names[first:min(first+packet, len(names))]); err != nil {
				return err
			}
		}
		if next == 0 || s.stopped {
			return nil
		}
		cursor = next
	}
}

// scan asks for the next keys.
func (s *search) scan(ctx context.Context, node *redis.Client, cursor uint64, pattern string) (keys []string, next uint64, err error) {
	ctx, cancel := s.c.question(ctx)
	defer cancel()
	keys, next, err = node.Scan(ctx, cursor, pattern, scanned).Result()
	return keys, next, Rights(err)
}

// trace is the key by which a row is found. A row that was found by each of its keys would come several times.
type trace int

const (
	byName    trace = iota // a lock
	byPermits              // a semaphore of which permits are out
	byLine                 // another semaphore
)

// found returns the key by which the row is found.
func (r *Row) found() trace {
	switch {
	case r.Kind != Semaphore:
		return byName
	case r.Holders > 0:
		return byPermits
	}
	return byLine
}

// candidate is a name that a key may belong to.
type candidate struct {
	name string
	by   trace
}

// candidates returns the names that keys may belong to.
func (s *search) candidates(keys []string) (found []candidate) {
	add := func(name string, by trace) {
		if name != "" && strings.HasPrefix(name, s.prefix) && s.fits(strings.TrimPrefix(name, s.c.prefix)) {
			found = append(found, candidate{name, by})
		}
	}
	for _, key := range keys {
		own := false // whether it is not a name
		for _, prefix := range ownPrefixes {
			own = own || strings.HasPrefix(key, prefix)
		}
		if name, ok := core.KeyOf(key); ok {
			add(name, byLine)
		}
		if own {
			continue
		}
		add(key, byName)
		if part, ok := strings.CutSuffix(key, permitsSuffix); ok {
			for _, name := range unbraced(part) {
				add(name, byPermits)
			}
		}
	}
	return found
}

// The keys of rlock and Redisson that are not names of locks: see wire.NewNames. A lock whose name begins like one of them is not found.
const (
	permitsSuffix = ":timeout"
)

var ownPrefixes = []string{"redisson_unlock_latch:", "rlock:{", "rlock::", "redisson_lock_queue:", "redisson_lock_timeout:", "redisson_lock_token:", "rlock_client:"}

// unbraced returns the names of which a part of a key may have been made: with braces around the name, unless it has braces itself.
func unbraced(part string) []string {
	name, ok := strings.CutPrefix(part, "{")
	if ok {
		name, ok = strings.CutSuffix(name, "}")
	}
	switch braces := strings.Contains(part, "{"); {
	case ok && !strings.Contains(name, "{"):
		return []string{name, part} // {a} may stand for a, or for itself
	case braces:
		return []string{part}
	}
	return nil // a name without braces would have got some
}

// look yields the rows of some names.
func (s *search) look(ctx context.Context, some []candidate) error {
	names := make([]string, len(some))
	for i, candidate := range some {
		names[i] = candidate.name
	}
	_, rows, err := s.c.look(ctx, names)
	if err != nil {
		return err
	}
	found := rows[:0]
	for i, row := range rows {
		if row == nil || row.Kind == Counter || row.found() != some[i].by {
			continue
		}
		row.Name = strings.TrimPrefix(row.Name, s.c.prefix)
		found = append(found, row)
	}
	s.c.identifyRows(ctx, found, s.known)
	for _, row := range found {
		if s.filter.admits(row) && !s.yield(*row, nil) {
			s.stopped = true
			return nil
		}
	}
	return nil
}

// escape returns a text as a part of a pattern that matches it alone.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

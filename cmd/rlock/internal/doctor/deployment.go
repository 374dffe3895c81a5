package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// deployment is what the checks look at.
type deployment struct {
	opts    Options
	limits  limits
	rdb     redis.UniversalClient
	chosen  bool // the options name kinds
	tell    func(Finding)
	cluster bool
	nodes   []*node // that replied, masters first
	silent  []*node // that did not
}

// node is one server, and what it says about itself.
type node struct {
	addr   string
	rdb    *redis.Client
	master bool
	err    error // why it did not reply

	pingErr  error             // with which it replied nevertheless
	info     map[string]string // INFO
	infoErr  error
	settings map[string]string // CONFIG GET
}

func (d *deployment) isCluster() bool { return d.cluster }

// isReplicated reports whether there may be a failover.
func (d *deployment) isReplicated() bool {
	return slices.ContainsFunc(d.nodes, func(n *node) bool { return !n.master || n.number("connected_slaves") > 0 })
}

// isGuarded reports whether min-replicas-to-write matters: there may be a failover, or it is in force without any replica. INFO has the
// field only while both settings are set.
func (d *deployment) isGuarded() bool {
	return d.isReplicated() || slices.ContainsFunc(d.nodes, func(n *node) bool {
		_, inForce := n.info["min_slaves_good_slaves"]
		return inForce || n.infoErr != nil && parse(n.settings["min-replicas-to-write"]) > 0
	})
}

func (d *deployment) addresses() []string {
	all := make([]string, len(d.nodes))
	for i, n := range d.nodes {
		all[i] = n.addr
	}
	return all
}

// masters returns the nodes that have locks.
func (d *deployment) masters() (all []*node) {
	for _, n := range d.nodes {
		if n.master {
			all = append(all, n)
		}
	}
	return all
}

// open asks all nodes what they are.
func open(ctx context.Context, rdb redis.UniversalClient, opts Options) (*deployment, error) {
	d := &deployment{opts: opts, limits: usual, rdb: rdb}
	if opts.limits != (limits{}) {
		d.limits = opts.limits
	}
	nodes, err := d.find(ctx, rdb)
	if err != nil {
		return nil, classified(err)
	}
	var asking sync.WaitGroup
	for _, n := range nodes {
		asking.Go(func() { n.ask(ctx) })
	}
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b *node) int {
		if a.master != b.master {
			return cmp.Compare(rank(a), rank(b))
		}
		return cmp.Compare(a.addr, b.addr)
	})
	for _, n := range nodes {
		if n.err == nil {
			d.nodes = append(d.nodes, n)
		} else {
			d.silent = append(d.silent, n)
		}
	}
	if len(d.nodes) == 0 {
		return nil, classified(d.silent[0].err)
	}
	return d, nil
}

func rank(n *node) int {
	if n.master {
		return 0
	}
	return 1
}

// find returns the nodes.
func (d *deployment) find(ctx context.Context, rdb redis.UniversalClient) (nodes []*node, err error) {
	var mu sync.Mutex
	add := func(master bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, &node{addr: c.Options().Addr, rdb: c, master: master})
			return nil
		}
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
		n := &node{addr: rdb.Options().Addr, rdb: rdb, master: true}
		if n.addr == "FailoverClient" { // which is what go-redis calls it
			n.addr = "master"
		}
		return []*node{n}, nil
	case *redis.ClusterClient:
		d.cluster = true
		if err := rdb.ForEachMaster(ctx, add(true)); err != nil {
			return nil, err
		}
		if err := rdb.ForEachSlave(ctx, add(false)); err != nil {
			return nil, err
		}
		if len(nodes) == 0 {
			return nil, errors.New("the cluster has no nodes")
		}
		return nodes, nil
	default:
		return nil, fmt.Errorf("%w: %T", rlock.ErrInvalidOption, rdb)
	}
}

// classified returns an error of which nothing else can be said than whether Redis replied.
func classified(err error) error {
	switch {
	case errors.Is(err, rlock.ErrInvalidOption), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case denied(err) || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS"):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", rlock.ErrUnavailable, err)
}

// denied reports whether a user lacks a right.
func denied(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

// unsaved reports whether Redis refuses writes because it cannot save.
func unsaved(err error) bool { return redis.HasErrorPrefix(err, "MISCONF") }

// parameters are the settings that checks look at. Redis 6.2 answers one at a time.
var parameters = []string{
	"maxmemory-policy", "maxmemory", "min-replicas-to-write", "min-replicas-max-lag", "appendonly", "appendfsync",
}

// ask has a node say what it is. Whatever it does not say, the checks do without. Of all that only reads, Redis refuses PING alone while it
// cannot save.
func (n *node) ask(ctx context.Context) {
	if n.pingErr = n.rdb.Ping(ctx).Err(); n.pingErr != nil && !denied(n.pingErr) && !unsaved(n.pingErr) {
		n.err = n.pingErr
		return
	}
	text, err := n.rdb.Info(ctx).Result()
	n.info, n.infoErr = fields(text), err
	n.settings = make(map[string]string)
	for _, name := range parameters {
		values, err := n.rdb.ConfigGet(ctx, name).Result()
		if err != nil {
			return // it will not say the others either
		}
		if value, ok := values[name]; ok {
			n.settings[name] = value
		}
	}
}

// fields parses what INFO and CLUSTER INFO say.
func fields(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// setting returns a setting, by its name or by what INFO calls it.
func (n *node) setting(name, inInfo string) (string, bool) {
	if value, ok := n.settings[name]; ok {
		return value, true
	}
	value, ok := n.info[inInfo]
	return value, ok
}

// number returns a number in INFO, or 0.
func (n *node) number(name string) int64 { return parse(n.info[name]) }

// why returns the reason for which a node did not say something.
func why(err error) string {
	if err == nil {
		return "the server does not say"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ".")
}

// asRedis reports whether an error is a reply of Redis.
func asRedis(err error, reply *redis.Error) bool { return errors.As(err, reply) }

package rlock

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Client makes locks on one Redis and keeps them alive. A process needs one for each Redis it locks on. All locks of a
// client share one goroutine that renews them and, while somebody waits, one subscription connection, or with sharded
// pub/sub one to each node. It is safe for concurrent use; it ports RedissonClient, as far as locks go.
type Client struct {
	rdb redis.UniversalClient
	id  string
	settings

	// cluster is the client again where it is one of a cluster, else nil.
	cluster *redis.ClusterClient
	// sentinel tells that Sentinels say where the master is.
	sentinel bool
	// bySlot tells that a script may touch the keys of one slot only.
	bySlot atomic.Bool
	// bounded tells that rdb itself ends a command within the command timeout.
	bounded bool
	// places is how many connections to a node acquisitions may take: all but one, which is for renewals. 0: no limit.
	places int
	taken  sync.Map // node address -> place, the ones taken there

	// routed tells that the node of a key was found once, so that finding another waits for nothing.
	routed atomic.Bool

	numbers  atomic.Int64
	reloaded atomic.Int64 // when the picture of the cluster was last renewed, Unix ns
	sharding sharding

	workers  *workers
	watchdog *watchdog
	pubsub   *pubsub

	pipelines autoPipelines

	closing sync.Once
	done    chan struct{} // closed by Close

	// mu guards what follows and the state of every gate, possession and entry. It is never held during I/O.
	mu          sync.Mutex
	closed      bool
	active      int           // verbs, commands and releases under way that Close waits for
	quiet       chan struct{} // closed when closed and active is 0
	forces      []nameKey     // the names of the latest unlocks by force
	forceCount  int           // and how many there were in all
	gates       map[nameKey]*gate
	spareGates  []*gate                           // of use again
	tenants     [redFamily]map[string]*possession // who holds a name exclusively, by family
	offers      offers
	possessions map[possessionKey]*possession // of owners who may have more than one
}

// nameKey tells what excludes each other: one name in Redis, as one family of locks. It is also the key under which a
// context carries a hold.
type nameKey struct {
	client *Client
	name   string
	family family
}

// lockKey tells what one owner holds at most once.
type lockKey struct {
	nameKey
	side side
}

type possessionKey struct {
	lockKey
	owner *owner
}

// New returns a client that locks through rdb: a [redis.Client], also one of Sentinel's, or a [redis.ClusterClient].
// It sends nothing. The error is [ErrInvalidOption] for an option that cannot work, for a nil rdb, for a cluster client
// without a ReadTimeout, and for a [redis.Ring], which moves a name to another server when one fails and so would let
// two owners hold it.
//
// rdb stays the caller's: it is not closed by [Client.Close]. Renewals need a connection of its pool, so a pool that
// blocking commands of the application may exhaust is better not shared.
func New(rdb redis.UniversalClient, opts ...Option) (*Client, error) {
	if v := reflect.ValueOf(rdb); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the redis client is nil", ErrInvalidOption)
	}
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("rlock: make a client id: %w", err)
	}
	c := &Client{
		rdb:         rdb,
		id:          id.String(),
		settings:    *s,
		done:        make(chan struct{}),
		quiet:       make(chan struct{}),
		gates:       make(map[nameKey]*gate),
		possessions: make(map[possessionKey]*possession),
	}
	if err := c.fit(); err != nil {
		return nil, err
	}
	for i := range c.tenants {
		c.tenants[i] = make(map[string]*possession)
	}
	c.workers = newWorkers()
	c.watchdog = newWatchdog(c)
	c.pubsub = newPubSub(c)
	return c, nil
}

// fit takes the kind and the limits of the redis client into account.
func (c *Client) fit() error {
	var pool pool
	var readTimeout time.Duration
	switch rdb := c.rdb.(type) {
	case *redis.Client:
		opt := rdb.Options()
		c.sentinel = opt.Addr == "FailoverClient" // what redis.NewFailoverClient writes there
		pool = poolOf(opt.PoolSize, opt.MaxActiveConns, opt.PipelineReadBufferSize+opt.PipelineWriteBufferSize, opt.PipelinePoolSize)
		readTimeout = opt.ReadTimeout
		if readTimeout <= 0 || readTimeout > c.commandTimeout {
			// Nothing else ends a command whose reply is lost, and gives its connection back.
			c.rdb, readTimeout = rdb.WithTimeout(c.commandTimeout), c.commandTimeout
		}
	case *redis.ClusterClient:
		opt := rdb.Options()
		c.cluster = rdb
		c.bySlot.Store(true)
		pool = poolOf(opt.PoolSize, opt.MaxActiveConns, opt.PipelineReadBufferSize+opt.PipelineWriteBufferSize, opt.PipelinePoolSize)
		readTimeout = opt.ReadTimeout
		if readTimeout <= 0 {
			return fmt.Errorf("%w: the cluster client has no ReadTimeout, so a lost reply would hold its connection for ever",
				ErrInvalidOption)
		}
	case *redis.Ring:
		return fmt.Errorf("%w: a redis.Ring cannot keep a lock on one server", ErrInvalidOption)
	case *redis.AutoPipeliner:
		return fmt.Errorf("%w: a redis.AutoPipeliner would batch renewals too; pass its client, and WithAutoPipeline",
			ErrInvalidOption)
	default:
		if c.autoPipeline {
			return fmt.Errorf("%w: WithAutoPipeline needs a redis.Client or a redis.ClusterClient, not a %T",
				ErrInvalidOption, c.rdb)
		}
		return nil
	}
	c.bounded = readTimeout > 0 && readTimeout <= c.commandTimeout
	return c.share(pool)
}

// pool is how many connections to a node there may be, and how many of those that pipelines have where they have a pool
// of their own; else 0.
type pool struct{ size, pipelines int }

func poolOf(size, most, buffers, pipelines int) pool {
	if most <= 0 {
		most = size
	}
	p := pool{size: min(size, most)}
	if buffers > 0 && pipelines > 0 { // by default there are enough
		p.pipelines = pipelines
	}
	return p
}

// share divides the connections to a node among renewals, batches and the rest.
func (c *Client) share(p pool) error {
	c.places = max(p.size-1, 1)
	if !c.autoPipeline {
		return nil
	}
	batches := min(p.size-2, maxBatches)
	if p.pipelines > 0 {
		batches = min(batches, p.pipelines-1)
	}
	if batches < 1 {
		return fmt.Errorf("%w: WithAutoPipeline needs 3 connections to a node, and 2 in a pool for pipelines, not %d and %d",
			ErrInvalidOption, p.size, p.pipelines)
	}
	c.pipelines.batches = batches
	c.places = p.size - 1 - batches
	return nil
}

// ID returns the random UUID that begins the holder field of every lock this client holds.
func (c *Client) ID() string {
	if c == nil {
		return ""
	}
	return c.id
}

// Close stops the client: waiting verbs return [ErrClosed], renewals stop, and every [Hold.Context] ends with cause
// ErrClosed. It waits, at most for the command timeout, for commands in flight and for releases that clean up behind
// them. It releases no lock, for the sections that hold them may still run: they can unlock, and what they leave
// locked is free when its lease ends. The redis client stays open. Calling it again does nothing; it returns nil.
func (c *Client) Close() error {
	if c == nil || c.done == nil {
		return nil
	}
	c.closing.Do(c.close)
	return nil
}

func (c *Client) close() {
	c.mu.Lock()
	c.closed = true
	close(c.done)
	var ends endings
	for _, p := range c.watchdog.heap { // it has all that are held
		for _, e := range slices.Concat(p.entries, p.leaked) {
			ends.add(e, ErrClosed)
		}
	}
	c.watchdog.retire()
	c.settleActive()
	c.mu.Unlock()
	ends.tell()

	ctx, cancel := context.WithTimeout(context.Background(), c.commandTimeout)
	defer cancel()
	select {
	case <-c.quiet:
	case <-ctx.Done():
	}
	c.pipelines.stop(ctx)
	c.watchdog.stop(ctx)
	c.pubsub.stop(ctx)
	c.workers.stop(ctx)
}

// begin notes that something is under way that Close waits for. After Close it refuses.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.active++
	return nil
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
	c.settleActive()
}

// settleActive requires c.mu.
func (c *Client) settleActive() {
	if c.closed && c.active == 0 {
		select {
		case <-c.quiet:
		default:
			close(c.quiet)
		}
	}
}

// sawError renews the picture of the cluster after an error that may come from an old one. go-redis by itself keeps
// the old one for a minute.
func (c *Client) sawError(err error) {
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		c.bySlot.Store(true) // a cluster behind what looks like a single server
	}
	switch {
	case !fromNetwork(err):
	case c.cluster != nil:
		c.reload()
	case c.sentinel:
		c.pubsub.trunk.mistrust()
	}
}

// reload renews the picture of the cluster, unless that has just been done.
func (c *Client) reload() {
	const pause = 200 * time.Millisecond
	now, last := time.Now().UnixNano(), c.reloaded.Load()
	if now-last >= int64(pause) && c.reloaded.CompareAndSwap(last, now) {
		c.cluster.ReloadState(context.Background())
		c.sharding.stale.Store(true)
	}
}

// isClosed tells whether Close was called.
func (c *Client) isClosed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// warn logs what is the concern of no single call. No mutex may be held: a handler is code of the user's.
func (c *Client) warn(message string, err error, attrs ...slog.Attr) {
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	c.logger().LogAttrs(context.Background(), slog.LevelWarn, "rlock: "+message, attrs...)
}

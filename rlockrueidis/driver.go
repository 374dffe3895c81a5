package rlockrueidis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// conn sends commands through a client of rueidis. It is safe for concurrent use.
//
// Each command has a connection for itself, of the client's pool for blocking commands. On the connections that a client of rueidis
// shares among all commands, a single reply that does not come would hold up all locks. Nor would they be faster: the transport gathers
// the calls of many goroutines into fewer and larger pipelines than rueidis does.
type conn struct {
	client     rueidis.Client
	cluster    bool
	timeout    time.Duration
	deadlines  driver.Deadlines // shorter than timeout, so that a call whose reply is lost can be sent again within that, as on go-redis
	topology   topology
	background background
	info       driver.Info
	limits     limits
}

var _ driver.Driver = (*conn)(nil)

// open returns a driver that sends through client.
func open(client rueidis.Client, cfg driver.Config) (driver.Driver, error) {
	pool, err := fit(client)
	if err != nil {
		return nil, err
	}
	connections := min(pool-subscriptions, maxConnections)
	info := driver.Share(cfg, connections, 0)
	info.Cluster, info.Sentinel = client.Mode() == rueidis.ClientModeCluster, client.Mode() == rueidis.ClientModeSentinel
	info.Bounded = true
	return &conn{
		client: client, cluster: info.Cluster, timeout: cfg.CommandTimeout, deadlines: driver.Deadlines{Timeout: cfg.CommandTimeout * 3 / 5},
		info: info, limits: limits{size: connections},
	}, nil
}

// Close ends what the driver does in the background.
func (d *conn) Close(ctx context.Context) { d.background.close(ctx) }

const (
	// maxConnections is how many connections to a node commands use at the most. The pool may have many more, but each takes more than a
	// megabyte, and the transport makes pipelines before it needs as many.
	maxConnections = 16
	// subscriptions is how many connections of a pool are left for subscriptions: one, and the next one while it replaces that.
	subscriptions = 2
)

// Info returns what the driver knows of the deployment and of its own limits.
func (d *conn) Info() driver.Info { return d.info }

// Run sends a call once. If Redis does not know the script, it says so without running anything, and Run sends the script in full.
func (d *conn) Run(ctx context.Context, at driver.Node, c wire.Call) wire.Reply {
	sent := time.Now()
	client, f := d.at(at)
	if f != nil {
		return driver.Failed(f)
	}
	reply := d.reply(d.do(d.deadlines.Bound(ctx, sent), client, &c), &c)
	reply.Took = time.Since(sent)
	return reply
}

// do sends a call's script: by its digest, and then in full if Redis does not know it.
func (d *conn) do(ctx context.Context, client rueidis.Client, c *wire.Call) rueidis.RedisResult {
	cmd := command(client, c, false)
	limit := d.limit(int64(cmd.Slot()))
	if err := limit.take(ctx); err != nil {
		return rueidis.NewErrorResult(err)
	}
	defer limit.free()
	r := client.Do(ctx, cmd)
	if unknownScript(r) {
		r = client.Do(ctx, command(client, c, true))
	}
	d.tend(r, c.Key())
	return r
}

// command makes the command that runs a call's script, by digest or in full. To rueidis it is a blocking one, so it has a connection for
// itself. Only the first key decides the node: rueidis panics if keys of one command have several slots, where Redis replies an error.
func command(client rueidis.CommandClient, c *wire.Call, full bool) rueidis.Completed {
	verb, script := "EVALSHA", text(c.Script.Digest)
	if full {
		verb, script = "EVAL", text(c.Script.Source)
	}
	cmd := client.B().Arbitrary(verb, script, strconv.Itoa(len(c.Keys))).Keys(c.Key())
	for _, key := range c.Keys[1:] {
		cmd = cmd.Args(text(key))
	}
	var all [10]any
	for _, arg := range c.AppendArgv(all[:0]) {
		cmd = cmd.Args(text(arg))
	}
	return cmd.Blocking()
}

// text returns an argument as it is sent. rlock sends strings and integers.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(v)
}

// reply returns the outcome of a call.
func (d *conn) reply(r rueidis.RedisResult, c *wire.Call) wire.Reply {
	message, err := r.ToMessage()
	if rueidis.IsRedisNil(err) {
		return driver.Unexpected("nil for a number")
	}
	if err != nil {
		return driver.Failed(d.classify(err))
	}
	if message.IsInt64() {
		n, _ := message.AsInt64()
		return driver.Replied(c, n, nil)
	}
	list, err := message.AsIntSlice()
	if err != nil {
		return driver.Unexpected("%w", err)
	}
	return driver.Replied(c, 0, list)
}

// Raw sends a command that is no script.
func (d *conn) Raw(ctx context.Context, at driver.Node, cmd ...any) (any, *fault.Error) {
	client, f := d.at(at)
	if f != nil {
		return nil, f
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	words := make([]string, len(cmd))
	for i, word := range cmd {
		words[i] = text(word)
	}
	value, err := client.Do(ctx, client.B().Arbitrary(words...).Blocking()).ToAny()
	return value, d.classify(err)
}

package goredis

import (
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// fit takes the kind and the limits of the client into account.
func (d *Driver) fit(cfg driver.Config) error {
	if empty(reflect.ValueOf(d.rdb)) {
		return invalid("the redis client is nil")
	}
	inside, found := unwrap(d.rdb)
	if v := reflect.ValueOf(inside); found && (empty(v) || reflect.Indirect(v).IsZero()) {
		return invalid("the redis client in %T is nil, or no constructor of go-redis made it", d.rdb)
	}
	var p pool
	var readTimeout time.Duration
	switch rdb := inside.(type) {
	case *redis.Client:
		opt := rdb.Options()
		d.info.Sentinel = opt.Addr == "FailoverClient" // redis.NewFailoverClient writes that there
		p = poolOf(opt.PoolSize, opt.MaxActiveConns, opt.PipelineReadBufferSize+opt.PipelineWriteBufferSize, opt.PipelinePoolSize)
		readTimeout = opt.ReadTimeout
		addDetour(rdb, rdb.AddHook)
		if slow := readTimeout <= 0 || readTimeout > cfg.CommandTimeout; slow || cfg.Acks && readTimeout < cfg.CommandTimeout {
			d.patient = route{rdb.WithTimeout(cfg.CommandTimeout)}
			if slow { // nothing else ends a command whose reply is lost, and gives its connection back
				d.usual, readTimeout = d.patient, cfg.CommandTimeout
			}
		}
	case *redis.ClusterClient:
		opt := rdb.Options()
		d.cluster, d.info.Cluster = rdb, true
		p = poolOf(opt.PoolSize, opt.MaxActiveConns, opt.PipelineReadBufferSize+opt.PipelineWriteBufferSize, opt.PipelinePoolSize)
		readTimeout = opt.ReadTimeout
		if readTimeout <= 0 {
			return invalid(
				"redis.ClusterClient: ReadTimeout %v is not positive, so a lost reply would keep its connection forever", readTimeout)
		}
		addDetour(rdb, func(h redis.Hook) {
			rdb.AddHook(h)
			rdb.OnNewNode(func(node *redis.Client) { node.AddHook(h) }) // which makes the connections
		})
	case *redis.Ring:
		return errRing
	case *redis.AutoPipeliner:
		return invalid("redis.AutoPipeliner: it would batch renewals too, so pass its client")
	default:
		return hidden(d.rdb)
	}
	shares := driver.Share(cfg, p.size, p.pipelines)
	shares.Cluster, shares.Sentinel, shares.Bounded = d.info.Cluster, d.info.Sentinel, readTimeout > 0 && readTimeout <= cfg.CommandTimeout
	d.info = shares
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", fault.ErrInvalidOption, fmt.Sprintf(format, args...))
}

// pool is the limit on connections to a node.
type pool struct {
	size int
	// pipelines limits how many connections pipelines have in a pool of their own. Zero means that they have no such pool, or, with
	// go-redis 9.23 or newer, that they use others when it is full.
	pipelines int
}

func poolOf(size, most, buffers, pipelines int) pool {
	if most <= 0 {
		most = size
	}
	p := pool{size: min(size, most)}
	if buffers > 0 && pipelines > 0 { // go-redis 9.22 has the pool only with a buffer size of its own
		p.pipelines = pipelines
	}
	return p
}

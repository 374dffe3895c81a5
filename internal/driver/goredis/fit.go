package goredis

import (
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/fault"
)

// fit takes the kind and the limits of the client into account.
func (d *Driver) fit(cfg Config) error {
	if v := reflect.ValueOf(d.rdb); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return invalid("the redis client is nil")
	}
	var p pool
	var readTimeout time.Duration
	switch rdb := d.rdb.(type) {
	case *redis.Client:
		opt := rdb.Options()
		d.info.Sentinel = opt.Addr == "FailoverClient" // redis.NewFailoverClient writes that there
		p = poolOf(opt.PoolSize, opt.MaxActiveConns, opt.PipelineReadBufferSize+opt.PipelineWriteBufferSize, opt.PipelinePoolSize)
		readTimeout = opt.ReadTimeout
		if slow := readTimeout <= 0 || readTimeout > cfg.CommandTimeout; slow || cfg.Acks && readTimeout < cfg.CommandTimeout {
			d.patient = route{rdb.WithTimeout(cfg.CommandTimeout)}
			addDetour(rdb, rdb.AddHook)
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
		addDetour(rdb, rdb.AddHook)
	case *redis.Ring:
		return invalid("redis.Ring: it cannot keep a lock on one server")
	case *redis.AutoPipeliner:
		return invalid("redis.AutoPipeliner: it would batch renewals too, so pass its client, with WithAutoPipeline")
	default:
		if cfg.Gather {
			return invalid("WithAutoPipeline: the client is a %T, not a redis.Client or a redis.ClusterClient", d.rdb)
		}
		return nil
	}
	d.info.Bounded = readTimeout > 0 && readTimeout <= cfg.CommandTimeout
	return d.share(p, cfg.Gather)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", fault.ErrInvalidOption, fmt.Sprintf(format, args...))
}

// pool is the limit on connections to a node.
type pool struct {
	size      int
	pipelines int // how many connections pipelines have in a pool of their own; zero means that they have no such pool
}

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

// share divides the connections to a node among renewals, gathered batches and the callers.
func (d *Driver) share(p pool, gather bool) error {
	d.info.Connections = p.size
	d.info.Slots = max(p.size-1, 1) // one connection is always left for renewals
	if !gather {
		return nil
	}
	batches := min(p.size-2, maxBatches)
	if p.pipelines > 0 {
		batches = min(batches, p.pipelines-1)
	}
	if batches < 1 {
		return invalid("WithAutoPipeline: it needs 3 connections to a node, and 2 in a pool for pipelines, not %d and %d",
			p.size, p.pipelines)
	}
	d.pipelines.batches = batches
	d.info.Slots = p.size - 1 - batches
	return nil
}

package redistest

import (
	"sync"

	"github.com/redis/go-redis/v9"
)

// failovers has the options of the clients that NewFailover made, because go-redis does not tell them.
var failovers sync.Map

// NewFailover returns a client that follows the master that Sentinels name.
func NewFailover(opt *redis.FailoverOptions) *redis.Client {
	rdb := redis.NewFailoverClient(opt)
	failovers.Store(rdb, opt)
	return rdb
}

// FailoverOptions returns the options of a client that [NewFailover] made.
func FailoverOptions(rdb *redis.Client) (*redis.FailoverOptions, bool) {
	v, ok := failovers.Load(rdb)
	opt, _ := v.(*redis.FailoverOptions)
	return opt, ok
}

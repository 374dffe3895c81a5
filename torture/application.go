package torture

import (
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// wrapping is a client of an application that says which one it has inside.
type wrapping struct{ redis.UniversalClient }

func (w wrapping) Unwrap() redis.UniversalClient { return w.UniversalClient }

// around returns a client as the application of the site gives it to rlock: in a wrapper, by the seed.
func (s Site) around(rdb redis.UniversalClient) redis.UniversalClient {
	if connect.Driver != "go-redis" || rand.New(rand.NewPCG(s.Seed, 3<<32)).IntN(2) == 0 {
		return rdb
	}
	return wrapping{rdb}
}

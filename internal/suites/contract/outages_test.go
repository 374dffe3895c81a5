package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
)

// world is a deployment that is about to fail.
type world struct {
	works bool // before it fails
	open  func() redis.UniversalClient
	fail  func()
	ran   func() time.Duration // see redistest.Stopwatch

	closing []func()
}

// close closes a client at the end of the test, together with all others.
func (w *world) close(client *rlock.Client, rdb redis.UniversalClient) {
	w.closing = append(w.closing, func() {
		_ = client.Close()
		_ = rdb.Close()
	})
}

func newWorld(t *testing.T, works bool, open func() redis.UniversalClient, fail, repair func()) *world {
	t.Helper()
	w := &world{works: works, open: open, fail: fail, ran: redistest.Stopwatch(t)}
	t.Cleanup(func() {
		if repair != nil {
			repair()
		}
		var all sync.WaitGroup
		for _, end := range w.closing {
			all.Go(end)
		}
		all.Wait()
	})
	return w
}

// fault is a way in which Redis fails.
type fault struct {
	name, what string
	start      func(*testing.T) *world
	real       bool // it needs real servers
}

var faults = []fault{
	{"a hung server", "The process is stopped (SIGSTOP). Its connections stay open, and nothing answers.", hung, false},
	{"a killed server", "Connections break, and new ones are refused.", killed, false},
	{"a black hole", "The network takes everything and delivers nothing.", blackHole, false},
	{"refused connections", "The server is down before the first call.", refused, false},
	{"out of memory", "`maxmemory` is reached, with `maxmemory-policy noeviction`.", outOfMemory, false},
	{"a read-only replica", "The server was the master when the locks were taken. Now it is a replica that has them.", readOnly, true},
	{"a cluster slot without master", "The cluster answers CLUSTERDOWN.", noMaster, true},
}

func opener(addr string) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		opt := &redis.Options{
			Addr:                     addr,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}
		if host.Virtual {
			opt.Dialer = host.Dial
		}
		return redis.NewClient(opt)
	}
}

func hung(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	return newWorld(t, true, opener(server.Addr), server.Pause, server.Resume)
}

func killed(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	return newWorld(t, true, opener(server.Addr), server.Kill, nil)
}

func blackHole(t *testing.T) *world {
	t.Helper()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	return newWorld(t, true, opener(proxy.Addr), proxy.Freeze, proxy.Thaw)
}

func refused(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t) // nobody else gets its port
	server.Kill()
	return newWorld(t, false, opener(server.Addr), func() {}, nil)
}

func outOfMemory(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	admin := server.Client(t)
	set := func(bytes string) func() {
		return func() { require.NoError(t, admin.ConfigSet(context.Background(), "maxmemory", bytes).Err()) }
	}
	return newWorld(t, true, opener(server.Addr), set("1"), set("0"))
}

func readOnly(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	other := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(server.Port))
	admin, promoted := server.Client(t), other.Client(t)
	inSync := func(replica *redis.Client) {
		redistest.Eventually(t, "the replica is in sync", func() bool {
			return strings.Contains(replica.Info(context.Background(), "replication").Val(), "master_link_status:up")
		})
	}
	return newWorld(t, true, opener(server.Addr), func() {
		inSync(promoted)
		redistest.Eventually(t, "the replica has the locks", func() bool { return testkit.Replicated(t, admin, "any", 1) })
		require.NoError(t, promoted.Do(context.Background(), "replicaof", "no", "one").Err())
		require.NoError(t, admin.Do(context.Background(), "replicaof", "127.0.0.1", other.Port).Err())
		inSync(admin)
	}, nil)
}

func noMaster(t *testing.T) *world {
	t.Helper()
	cluster := redistest.StartCluster(t)
	master := cluster.MasterOf(t, "{orders}").Client(t)
	return newWorld(t, true, func() redis.UniversalClient {
		return redis.NewClusterClient(cluster.Options())
	}, func() {
		slot, err := master.ClusterKeySlot(context.Background(), "{orders}").Result()
		require.NoError(t, err)
		require.NoError(t, master.ClusterDelSlots(context.Background(), int(slot)).Err())
		redistest.Eventually(t, "the slot has no master", func() bool {
			err := master.Get(context.Background(), "{orders}").Err()
			return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN")
		})
	}, nil)
}

// TestNoCallOutlastsItsBound checks every method of every kind under every fault. Only calls without a bound are left to
// make errors, because they wait.
func TestNoCallOutlastsItsBound(t *testing.T) {
	t.Parallel()
	keepBounds(t, false)
}

// TestNoCallOutlastsItsBoundOnRealServers does so under the faults that a simulated server does not have.
func TestNoCallOutlastsItsBoundOnRealServers(t *testing.T) {
	t.Parallel()
	redistest.NeedsRealServer(t, "a cluster, and a replica that takes over")
	keepBounds(t, true)
}

// keepBounds checks the calls under the faults that need real servers, or under the others.
func keepBounds(t *testing.T, onServers bool) {
	t.Helper()
	for _, f := range faults {
		if f.real != onServers {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			cells := f.measure(t, bounds[1:])
			for range 2 { // this machine may stand still for a while, but hardly each time
				if i := slices.IndexFunc(cells, (*cell).late); i >= 0 {
					t.Logf("%s of %s, %s, took %v", cells[i].method.name, cells[i].kind, cells[i].bound.name, cells[i].took)
					cells = f.measure(t, bounds[1:])
				}
			}
			for _, c := range cells {
				what := fmt.Sprintf("%s of %s, %s: %s after %v: %v", c.method.name, c.kind, c.bound.name, c.class(), c.took, c.err)
				c.check(t, what)
			}
		})
	}
}

package trouble

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// elsewhere subscribes at another server than it sends its commands to. It gets the messages all the same if that is a replica, but
// no script knows of the subscription.
type elsewhere struct {
	redis.UniversalClient
	listens *atomic.Pointer[redis.Client]
}

func (e elsewhere) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return e.listens.Load().Subscribe(ctx, channels...)
}

// masterAndReplica starts two servers.
func masterAndReplica(t *testing.T) (master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica = redistest.Start(t, "--replicaof", host, port)
	redistest.EventuallyWithin(t, time.Minute, "the replica has its master", func() bool {
		return strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	return master, replica
}

// TestAFleetWhoseSubscriptionsAreHidden has clients take turns of which no script can tell that it reaches them. At first they have
// the lock only by polls. Once they know, a release wakes them.
func TestAFleetWhoseSubscriptionsAreHidden(t *testing.T) {
	t.Parallel()
	master, replica := masterAndReplica(t)
	for _, kind := range []string{"lock", "fair", "fenced fair"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			logger, log := testkit.Recording()
			c := newCrowdOf(t, kind, 3, testkit.NewName(), func(tb testing.TB) redis.UniversalClient {
				tb.Helper()
				e := elsewhere{master.Client(tb), new(atomic.Pointer[redis.Client])}
				e.listens.Store(replica.Client(tb))
				return e
			}, logger, rlock.WithPollInterval(5*time.Second))
			redistest.EventuallyWithin(t, time.Minute, "each client says so", func() bool {
				return strings.Count(log.String(), "does not see the subscription of this client") == len(c.locks)
			})
			c.everyoneHas(20, "since they know") // by polls, that would take more than a minute
		})
	}
}

// TestAFairWaiterAtAReplica has a waiter subscribed at a replica. The reply to its next question says that nobody listens at the
// master.
func TestAFairWaiterAtAReplica(t *testing.T) {
	t.Parallel()
	master, replica := masterAndReplica(t)
	logger, _ := testkit.Recording()
	held := testkit.NewClient(t, master.Client(t), logger).NewFairLock(testkit.NewName())
	require.NoError(t, held.Lock(t.Context(), rlock.Lease(testkit.Never)))
	e := elsewhere{master.Client(t), new(atomic.Pointer[redis.Client])}
	e.listens.Store(replica.Client(t))
	lock := testkit.NewClient(t, e, logger, rlock.WithPollInterval(time.Second)).NewFairLock(held.Name())
	turn := takesATurn(t, lock)
	listensAt := func(server *redistest.Server) bool {
		return len(server.Client(t).PubSubChannels(t.Context(), testkit.Channel(lock)+":*").Val()) > 0
	}
	testkit.Eventually(t, "it listens at the replica", func() bool { return listensAt(replica) })
	e.listens.Store(master.Client(t))
	testkit.Eventually(t, "it listens at the master", func() bool { return listensAt(master) })
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it has its turn", turn))
}

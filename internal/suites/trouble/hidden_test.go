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
	"github.com/go-rlock/rlock/internal/testkit/tune"
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

// serverAndEcho starts a server, and one that publishes what the first one publishes, as a replica does.
func serverAndEcho(t *testing.T) (server, echo *redistest.Server) {
	t.Helper()
	server, echo = redistest.Start(t), redistest.Start(t)
	to, all := echo.Client(t), server.Client(t).PSubscribe(t.Context(), "*")
	_, err := all.Receive(t.Context())
	require.NoError(t, err)
	over := testkit.Async(func() error {
		for m := range all.Channel() {
			_ = to.Publish(context.Background(), m.Channel, m.Payload).Err() // the test may be over
		}
		return nil
	})
	t.Cleanup(func() {
		_ = all.Close()
		<-over
	})
	return server, echo
}

// TestAFleetWhoseSubscriptionsAreHidden has clients take turns of which no script can tell that it reaches them. At first they have
// the lock only by polls. Once they know, a release wakes them.
func TestAFleetWhoseSubscriptionsAreHidden(t *testing.T) {
	t.Parallel()
	server, echo := serverAndEcho(t)
	for _, kind := range []string{"lock", "fair", "fenced fair"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			logger, log := testkit.Recording()
			c := newCrowdOf(t, kind, 3, testkit.NewName(), func(tb testing.TB) redis.UniversalClient {
				tb.Helper()
				e := elsewhere{server.Client(tb), new(atomic.Pointer[redis.Client])}
				e.listens.Store(echo.Client(tb))
				return e
			}, logger, tune.PollInterval(2*time.Second))
			redistest.EventuallyWithin(t, time.Minute, "each client says so", func() bool {
				return strings.Count(log.String(), "does not see this client's subscription") == len(c.locks)
			})
			c.everyoneHas(20, "since they know") // by polls, that would take two minutes
		})
	}
}

// TestAFairWaiterAtAReplica has a waiter subscribed elsewhere. The reply to its next question says that nobody listens at the server.
func TestAFairWaiterAtAReplica(t *testing.T) {
	t.Parallel()
	server, echo := serverAndEcho(t)
	logger, _ := testkit.Recording()
	held := testkit.NewClient(t, server.Client(t), logger).NewFairLock(testkit.NewName())
	require.NoError(t, held.Lock(t.Context(), rlock.Lease(testkit.Never)))
	e := elsewhere{server.Client(t), new(atomic.Pointer[redis.Client])}
	e.listens.Store(echo.Client(t))
	lock := testkit.NewClient(t, e, logger, tune.PollInterval(time.Second)).NewFairLock(held.Name())
	turn := takesATurn(t, lock)
	listensAt := func(s *redistest.Server) bool {
		return len(s.Client(t).PubSubChannels(t.Context(), testkit.Channel(lock)+":*").Val()) > 0
	}
	testkit.Eventually(t, "it listens elsewhere", func() bool { return listensAt(echo) })
	e.listens.Store(server.Client(t))
	testkit.Eventually(t, "it listens at the server", func() bool { return listensAt(server) })
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it has its turn", turn))
}

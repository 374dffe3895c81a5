package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// This file has what clients of a cluster wait for. The tests of a cluster that changes let it change while they wait.

// wait is one client that waits on a cluster for what another one has. No client polls.
type wait struct {
	*testing.T
	name           string
	holder, waiter *rlock.Client
	classic        bool
	cluster        *redistest.Cluster
	nodes          []*redis.Client

	listens func() bool // whether exactly one subscription is there, of that sort; nil for what cannot say
	end     func()      // ends the wait, and requires that a message does
}

// waited lists what a client can wait for. Each function has the client wait, and sets the functions of the wait.
var waited = map[string]func(*wait){
	"lock":          func(w *wait) { w.forLock("lock") },
	"write lock":    func(w *wait) { w.forLock("write") },
	"latch":         (*wait).forLatch,
	"permits":       func(w *wait) { w.forPermits("leased") },
	"plain permits": func(w *wait) { w.forPermits("plain") },
}

// forEverything has a client wait for one of everything, under names that are on one node.
func forEverything(t *testing.T, cluster *redistest.Cluster, classic bool, node *redistest.Server) (all []*wait) {
	t.Helper()
	logger, _ := testkit.Recording()
	rdb := cluster.Client(t)
	client := func() *rlock.Client {
		opts := append(pubSub(classic), logger, tune.PollInterval(testkit.Never),
			rlock.WithCommandTimeout(30*time.Second), rlock.WithWatchdogTimeout(time.Minute))
		return testkit.NewClient(t, cluster.Client(t), opts...)
	}
	holder, waiter, nodes := client(), client(), testkit.Admins(t, cluster.Nodes...)
	for _, begin := range waited {
		w := &wait{T: t, name: nameOn(t, rdb, node), holder: holder, waiter: waiter, classic: classic, cluster: cluster, nodes: nodes}
		begin(w)
		all = append(all, w)
	}
	return all
}

// pubSub returns the options of a client whose channels are classic, or those of a cluster.
func pubSub(classic bool) []rlock.Option {
	if classic {
		return []rlock.Option{rlock.WithClassicPubSub()}
	}
	return nil
}

// nameOn returns a name that a node has.
func nameOn(t *testing.T, rdb *redis.ClusterClient, node *redistest.Server) string {
	t.Helper()
	for {
		name := testkit.NewName()
		if testkit.Must(rdb.MasterForKey(t.Context(), name)).Options().Addr == node.Addr {
			return name
		}
	}
}

func (w *wait) forLock(kind string) {
	w.Helper()
	held, lock := testkit.MakeLock(kind, w.holder, w.name), testkit.MakeLock(kind, w.waiter, w.name)
	require.NoError(w, held.Lock(w.Context(), rlock.Lease(testkit.Never)))
	waiting := testkit.Async(func() error { return lock.Lock(w.Context()) })
	w.listens = func() bool { return subscribers(w.T, w.nodes, lock, !w.classic) == 1 }
	testkit.Eventually(w, kind+" is subscribed", w.listens)
	w.end = func() {
		w.Helper()
		require.NoError(w, held.Unlock(w.Context()))
		require.NoError(w, testkit.Within(w, kind+" is woken", waiting))
		require.NoError(w, lock.Unlock(w.Context()))
	}
}

// forLatch has several calls wait.
func (w *wait) forLatch() {
	w.Helper()
	const calls = 5
	latch, other := w.waiter.NewCountDownLatch(w.name), w.holder.NewCountDownLatch(w.name)
	require.True(w, testkit.Must(other.TrySetCount(w.Context(), 2)))
	errs := testkit.AwaitLatch(w.T, latch, calls)
	require.EqualValues(w, 1, testkit.Must(other.CountDown(w.Context())))
	w.end = func() {
		w.Helper()
		require.EqualValues(w, 0, testkit.Must(other.CountDown(w.Context())))
		testkit.Opens(w.T, errs, calls)
	}
}

// forPermits has a client wait for two of the permits that the other one gives back, first one and then the others.
func (w *wait) forPermits(sort string) {
	w.Helper()
	sem := sorts[sort](w.holder, w.name)
	most := testkit.Must(sem.take(w.Context(), permitsInAll-1))
	one := testkit.Must(sem.take(w.Context(), 1))
	got := make(chan func(context.Context) error, 1)
	before := w.waiter.Stats().Waiting
	go func() {
		testkit.SendTo(got)(sorts[sort](w.waiter, w.name).take(context.Background(), 2))
	}()
	testkit.Eventually(w, "it waits", func() bool { return w.waiter.Stats().Waiting == before+1 })
	w.end = func() {
		w.Helper()
		require.NoError(w, one(w.Context()), sort)
		require.Empty(w, got, "it wants two")
		require.NoError(w, most(w.Context()), sort)
		require.NoError(w, testkit.Within(w, "the waiter has its turn", got)(w.Context()), sort)
		require.Equal(w, permitsInAll, testkit.Must(sem.AvailablePermits(w.Context())), sort)
	}
}

// wokenAfter has clients wait for everything on one node, runs meanwhile, and requires that messages end the waits after that.
func wokenAfter(t *testing.T, cluster *redistest.Cluster, classic bool, meanwhile func(all []*wait)) {
	t.Helper()
	all := forEverything(t, cluster, classic, cluster.MasterOf(t, testkit.NewName()))
	meanwhile(all)
	for _, w := range all {
		w.end()
	}
}

// listening waits until everything that says so is subscribed where its messages come from.
func listening(all []*wait) {
	for _, w := range all {
		if w.listens != nil {
			testkit.Eventually(w, "the waiter is subscribed at the new master", w.listens)
		}
	}
}

// replicated waits until the replica of a name's master has all that the master has.
func replicated(t *testing.T, cluster *redistest.Cluster, name string) {
	t.Helper()
	old := cluster.MasterOf(t, name)
	testkit.Eventually(t, "the replica has everything", func() bool { return testkit.Replicated(t, old.Client(t), name, 1) })
}

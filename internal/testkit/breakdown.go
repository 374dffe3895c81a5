package testkit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// Breakdown is a Redis deployment, together with a way to make it fail.
type Breakdown struct {
	Open  func(testing.TB) redis.UniversalClient
	Ready func(key string) bool // reports whether all writes so far survive the failure
	Fail  func(key string)      // makes the server of a key fail
}

// Recovery holds two times since the failure: until a hold was renewed again, and until a waiter acquired a lock that was
// unlocked at the moment of the failure.
type Recovery struct{ Renewed, Woken time.Duration }

// outlived is the lease of the hold that must outlive the failure.
const outlived = 30 * time.Second

// Outlive requires that a hold is renewed within its lease, and that waiters are woken, although Redis fails. The waiters never
// poll.
func (b Breakdown) Outlive(t *testing.T) Recovery {
	t.Helper()
	logger, _ := Recording()
	opts := []rlock.Option{logger, rlock.WithWatchdogTimeout(outlived), tune.PollInterval(Never)}
	holder, waiter := NewClient(t, b.Open(t), opts...), NewClient(t, b.Open(t), opts...)
	tag := NewName() // puts all locks on one server
	var held, wanted []*rlock.Lock
	var waiting []<-chan error
	for _, what := range []string{"unlocked at once", "unlocked later"} {
		lock := waiter.NewLock(what + "{" + tag + "}")
		held, wanted = append(held, holder.NewLock(lock.Name())), append(wanted, lock)
		require.NoError(t, held[len(held)-1].Lock(t.Context(), rlock.Lease(Never)))
		waiting = append(waiting, Async(func() error { return lock.Lock(t.Context()) }))
		Eventually(t, "it waits", func() bool { return Rests(lock) })
		Eventually(t, "it is subscribed", func() bool { return Listens(lock) })
	}
	hold, err := holder.NewLock("kept{" + tag + "}").Acquire(t.Context())
	require.NoError(t, err)
	Eventually(t, "all writes survive", func() bool { return b.Ready(tag) })
	<-time.After(time.Until(hold.Deadline().Add(-outlived*2/3 - 100*time.Millisecond))) // until just before its renewal

	before, start := hold.Deadline(), time.Now()
	b.Fail(tag)
	unlocking := Async(func() error { return held[0].Unlock(t.Context()) })
	var took Recovery
	woken := Async(func() error {
		err := <-waiting[0]
		took.Woken = time.Since(start)
		return err
	})
	redistest.EventuallyWithin(t, outlived, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
	took.Renewed = time.Since(start)
	<-unlocking // it may have failed; the release then continues in the background
	require.NoError(t, Within(t, "the waiter during the failure gets the lock", woken))
	Eventually(t, "the other waiter is subscribed again", func() bool { return Listens(wanted[1]) })
	require.NoError(t, held[1].Unlock(t.Context()))
	require.NoError(t, Within(t, "the other waiter is woken", waiting[1]))
	for _, lock := range wanted {
		require.NoError(t, lock.Unlock(t.Context()))
	}
	require.NoError(t, hold.Unlock(t.Context()))
	t.Logf("after the failure: renewed again in %v, woken in %v", took.Renewed, took.Woken)
	return took
}

// SentinelBreakdown is the failure of a master under Sentinel, once both replicas have its writes.
func SentinelBreakdown(t *testing.T, sentinel *redistest.Sentinel, fail func()) Breakdown {
	t.Helper()
	return Breakdown{
		Open: func(tb testing.TB) redis.UniversalClient {
			tb.Helper()
			return sentinel.Client(tb)
		},
		Ready: func(key string) bool { return Replicated(t, sentinel.Master.Client(t), key, 2) },
		Fail:  func(string) { fail() },
	}
}

// ClusterBreakdown is the failure of one master of a cluster, once its replica has its writes.
func ClusterBreakdown(t *testing.T, cluster *redistest.Cluster, fail func(*redistest.Server)) Breakdown {
	t.Helper()
	var master *redistest.Server // set by ready, because looking it up would delay fail
	return Breakdown{
		Open: func(tb testing.TB) redis.UniversalClient {
			tb.Helper()
			return cluster.Client(tb)
		},
		Ready: func(key string) bool {
			master = cluster.MasterOf(t, key)
			return Replicated(t, master.Client(t), key, 1)
		},
		Fail: func(string) { fail(master) },
	}
}

package claims

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// candidate is a process that takes part in an election.
type candidate struct {
	*rlock.Election

	client *rlock.Client
	terms  chan rlock.Token // a value for each time that it leads
	resign chan error       // ends lead
	ended  chan error       // what Run returned
	stop   context.CancelCauseFunc
}

// stand lets a process take part until the test ends. lead returns when it is told to, or when its context ends.
func stand(t *testing.T, rdb redis.UniversalClient, name string, opts ...rlock.AcquireOption) *candidate {
	t.Helper()
	c := &candidate{client: testkit.NewClient(t, rdb), terms: make(chan rlock.Token, 10), resign: make(chan error), ended: make(chan error, 1)}
	c.Election = c.client.NewElection(name, opts...)
	ctx, stop := context.WithCancelCause(t.Context())
	c.stop = stop
	go func() {
		c.ended <- c.Run(ctx, func(ctx context.Context, term rlock.Token) error {
			c.terms <- term
			select {
			case err := <-c.resign:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	t.Cleanup(func() { stop(nil) })
	return c
}

// leads waits until a candidate leads, and returns its term.
func (c *candidate) leads(t *testing.T) rlock.Token {
	t.Helper()
	term := testkit.Within(t, "it leads", c.terms)
	require.True(t, c.IsLeader())
	return term
}

// TestElection has one leader at a time, whose terms rise. It resigns when lead returns, with its error, and the next one leads.
func TestElection(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		name, oops := testkit.NewName(), errors.New("oops")
		first := stand(t, rdb, name)
		term := first.leads(t)
		second := stand(t, rdb, name)
		testkit.Eventually(t, "it campaigns", func() bool { return second.client.Stats().Waiting == 1 })
		require.False(t, second.IsLeader())
		info := testkit.Must(second.client.NewLock(name, rlock.Fenced()).Inspect(t.Context()))
		require.Equal(t, first.client.ID(), info.Holders[0].Client)
		first.resign <- oops
		require.Equal(t, oops, testkit.Within(t, "it ends", first.ended))
		require.False(t, first.IsLeader())
		next := second.leads(t)
		require.Greater(t, next, term)
		why := errors.New("enough")
		second.stop(why)
		require.Equal(t, why, testkit.Within(t, "it ends", second.ended), "what lead returned")
		third := stand(t, rdb, name)
		require.Greater(t, third.leads(t), next)
		third.resign <- nil
		require.NoError(t, testkit.Within(t, "it ends", third.ended))
	})
}

// TestElectionOfOneWhoNeverLed calls nothing, and says why it ended.
func TestElectionOfOneWhoNeverLed(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	name := testkit.NewName()
	stand(t, rdb, name).leads(t)
	why := errors.New("enough")
	second := stand(t, rdb, name)
	testkit.Eventually(t, "it campaigns", func() bool { return second.client.Stats().Waiting == 1 })
	second.stop(why)
	err := testkit.Within(t, "it ends", second.ended)
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.ErrorIs(t, err, why)
	third := stand(t, rdb, name)
	testkit.Eventually(t, "it campaigns", func() bool { return third.client.Stats().Waiting == 1 })
	require.NoError(t, third.client.Close())
	require.ErrorIs(t, testkit.Within(t, "it ends", third.ended), rlock.ErrClosed)
	require.Empty(t, second.terms)
	require.Empty(t, third.terms)
}

// TestElectionAfterALoss ends lead, and campaigns again when that has returned.
func TestElectionAfterALoss(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb)
	e := client.NewElection(testkit.NewName(), rlock.RenewedLease(time.Second))
	lost, let, terms := make(chan error), make(chan struct{}), make(chan rlock.Token, 2)
	ended := testkit.Async(func() error {
		return e.Run(t.Context(), func(ctx context.Context, term rlock.Token) error {
			if terms <- term; len(terms) == 2 {
				return nil
			}
			<-ctx.Done()
			lost <- context.Cause(ctx)
			<-let
			return errors.New("it stopped")
		})
	})
	testkit.Eventually(t, "it leads", e.IsLeader)
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	require.ErrorIs(t, testkit.Within(t, "lead is told", lost), rlock.ErrLost)
	require.False(t, e.IsLeader())
	require.Len(t, terms, 1, "it does not lead again while lead runs")
	close(let)
	require.NoError(t, testkit.Within(t, "it leads again, and resigns", ended))
	require.False(t, e.IsLeader())
}

// TestElectionInAnOutage has no leader from the moment at which another could lead, and one again after the outage.
func TestElectionInAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	name := testkit.NewName()
	const lease = time.Second
	cut := stand(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 300 * time.Millisecond}), name, rlock.RenewedLease(lease))
	term := cut.leads(t)
	proxy.Freeze()
	other := stand(t, server.Client(t), name, rlock.RenewedLease(lease))
	testkit.Within(t, "another leads", other.terms)
	require.False(t, cut.IsLeader())
	proxy.Thaw()
	other.resign <- nil
	require.NoError(t, testkit.Within(t, "it ends", other.ended))
	require.Greater(t, cut.leads(t), term)
}

// TestElectionWaitsForLead to return before it resigns, and says that it goes on.
func TestElectionWaitsForLead(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	log := &testkit.Recorder{}
	client := testkit.NewClient(t, rdb, rlock.WithLogger(log.Logger()))
	name := testkit.NewName()
	e := client.NewElection(name, rlock.RenewedLease(2*time.Second))
	let := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := testkit.Async(func() error {
		return e.Run(ctx, func(context.Context, rlock.Token) error { <-let; return nil })
	})
	testkit.Eventually(t, "it leads", e.IsLeader)
	cancel()
	testkit.Eventually(t, "it says so", func() bool { return log.Contains("still runs after its leadership has ended") })
	require.True(t, testkit.Must(client.NewLock(name).IsLocked(t.Context())), "nobody else may lead")
	require.True(t, e.IsLeader())
	close(let)
	require.NoError(t, testkit.Within(t, "it ends", ended))
	require.False(t, testkit.Must(client.NewLock(name).IsLocked(t.Context())))
}

// TestElectionHasAnOwnerOfItsOwn that a hold in the context does not make the leader. Lead's context re-enters the lock of the election, and
// is no owner of others.
func TestElectionHasAnOwnerOfItsOwn(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		name := testkit.NewName()
		lock, other, e := client.NewLock(name, rlock.Fenced()), client.NewLock(testkit.NewName()), client.NewElection(name)
		var holds atomic.Bool
		var ended <-chan error
		require.NoError(t, lock.Do(rlock.WithOwner(t.Context()), func(ctx context.Context) error {
			holds.Store(true)
			ctx = context.WithoutCancel(ctx)
			ended = testkit.Async(func() error {
				return e.Run(ctx, func(ctx context.Context, _ rlock.Token) error {
					require.False(t, holds.Load())
					require.True(t, testkit.Must(lock.TryLock(ctx)))
					require.NoError(t, lock.Unlock(ctx))
					return nil
				})
			})
			testkit.Eventually(t, "it campaigns", func() bool { return client.Stats().Waiting == 1 })
			holds.Store(false)
			return nil
		}))
		require.NoError(t, testkit.Within(t, "it ends", ended))
		require.NoError(t, e.Run(t.Context(), func(ctx context.Context, _ rlock.Token) error {
			require.True(t, testkit.Must(other.TryLock(ctx)))
			require.False(t, testkit.Must(other.TryLock(ctx)))
			return other.Unlock(ctx)
		}))
	})
}

func TestElectionThatCannotBe(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	lead := func(context.Context, rlock.Token) error { return nil }
	for _, opts := range [][]rlock.AcquireOption{
		{rlock.Wait(time.Second)}, {rlock.Lease(time.Second)}, {rlock.Permits(1)}, {rlock.AtLeast(time.Second)}, {rlock.RenewedLease(1)}, {nil},
	} {
		require.ErrorIs(t, client.NewElection("a", opts...).Run(t.Context(), lead), rlock.ErrInvalidOption)
	}
	require.ErrorIs(t, client.NewElection("a").Run(t.Context(), nil), rlock.ErrInvalidOption)
	require.ErrorIs(t, client.NewElection("").Run(t.Context(), lead), rlock.ErrInvalidName)
	require.ErrorIs(t, (*rlock.Client)(nil).NewElection("a").Run(t.Context(), lead), rlock.ErrInvalidOption)
	var none *rlock.Election
	require.ErrorIs(t, none.Run(t.Context(), lead), rlock.ErrInvalidOption)
	require.False(t, none.IsLeader())

	e := client.NewElection("twice")
	require.NoError(t, e.Run(t.Context(), func(ctx context.Context, _ rlock.Token) error {
		require.ErrorIs(t, e.Run(ctx, lead), rlock.ErrInvalidOption)
		return nil
	}))
	require.Panics(t, func() { _ = e.Run(t.Context(), func(context.Context, rlock.Token) error { panic("oops") }) })
	require.False(t, e.IsLeader())
	require.NoError(t, e.Run(t.Context(), lead), "after a panic the lock is free")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.Run(ended, lead), context.Canceled)
}

// TestElectionEndsWhenLeadReturns although the lock is gone, which nobody has noticed: the leader wanted to resign.
func TestElectionEndsWhenLeadReturns(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	name, oops, calls := testkit.NewName(), errors.New("oops"), 0
	err := testkit.NewClient(t, rdb).NewElection(name).Run(t.Context(), func(ctx context.Context, _ rlock.Token) error {
		calls++
		require.NoError(t, rdb.Del(ctx, name).Err())
		return oops
	})
	require.Equal(t, oops, err)
	require.Equal(t, 1, calls)
}

package conform

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
	"github.com/go-rlock/rlock/internal/wire"
)

// preferring returns the two sides of a new client's handle whose readers prefer writers. Kinds without such readers skip the test.
func (f *fixture) preferring() (reader, writer *rlock.Lock) {
	f.Helper()
	if f.kind.Preferring == nil {
		f.Skip("it has no readers")
	}
	rw := f.kind.Preferring(f.client(tune.PollInterval(testkit.Never)), f.name)
	return rw.Reader(), rw.Writer()
}

// asleep has a call wait for a lock until a message or the end of ctx.
func (f *fixture) asleep(ctx context.Context, lock *rlock.Lock) <-chan error {
	f.Helper()
	got := testkit.Async(func() error { return lock.Lock(ctx) })
	testkit.Eventually(f, "the waiter sleeps", func() bool { return testkit.Rests(lock) && testkit.Listens(lock) })
	return got
}

// writes has a writer wait, in the line. Nobody waits for writers where there is none, as on a cluster with classic pub/sub.
func (f *fixture) writes(ctx context.Context, writer *rlock.Lock) <-chan error {
	f.Helper()
	got := f.asleep(ctx, writer)
	line, _ := wire.NewNames(wire.Write, testkit.AppPrefix+f.name, "").LineKeys[1].(string)
	if _, cluster := f.admin.(*redis.ClusterClient); cluster && f.admin.Exists(f.Context(), line).Val() == 0 {
		f.Skip("there is no line")
	}
	require.Positive(f, f.admin.ZCount(f.Context(), line, "0", "inf").Val())
	return got
}

// yields checks that a reader does not get the lock. A client that has yet to learn how the channels of a cluster work gets it until then.
func (f *fixture) yields(reader *rlock.Lock) {
	f.Helper()
	testkit.Eventually(f, "the reader waits for the writer", func() bool {
		passes := tryLock(f, f.Context(), reader)
		if passes {
			require.NoError(f, reader.Unlock(f.Context()))
		}
		return !passes
	})
}

func writersFirst(f *fixture) {
	first, _ := f.preferring()
	late, _ := f.preferring()
	_, writer := f.preferring()
	owner := rlock.WithOwner(f.Context())
	require.NoError(f, first.Lock(owner))
	writing := f.writes(f.Context(), writer)
	f.yields(late)
	reading := f.asleep(f.Context(), late)
	require.True(f, tryLock(f, owner, first), "an owner that reads waits for nobody")
	require.NoError(f, first.Unlock(owner))
	require.Empty(f, writing)
	require.NoError(f, first.Unlock(owner))
	require.NoError(f, testkit.Within(f, "the writer goes first", writing))
	require.Empty(f, reading)
	require.NoError(f, writer.Unlock(f.Context()))
	require.NoError(f, testkit.Within(f, "the reader follows", reading))
	require.NoError(f, late.Unlock(f.Context()))
}

func readersTogether(f *fixture) {
	_, writer := f.preferring()
	one, _ := f.preferring()
	two, _ := f.preferring()
	require.NoError(f, writer.Lock(f.Context()))
	readers := []*rlock.Lock{one, two, two}
	var reading []<-chan error
	for _, reader := range readers {
		reading = append(reading, f.asleep(f.Context(), reader))
	}
	testkit.Eventually(f, "both of a process wait", func() bool { return testkit.Waiting(two) == 2 })
	require.NoError(f, writer.Unlock(f.Context()))
	for _, got := range reading {
		require.NoError(f, testkit.Within(f, "all read, and nobody unlocks before", got))
	}
	for _, reader := range readers {
		require.False(f, tryLock(f, f.Context(), writer))
		require.NoError(f, reader.Unlock(f.Context()))
	}
	requireFree(f, writer)
}

func othersPassWriters(f *fixture) {
	first, _ := f.preferring()
	late, writer := f.preferring()
	plain, _ := f.lock().(*rlock.Lock)
	require.NoError(f, first.Lock(f.Context()))
	writing := f.writes(f.Context(), writer)
	require.True(f, tryLock(f, f.Context(), plain), "it does not know of the option")
	require.NoError(f, first.Unlock(f.Context()))
	require.Empty(f, writing, "it excludes writers all the same")
	require.False(f, tryLock(f, f.Context(), late))
	require.NoError(f, plain.Unlock(f.Context()))
	require.NoError(f, testkit.Within(f, "the writer writes", writing))
	require.False(f, tryLock(f, f.Context(), plain))
	require.NoError(f, writer.Unlock(f.Context()))
}

func writersLeave(f *fixture) {
	first, _ := f.preferring()
	late, _ := f.preferring()
	_, writer := f.preferring()
	require.NoError(f, first.Lock(f.Context()))
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	writing := f.writes(ctx, writer)
	f.yields(late)
	reading := f.asleep(f.Context(), late)
	cancel()
	require.ErrorIs(f, testkit.Within(f, "the writer gives up", writing), context.Canceled)
	require.NoError(f, testkit.Within(f, "the reader joins", reading))
	require.NoError(f, first.Unlock(f.Context()))
	require.NoError(f, late.Unlock(f.Context()))
}

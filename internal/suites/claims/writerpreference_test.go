package claims

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// preferring opens clients of one server, each with a handle on one read-write lock whose readers prefer writers.
type preferring struct {
	*testing.T
	admin *redis.Client
	open  func(opts ...rlock.Option) *rlock.RWLock
}

func newPreferring(t *testing.T) preferring {
	t.Helper()
	server, name := redistest.Start(t), testkit.NewName()
	return preferring{t, server.Client(t), func(opts ...rlock.Option) *rlock.RWLock {
		all := append([]rlock.Option{tune.PollInterval(testkit.Never)}, opts...)
		return testkit.NewClient(t, server.Client(t), all...).NewRWLock(name, rlock.WriterPreference())
	}}
}

// asleep has a call begin, and waits until it waits for the lock.
func (p preferring) asleep(lock *rlock.Lock) <-chan error {
	p.Helper()
	got := testkit.Async(func() error { return lock.Lock(p.Context()) })
	testkit.AwaitSleepers(p, p.admin, 0, lock)
	return got
}

// TestAWriterIsNotStarvedByReaders has twelve clients read at any time, so that nobody reads hardly ever. No reader that came after a writer
// has the lock before it.
func TestAWriterIsNotStarvedByReaders(t *testing.T) {
	t.Parallel()
	p := newPreferring(t)
	writer := p.open().Writer()
	var waits, turns, passed, reads atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 12 {
		reader := p.open().Reader()
		wg.Go(func() {
			for ctx.Err() == nil {
				behind, turn := waits.Load(), turns.Load()
				err := reader.Do(ctx, func(context.Context) error {
					if behind == turn+1 && turns.Load() == turn {
						passed.Add(1)
					}
					reads.Add(1)
					time.Sleep(5*time.Millisecond + rand.N(60*time.Millisecond))
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for range 10 {
		before := reads.Load()
		testkit.Eventually(t, "readers have their turn", func() bool { return reads.Load() > before+24 })
		got := testkit.Async(func() error { return writer.Lock(t.Context(), rlock.Wait(15*time.Second)) })
		testkit.Eventually(t, "the writer stands in the line, or had its turn", func() bool {
			return inLine(t, p.admin, writer) == 1 || len(got) == 1
		})
		waits.Add(1)
		require.NoError(t, testkit.Within(t, "the writer has its turn", got))
		turns.Add(1)
		require.NoError(t, writer.Unlock(t.Context()))
	}
	require.Zero(t, passed.Load(), "readers that came later passed a writer")
}

// TestReadersThatWaitReadTogetherBeforeTheNextWriter also has more writers than readers, whose turn it would not be otherwise. A process that needs
// more than a millisecond for its turn may miss it, and go in after a later writer. In virtual time none does.
func TestReadersThatWaitReadTogetherBeforeTheNextWriter(t *testing.T) {
	t.Parallel()
	redistest.OnRealServersToo(t, "real processes answer in any order")
	p := newPreferring(t)
	var writers [8]*rlock.Lock
	var writing [8]<-chan error
	for i := range writers {
		writers[i] = p.open().Writer()
	}
	require.NoError(t, writers[0].Lock(t.Context()))
	for i := range writers[1:] {
		writing[i+1] = p.asleep(writers[i+1])
	}
	reads := p.open()
	readers := []*rlock.Lock{reads.Reader(), reads.Reader(), reads.Reader()} // of one process
	var reading []<-chan error
	for _, r := range readers {
		reading = append(reading, p.asleep(r))
	}
	testkit.Eventually(t, "all of them wait", func() bool { return testkit.Waiting(readers[0]) == 3 })

	next := 1
	unlocks := func(reading <-chan error) { // the writer that writes, and if need be others until the reader reads
		require.NoError(t, writers[next-1].Unlock(t.Context()))
		for ; next < len(writers); next++ {
			select {
			case err := <-reading:
				require.NoError(t, err)
				return
			case err := <-writing[next]:
				require.NoError(t, err)
				require.False(t, host.Virtual, "the reader waited before the writer left, and that was its turn")
				require.NoError(t, writers[next].Unlock(t.Context()))
			}
		}
		require.NoError(t, testkit.Within(t, "no writer is left, so the reader reads", reading))
	}
	unlocks(reading[0])
	for _, r := range reading[1:] {
		require.NoError(t, testkit.Within(t, "the others of its process read with it", r))
	}
	if next == len(writers) {
		t.Skip("the readers missed each turn")
	}
	late := p.open().Reader()
	require.False(t, testkit.Must(late.TryLock(t.Context())), "a later reader waits for the next writer")
	lately := p.asleep(late)
	for i, r := range readers {
		require.Empty(t, writing[next])
		require.NoError(t, r.Unlock(t.Context()), i)
	}
	require.NoError(t, testkit.Within(t, "the next writer writes", writing[next]))
	require.Empty(t, lately)
	next++
	unlocks(lately)
	require.NoError(t, late.Unlock(t.Context()))
	for ; next < len(writers); next++ {
		require.NoError(t, testkit.Within(t, "each writer writes", writing[next]))
		require.NoError(t, writers[next].Unlock(t.Context()))
	}
}

func TestAWriterThatGivesUpLetsReadersIn(t *testing.T) {
	t.Parallel()
	p := newPreferring(t)
	first, second, writer := p.open().Reader(), p.open().Reader(), p.open().Writer()
	require.NoError(t, first.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	writing := testkit.Async(func() error { return writer.Lock(ctx) })
	testkit.AwaitSleepers(t, p.admin, 0, writer)
	reading := p.asleep(second)
	cancel()
	require.ErrorIs(t, testkit.Within(t, "the writer gives up", writing), context.Canceled)
	require.NoError(t, testkit.Within(t, "the reader reads", reading))
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))
}

// TestADeadWriterKeepsNoReaderOut has a writer in the line whose process was killed.
func TestADeadWriterKeepsNoReaderOut(t *testing.T) {
	t.Parallel()
	p := newPreferring(t)
	first, second, writer := p.open().Reader(), p.open().Reader(), p.open().Writer()
	require.NoError(t, first.Lock(t.Context()))
	standsDead(t, p.admin, writer)
	testkit.Eventually(t, "it does not count as one that is about to subscribe", func() bool {
		return testkit.Must(second.TryLock(t.Context()))
	})
	require.NoError(t, second.Unlock(t.Context()))
	require.True(t, testkit.Must(second.TryLock(t.Context())), "nobody waits for the dead")
	require.NoError(t, second.Unlock(t.Context()))
	require.NoError(t, first.Unlock(t.Context()))
	require.True(t, testkit.Must(second.TryLock(t.Context())), "of a free lock, too")
	require.NoError(t, second.Unlock(t.Context()))
}

// standsDead puts a writer into the line whose client listens nowhere.
func standsDead(t *testing.T, admin *redis.Client, writer *rlock.Lock) {
	t.Helper()
	line := "redisson_unlock_latch:{" + writer.Name() + "}:waiters"
	now := testkit.Must(admin.Time(t.Context()).Result())
	dead := redis.Z{Score: float64(now.UnixMicro()), Member: "0f0e0d0c-0b0a-4908-8706-050403020100:1:write|3000"}
	require.NoError(t, admin.ZAdd(t.Context(), line, dead).Err())
}

// TestOwnersPassTheWriterThatWaitsForThem has a writer wait for an owner that reads once more, or that writes already.
func TestOwnersPassTheWriterThatWaitsForThem(t *testing.T) {
	t.Parallel()
	p := newPreferring(t)
	rw, writer := p.open(), p.open().Writer()
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, rw.Reader().Lock(ctx))
	writing := p.asleep(writer)
	require.False(t, testkit.Must(rw.Reader().TryLock(t.Context())), "another owner of the same process waits")
	require.True(t, testkit.Must(rw.Reader().TryLock(ctx)), "a re-entry")
	require.NoError(t, rw.Reader().Unlock(ctx))
	require.NoError(t, rw.Reader().Unlock(ctx))
	require.NoError(t, testkit.Within(t, "the writer writes", writing))

	next := p.asleep(rw.Writer())
	require.NoError(t, writer.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the next writer writes", next))
	ctx = rlock.WithOwner(t.Context())
	require.NoError(t, rw.Writer().Unlock(t.Context()))
	require.NoError(t, rw.Writer().Lock(ctx))
	waits := p.asleep(writer)
	require.NoError(t, rw.Reader().Lock(ctx), "an owner that writes reads")
	require.NoError(t, rw.Writer().Unlock(ctx), "and goes on to read")
	require.Empty(t, waits)
	require.NoError(t, rw.Reader().Unlock(ctx))
	require.NoError(t, testkit.Within(t, "the writer writes", waits))
	require.NoError(t, writer.Unlock(t.Context()))
}

// TestReadersThatWaitJoinADowngrade has a writer go on to read, while readers and another writer wait.
func TestReadersThatWaitJoinADowngrade(t *testing.T) {
	t.Parallel()
	p := newPreferring(t)
	rw, next, reader, late := p.open(), p.open().Writer(), p.open().Reader(), p.open().Reader()
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, rw.Writer().Lock(ctx))
	require.NoError(t, rw.Reader().Lock(ctx))
	writing, reading := p.asleep(next), p.asleep(reader)
	require.NoError(t, rw.Writer().Unlock(ctx))
	require.NoError(t, testkit.Within(t, "the reader that waited joins", reading))
	require.False(t, testkit.Must(late.TryLock(t.Context())), "a later one does not")
	require.NoError(t, rw.Reader().Unlock(ctx))
	require.Empty(t, writing)
	require.NoError(t, reader.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the writer writes", writing))
	require.NoError(t, next.Unlock(t.Context()))
}

// TestADowngradeThatNobodyFollowsLeavesNothingForEver has a writer go on to read while a reader waits, and then both of them die.
func TestADowngradeThatNobodyFollowsLeavesNothingForEver(t *testing.T) {
	t.Parallel()
	p := newPreferring(t)
	rw, reader := p.open(), p.open().Reader()
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, rw.Writer().Lock(ctx))
	require.NoError(t, rw.Reader().Lock(ctx))
	reading := p.asleep(reader)
	require.NoError(t, rw.Writer().Unlock(ctx))
	require.NoError(t, testkit.Within(t, "the reader that waited joins", reading))
	for _, key := range testkit.Must(p.admin.Keys(t.Context(), "*").Result()) {
		require.Positive(t, testkit.Must(p.admin.PTTL(t.Context(), key).Result()), key)
	}
	require.NoError(t, rw.Reader().Unlock(ctx))
	require.NoError(t, reader.Unlock(t.Context()))
}

// TestAReaderDoesNotJoinALockWhoseLeaseSomebodyTookAway has a writer wait for a reader whose lock lasts for ever.
func TestAReaderDoesNotJoinALockWhoseLeaseSomebodyTookAway(t *testing.T) {
	t.Parallel()
	p := newPreferring(t)
	first, second, writer := p.open().Reader(), p.open().Reader(), p.open().Writer()
	require.NoError(t, first.Lock(t.Context()))
	writing := p.asleep(writer)
	require.True(t, testkit.Must(p.admin.Persist(t.Context(), first.Name()).Result()))
	require.False(t, testkit.Must(second.TryLock(t.Context())), "it waits for the writer")
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the writer writes", writing))
	require.NoError(t, writer.Unlock(t.Context()))
}

func TestWriterPreferenceIsForReadWriteLocks(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Start(t).Client(t))
	_, err := client.NewLock(testkit.NewName(), rlock.WriterPreference()).TryLock(t.Context())
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
	require.ErrorContains(t, err, "WriterPreference is for read-write locks")
	_, err = client.NewFairLock(testkit.NewName(), rlock.WriterPreference()).TryLock(t.Context())
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
	rw := client.NewRWLock(testkit.NewName(), rlock.WriterPreference(), rlock.Fenced())
	require.True(t, testkit.Must(rw.Writer().TryLock(t.Context())), "with tokens, too")
	require.NoError(t, rw.Writer().Unlock(t.Context()))
	require.True(t, testkit.Must(rw.Reader().TryLock(t.Context())))
	require.NoError(t, rw.Reader().Unlock(t.Context()))
}

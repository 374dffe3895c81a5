package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// rwPair is a read-write lock in the hands of both languages.
type rwPair struct {
	name  string
	rdb   *redis.Client
	inGo  *rlock.RWLock
	owner context.Context // of goReads and goWrites
	java  *redissonClient

	goReads, goWrites     hand
	javaReads, javaWrites hand
	goWriter, javaWriter  hand // other owners, which only write
}

func newRWPair(t *testing.T, v version, s settings, opts ...rlock.Option) *rwPair {
	t.Helper()
	server := redistest.Start(t)
	p := &rwPair{name: newName(), rdb: server.Client(t), owner: rlock.WithOwner(t.Context())}
	p.inGo = newClient(t, p.rdb, opts...).NewRWLock(p.name)
	p.java = sharedJVM(t, v).open(t, s, server.Addr)
	p.goReads, p.goWrites = goHandOf(p.owner, p.inGo.Reader()), goHandOf(p.owner, p.inGo.Writer())
	p.javaReads, p.javaWrites = javaHand(p.inJava("read")), javaHand(p.inJava("write"))
	p.goWriter = goHand(t.Context(), p.inGo.Writer())
	p.javaWriter = javaHand(p.java.thread(2).lock("write", p.name))
	return p
}

// inJava returns the read or the write lock for the thread of javaReads and javaWrites.
func (p *rwPair) inJava(kind string) *javaLock { return p.java.thread(1).lock(kind, p.name) }

// ttl returns the remaining lease of the lock in Redis.
func (p *rwPair) ttl(t *testing.T) time.Duration {
	t.Helper()
	return p.rdb.PTTL(t.Context(), p.name).Val()
}

func (p *rwPair) writersRefused(t *testing.T, why string) {
	t.Helper()
	p.goWriter.refused(t, why)
	p.javaWriter.refused(t, why)
}

func TestReadersOfBothLanguagesShareAndWritersWaitForAll(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		// A reader of Redisson that is about to sleep misses the release of a writer, in any version.
		const watchdog = 3 * time.Second
		p := newRWPair(t, v, settings{Watchdog: watchdog}, rlock.WithWatchdogTimeout(watchdog))
		for _, readers := range bothOrders(p.goReads, p.javaReads) {
			for _, writers := range bothOrders(p.goWriter, p.javaWriter) {
				p.turnOfReadersAndWriter(t, readers, writers)
			}
		}
	})
}

// turnOfReadersAndWriter lets both readers read, then the first writer write, and then both readers, which waited for it.
func (p *rwPair) turnOfReadersAndWriter(t *testing.T, readers, writers [2]hand) {
	t.Helper()
	readers[0].lock(t)
	readers[1].lock(t)
	require.Len(t, holders(t, p.rdb, p.name), 3)
	require.Equal(t, "read", holders(t, p.rdb, p.name)["mode"])
	require.Len(t, p.rdb.Keys(t.Context(), "{"+p.name+"}:*:rwlock_timeout:1").Val(), 2)
	p.writersRefused(t, "both sides read")
	writing := writers[0].ask()
	readers[0].release(t)
	require.Empty(t, writing, "a reader is left")
	writers[1].refused(t, "a reader is left")
	readers[1].release(t)
	writers[0].granted(t, writing)
	require.Equal(t, "write", holders(t, p.rdb, p.name)["mode"])
	readers[0].refused(t, "another owner writes")
	readers[1].refused(t, "another owner writes")
	writers[1].refused(t, "another owner writes")

	reading := [2]<-chan error{readers[0].ask(), readers[1].ask()}
	writers[0].release(t)
	for i, reader := range readers {
		reader.granted(t, reading[i])
	}
	for _, reader := range readers {
		reader.release(t)
	}
	require.Empty(t, keysOf(t, p.rdb))
}

// listen subscribes to the lock's channel and returns its messages.
func (p *rwPair) listen(t *testing.T) <-chan *redis.Message {
	t.Helper()
	sub := p.rdb.Subscribe(t.Context(), rwChannel(p.name))
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	return sub.Channel()
}

// asleep waits until another client than listen's has subscribed. Then it gives the client time to try again and fall
// asleep: in Redisson, the release of a writer wakes only threads that sleep already.
func (p *rwPair) asleep(t *testing.T) {
	t.Helper()
	subscribed(t, p.rdb, rwChannel(p.name), 2)
	<-time.After(time.Second)
}

// TestDowngradeOfWriterInGoLetsReadersOfJavaIn checks that Go announces a downgrade, so that a reader in Java does not wait
// for the lease of an hour that it was told.
func TestDowngradeOfWriterInGoLetsReadersOfJavaIn(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p := newRWPair(t, v, settings{})
		messages := p.listen(t)
		require.NoError(t, p.inGo.Writer().Lock(p.owner, rlock.Lease(time.Hour)))
		p.goReads.lock(t)
		locked, err := p.inJava("write").IsLocked()
		require.NoError(t, err)
		require.True(t, locked)
		locked, err = p.inJava("read").IsLocked()
		require.NoError(t, err)
		require.Equal(t, v.atLeast(3, 25), locked, "before 3.24.1 Redisson does not see that a writer reads")
		p.javaReads.refused(t, "the other owner still writes")
		reading := p.javaReads.ask()
		p.asleep(t)
		require.Empty(t, reading)
		p.goWrites.release(t)
		require.Equal(t, "1", within(t, "the downgrade is announced", messages).Payload)
		p.javaReads.granted(t, reading)
		require.Less(t, p.ttl(t), time.Minute, "no lease of an hour is left")
		locked, err = p.inJava("write").IsLocked()
		require.NoError(t, err)
		require.False(t, locked)

		p.writersRefused(t, "both sides read")
		p.goReads.release(t)
		p.writersRefused(t, "a reader is left")
		p.javaReads.release(t)
		p.javaWriter.lock(t)
		p.javaWriter.release(t)
		require.Empty(t, keysOf(t, p.rdb))
	})
}

// TestDowngradeOfWriterInJavaIsFoundByPolling checks that a waiter in Go notices a downgrade in Java at its next poll, because
// Redisson does not announce it.
func TestDowngradeOfWriterInJavaIsFoundByPolling(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		const poll = 2 * time.Second
		p := newRWPair(t, v, settings{}, tune.PollInterval(poll))
		messages := p.listen(t)
		require.NoError(t, p.inJava("write").Lock(lease(time.Hour)))
		p.javaReads.lock(t)
		for _, lock := range []*rlock.Lock{p.inGo.Reader(), p.inGo.Writer()} {
			locked, err := lock.IsLocked(t.Context())
			require.NoError(t, err)
			require.True(t, locked)
		}
		p.goReads.refused(t, "the other owner still writes")
		reading := p.goReads.ask()
		p.asleep(t)
		require.Empty(t, reading)
		passed := redistest.Stopwatch(t)
		p.javaWrites.release(t)
		p.goReads.granted(t, reading)
		require.Less(t, passed(), poll+10*time.Second, "the poll interval, plus time for a busy machine")
		require.Empty(t, messages, "nothing was announced")
		require.Greater(t, p.ttl(t), time.Minute, "Redisson keeps the writer's lease")
		locked, err := p.inGo.Writer().IsLocked(t.Context())
		require.NoError(t, err)
		require.False(t, locked)

		p.writersRefused(t, "both sides read")
		p.javaReads.release(t)
		require.Less(t, p.ttl(t), time.Minute, "no lease of an hour is left")
		p.writersRefused(t, "a reader is left")
		p.goReads.release(t)
		p.goWriter.lock(t)
		p.goWriter.release(t)
		require.Empty(t, keysOf(t, p.rdb))
	})
}

package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/observe"
)

// javaSemaphore is a semaphore together with a thread.
type javaSemaphore struct {
	*testing.T
	thread *javaThread
	name   string
	plain  bool
}

func askSemaphore[T any](s *javaSemaphore, method string, opts ...javaOption) <-chan result[T] {
	op := "semaphore"
	if s.plain {
		op = "plainSemaphore"
	}
	r := s.thread.request(op)
	r.Kind, r.Names = method, []string{s.name}
	for _, opt := range opts {
		opt(&r)
	}
	return ask[T](s.thread.client.jvm, r)
}

// call calls a method and waits for its value.
func call[T any](s *javaSemaphore, method string, opts ...javaOption) T {
	s.Helper()
	value, err := await(askSemaphore[T](s, method, opts...), aLongTime)
	require.NoError(s, err)
	return value
}

func permits(n int64) javaOption { return func(r *request) { r.Count = n } }

func permit(id string) javaOption { return func(r *request) { r.Names = append(r.Names, id) } }

// semaphores is one semaphore on both sides.
type semaphores struct {
	*testing.T
	inGo    *rlock.Semaphore
	inJava  *javaSemaphore
	waiting *javaSemaphore // on another thread
	stats   func() observe.Stats
}

// counts requires both sides to see so many permits: free, out and in all.
func (s *semaphores) counts(free, out int) {
	s.Helper()
	require.Equal(s, [3]int{free, out, free + out}, [3]int{
		call[int](s.inJava, "availablePermits"), call[int](s.inJava, "acquiredPermits"), call[int](s.inJava, "getPermits"),
	})
	for want, count := range map[int]func(context.Context) (int, error){
		free: s.inGo.AvailablePermits, free + out: s.inGo.Permits,
	} {
		n, err := count(s.Context())
		require.NoError(s, err)
		require.Equal(s, want, n)
	}
}

func (s *semaphores) acquire(opts ...rlock.AcquireOption) *rlock.Hold {
	s.Helper()
	hold, err := s.inGo.Acquire(s.Context(), opts...)
	require.NoError(s, err)
	return hold
}

// goWaits has Go wait for a permit, and returns when it does.
func (s *semaphores) goWaits() <-chan *rlock.Hold {
	s.Helper()
	got := make(chan *rlock.Hold, 1)
	go func() {
		hold, err := s.inGo.Acquire(s.Context())
		if err != nil {
			s.Error(err)
		}
		got <- hold
	}()
	eventually(s, "Go waits", func() bool { return s.stats().Waiting == 1 })
	return got
}

// TestSemaphore has Go and Java share the permits of a semaphore, wake each other, and give back each other's permits.
func TestSemaphore(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		client := newClient(t, rdb, waitsForMessages()...)
		name := newName()
		s := &semaphores{
			t, client.NewSemaphore(name), &javaSemaphore{T: t, thread: java.thread(100), name: name},
			&javaSemaphore{T: t, thread: java.thread(101), name: name}, client.Stats,
		}
		listeners := func() int64 {
			return rdb.PubSubNumSub(t.Context(), "redisson_sc:{"+name+"}").Val()["redisson_sc:{"+name+"}"]
		}

		require.True(t, call[bool](s.inJava, "trySetPermits", permits(3)))
		set, err := s.inGo.TrySetPermits(t.Context(), 7)
		require.NoError(t, err)
		require.False(t, set)
		two := s.acquire(rlock.Permits(2))
		inJava := call[string](s.inJava, "acquire")
		require.Len(t, inJava, 32)
		s.counts(0, 3)
		require.Empty(t, call[*string](s.inJava, "tryAcquire"))
		_, err = s.inGo.TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotAcquired)

		got := s.goWaits()
		eventually(t, "Go listens", func() bool { return listeners() == 1 })
		require.True(t, call[bool](s.inJava, "tryRelease", permit(inJava)))
		one := within(t, "Java's release wakes Go", got)
		thread := askSemaphore[string](s.waiting, "acquire")
		eventually(t, "Java listens", func() bool { return listeners() == 2 })
		require.NoError(t, one.Unlock(t.Context()))
		inJava, err = await(thread, aLongTime)
		require.NoError(t, err, "Go's release wakes Java")

		require.NoError(t, s.inGo.Release(t.Context(), inJava), "Go gives Java's permit back")
		require.False(t, call[bool](s.inJava, "tryRelease", permit(inJava)))
		require.True(t, call[bool](s.inJava, "tryRelease", permit(two.PermitIDs()[1])), "Java gives one of Go's back")
		require.ErrorIs(t, two.Unlock(t.Context()), rlock.ErrLost)
		s.counts(3, 0)

		require.NoError(t, s.inGo.SetPermits(t.Context(), 1))
		s.counts(1, 0)
		call[bool](s.inJava, "addPermits", permits(1))
		s.counts(2, 0)
		call[bool](s.inJava, "setPermits", permits(1))
		s.counts(1, 0)
	})
}

// TestSemaphoreLeases has each side take the permit of a holder of the other side whose lease is over. Nobody announces that.
func TestSemaphoreLeases(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		client := newClient(t, server.Client(t), waitsForMessages()...)
		name := newName()
		s := &semaphores{
			t, client.NewSemaphore(name, rlock.Total(1)), &javaSemaphore{T: t, thread: java.thread(100), name: name},
			&javaSemaphore{T: t, thread: java.thread(101), name: name}, client.Stats,
		}
		hold := s.acquire(rlock.Lease(time.Second))
		inJava, err := await(askSemaphore[string](s.waiting, "acquire", lease(time.Second)), aLongTime)
		require.NoError(t, err)
		require.Error(t, hold.Err())
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		hold = within(t, "Java's lease is over", s.goWaits())
		require.False(t, call[bool](s.inJava, "tryRelease", permit(inJava)))
		require.True(t, call[bool](s.inJava, "updateLeaseTime", permit(hold.PermitIDs()[0]), lease(time.Minute)))
		require.NoError(t, hold.Unlock(t.Context()))
		s.counts(1, 0)
	})
}

// TestPlainSemaphore has Go and Java share the permits of a plain semaphore, and wake each other.
func TestPlainSemaphore(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		client := newClient(t, rdb, waitsForMessages()...)
		name := newName()
		inJava := &javaSemaphore{T: t, thread: java.thread(100), name: name, plain: true}
		waiting := &javaSemaphore{T: t, thread: java.thread(101), name: name, plain: true}
		inGo := client.NewPlainSemaphore(name)
		free := func(n int) {
			t.Helper()
			require.Equal(t, n, call[int](inJava, "availablePermits"))
			available, err := inGo.AvailablePermits(t.Context())
			require.NoError(t, err)
			require.Equal(t, n, available)
		}
		listeners := func() int64 {
			return rdb.PubSubNumSub(t.Context(), "redisson_sc:{"+name+"}").Val()["redisson_sc:{"+name+"}"]
		}

		set, err := inGo.TrySetPermits(t.Context(), 3)
		require.NoError(t, err)
		require.True(t, set)
		require.False(t, call[bool](inJava, "trySetPermits", permits(7)))
		call[bool](inJava, "acquire", permits(2))
		require.NoError(t, inGo.Acquire(t.Context()))
		free(0)
		require.False(t, call[bool](inJava, "tryAcquire", permits(1)))
		got, err := inGo.TryAcquire(t.Context())
		require.NoError(t, err)
		require.False(t, got)

		thread := askSemaphore[bool](waiting, "acquire", permits(1))
		eventually(t, "Java listens", func() bool { return listeners() == 1 })
		require.NoError(t, inGo.Release(t.Context(), 1))
		_, err = await(thread, aLongTime)
		require.NoError(t, err, "Go's release wakes Java")

		acquired := make(chan error, 1)
		go func() { acquired <- inGo.Acquire(t.Context(), rlock.Permits(2)) }()
		eventually(t, "Go waits", func() bool { return client.Stats().Waiting == 1 && listeners() > 0 })
		call[bool](inJava, "release", permits(2))
		require.NoError(t, within(t, "Java's release wakes Go", acquired))
		free(0)
		require.NoError(t, inGo.Release(t.Context(), 1), "Go gives back what Java has")
		require.NoError(t, inGo.Release(t.Context(), 2))
		free(3)
		call[bool](inJava, "addPermits", permits(1))
		require.NoError(t, inGo.AddPermits(t.Context(), -2))
		free(2)
		drained, err := inGo.DrainPermits(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, drained)
		require.Zero(t, call[int](inJava, "drainPermits"))
	})
}

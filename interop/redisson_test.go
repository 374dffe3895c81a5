package interop_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settings are the settings of a Redisson client. Zero means Redisson's default.
type settings struct {
	Watchdog time.Duration  // lockWatchdogTimeout
	FairWait time.Duration  // fairLockWaitTimeout; versions without this setting use 5 min
	Sharded  string         // shardedSubscriptionMode of a cluster: AUTO, ON or OFF, in versions that have it
	More     map[string]any // other setters of Config or of the servers' configuration, by name without "set"
}

func (s settings) byName() map[string]any {
	all := maps.Clone(s.More)
	if all == nil {
		all = make(map[string]any)
	}
	if s.Watchdog != 0 {
		all["lockWatchdogTimeout"] = s.Watchdog.Milliseconds()
	}
	if s.FairWait != 0 {
		all["fairLockWaitTimeout"] = s.FairWait.Milliseconds()
	}
	if s.Sharded != "" {
		all["shardedSubscriptionMode"] = s.Sharded
	}
	return all
}

// redissonClient is a client in a JVM.
type redissonClient struct {
	ID string // the UUID that begins the holder field of every lock that it holds

	jvm   *jvm
	name  string
	close func() error
}

// opened counts the clients, to name them.
var opened atomic.Int64

// open opens a client of a server, or of a cluster if there are several addresses. It is closed with the test.
func (j *jvm) open(tb testing.TB, s settings, addresses ...string) *redissonClient {
	tb.Helper()
	c := &redissonClient{jvm: j, name: "client" + strconv.FormatInt(opened.Add(1), 10)}
	c.close = sync.OnceValue(func() error {
		_, err := await(ask[nothing](j, request{Op: "close", Client: c.name}), aLongTime)
		if errors.Is(err, errEnded) {
			return nil // the client ended with its JVM
		}
		return err
	})
	id, err := await(ask[string](j, request{
		Op: "open", Client: c.name, Addresses: addresses, Settings: s.byName(),
	}), aLongTime)
	require.NoError(tb, err, "open a Redisson client")
	c.ID = id
	tb.Cleanup(func() { c.Close(tb) })
	return c
}

// Close shuts the client down and interrupts its threads. Its locks expire.
func (c *redissonClient) Close(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, c.close())
}

// javaThread is a thread of the JVM that uses one client. It runs its requests in order.
type javaThread struct {
	client *redissonClient
	number int
}

// thread returns the client's thread with a number that the test chooses. The thread starts with its first request.
func (c *redissonClient) thread(number int) *javaThread {
	return &javaThread{client: c, number: number}
}

// Holder returns the field of a lock in Redis that this thread holds. A write lock's field has the suffix ":write".
func (th *javaThread) Holder(tb testing.TB) string {
	tb.Helper()
	id, err := await(ask[int64](th.client.jvm, th.request("threadId")), aLongTime)
	require.NoError(tb, err)
	return th.client.holder(id)
}

// holder is like Holder, for a thread number that the test passes to Redisson.
func (c *redissonClient) holder(threadID int64) string { return fmt.Sprintf("%s:%d", c.ID, threadID) }

// Interrupt interrupts the current request of the thread. If there is none, the interrupt is lost.
func (th *javaThread) Interrupt() error {
	_, err := await(ask[nothing](th.client.jvm, th.request("interrupt")), aLongTime)
	return err
}

// InterruptUntil interrupts the thread until a request has a result, and returns the error of the request.
func (th *javaThread) InterruptUntil(tb testing.TB, done <-chan result[nothing]) (err error) {
	tb.Helper()
	eventually(tb, "the thread is interrupted", func() bool {
		require.NoError(tb, th.Interrupt())
		select {
		case got := <-done:
			err = got.Err
			return true
		default:
			return false
		}
	})
	return err
}

func (th *javaThread) request(op string) request {
	return request{Op: op, Client: th.client.name, Thread: &th.number}
}

// lock returns a lock of a Java kind, see kinds, for this thread. Only the kind "multi" takes several names, those of plain
// locks.
func (th *javaThread) lock(kind string, names ...string) *javaLock {
	return &javaLock{thread: th, kind: kind, names: names}
}

// javaLock is a lock together with a thread. Its methods wait for the reply; those that end in Async only send the request.
type javaLock struct {
	thread *javaThread
	kind   string
	names  []string
}

// javaOption is an argument of a method.
type javaOption func(*request)

func milliseconds(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}

func wait(d time.Duration) javaOption  { return func(r *request) { r.Wait = milliseconds(d) } }
func lease(d time.Duration) javaOption { return func(r *request) { r.Lease = milliseconds(d) } }

// forThread selects the asynchronous API, for any thread number.
func forThread(id int64) javaOption { return func(r *request) { r.ThreadID = &id } }

// interruptibly makes Lock call lockInterruptibly.
func interruptibly(r *request) { r.Interruptibly = true }

func askLock[T any](l *javaLock, op string, opts []javaOption) <-chan result[T] {
	r := l.thread.request(op)
	r.Kind, r.Names = l.kind, l.names
	for _, opt := range opts {
		opt(&r)
	}
	return ask[T](l.thread.client.jvm, r)
}

// Lock calls lock. Its options are lease, interruptibly and forThread.
func (l *javaLock) Lock(opts ...javaOption) error {
	_, err := await(l.LockAsync(opts...), aLongTime)
	return err
}

// LockAsync sends the request of Lock.
func (l *javaLock) LockAsync(opts ...javaOption) <-chan result[nothing] {
	return askLock[nothing](l, "lock", opts)
}

// TryLock calls tryLock. Its options are wait, lease and forThread.
func (l *javaLock) TryLock(opts ...javaOption) (bool, error) {
	return await(l.TryLockAsync(opts...), aLongTime)
}

// TryLockAsync sends the request of TryLock.
func (l *javaLock) TryLockAsync(opts ...javaOption) <-chan result[bool] {
	return askLock[bool](l, "trylock", opts)
}

// Unlock calls unlock. Its option is forThread.
func (l *javaLock) Unlock(opts ...javaOption) error {
	_, err := await(l.UnlockAsync(opts...), aLongTime)
	return err
}

// UnlockAsync sends the request of Unlock.
func (l *javaLock) UnlockAsync(opts ...javaOption) <-chan result[nothing] {
	return askLock[nothing](l, "unlock", opts)
}

// ForceUnlock calls forceUnlock.
func (l *javaLock) ForceUnlock() (bool, error) {
	return await(askLock[bool](l, "force", nil), aLongTime)
}

// IsLocked calls isLocked.
func (l *javaLock) IsLocked() (bool, error) {
	return await(askLock[bool](l, "isLocked", nil), aLongTime)
}

// IsHeld calls isHeldByCurrentThread, or with forThread isHeldByThread.
func (l *javaLock) IsHeld(opts ...javaOption) (bool, error) {
	return await(askLock[bool](l, "isHeld", opts), aLongTime)
}

// HoldCount calls getHoldCount.
func (l *javaLock) HoldCount() (int, error) {
	return await(askLock[int](l, "holdCount", nil), aLongTime)
}

// TTL calls remainTimeToLive, which returns -2 ms for a free lock.
func (l *javaLock) TTL() (time.Duration, error) {
	ms, err := await(askLock[int64](l, "ttl", nil), aLongTime)
	return time.Duration(ms) * time.Millisecond, err
}

// LockToken calls lockAndGetToken. Its option is lease.
func (l *javaLock) LockToken(opts ...javaOption) (int64, error) {
	return await(askLock[int64](l, "lockToken", opts), aLongTime)
}

// TryLockToken calls tryLockAndGetToken. Its options are wait and lease. A nil token means that the lock was refused.
func (l *javaLock) TryLockToken(opts ...javaOption) (*int64, error) {
	return await(askLock[*int64](l, "tryLockToken", opts), aLongTime)
}

// Token calls getToken. Zero means that the lock never had a token.
func (l *javaLock) Token() (int64, error) {
	return await(askLock[int64](l, "getToken", nil), aLongTime)
}

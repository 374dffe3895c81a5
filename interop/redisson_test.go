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

// settings are those of a Redisson client. What is zero has Redisson's default.
type settings struct {
	Watchdog time.Duration  // lockWatchdogTimeout
	FairWait time.Duration  // fairLockWaitTimeout, which is 5 min in versions that have no such setting
	Sharded  string         // shardedSubscriptionMode of a cluster: AUTO, ON or OFF, in versions that have it
	More     map[string]any // any setter's name without "set": of Config, or of the servers' configuration
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

// opened numbers the clients.
var opened atomic.Int64

// open opens a client of a server, or of a cluster if there are several addresses. It is closed with the test.
func (j *jvm) open(tb testing.TB, s settings, addresses ...string) *redissonClient {
	tb.Helper()
	c := &redissonClient{jvm: j, name: "client" + strconv.FormatInt(opened.Add(1), 10)}
	c.close = sync.OnceValue(func() error {
		_, err := await(ask[nothing](j, request{Op: "close", Client: c.name}), aLongTime)
		if errors.Is(err, errEnded) {
			return nil // it went with its JVM
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

// Close shuts the client down, which leaves its locks to expire, and interrupts its threads.
func (c *redissonClient) Close(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, c.close())
}

// javaThread is a thread of the JVM, which uses one client. What it is asked is done in turn.
type javaThread struct {
	client *redissonClient
	number int
}

// thread returns the client's thread of a number of the test's; it is made when it is first used.
func (c *redissonClient) thread(number int) *javaThread {
	return &javaThread{client: c, number: number}
}

// Holder returns the field that a lock has in Redis when this thread holds it; a write lock's ends in ":write".
func (th *javaThread) Holder(tb testing.TB) string {
	tb.Helper()
	id, err := await(ask[int64](th.client.jvm, th.request("threadId")), aLongTime)
	require.NoError(tb, err)
	return th.client.holder(id)
}

// holder is Holder for a thread number that is passed to Redisson.
func (c *redissonClient) holder(threadID int64) string { return fmt.Sprintf("%s:%d", c.ID, threadID) }

// Interrupt interrupts what the thread does now; an interrupt that comes when it does nothing is lost.
func (th *javaThread) Interrupt() error {
	_, err := await(ask[nothing](th.client.jvm, th.request("interrupt")), aLongTime)
	return err
}

// InterruptUntil interrupts the thread until what it was asked has a result, and returns the error of that.
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

// lock returns a lock of a Java kind, see kinds, for this thread. A "multi" has several names, of plain locks.
func (th *javaThread) lock(kind string, names ...string) *javaLock {
	return &javaLock{thread: th, kind: kind, names: names}
}

// javaLock is a lock in the hands of a thread. The verbs wait for their replies, those in Async only send.
type javaLock struct {
	thread *javaThread
	kind   string
	names  []string
}

// javaOption is an argument of a verb.
type javaOption func(*request)

func milliseconds(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}

func wait(d time.Duration) javaOption  { return func(r *request) { r.Wait = milliseconds(d) } }
func lease(d time.Duration) javaOption { return func(r *request) { r.Lease = milliseconds(d) } }

// forThread uses the asynchronous API, for a thread of any number.
func forThread(id int64) javaOption { return func(r *request) { r.ThreadID = &id } }

// interruptibly makes Lock a lockInterruptibly.
func interruptibly(r *request) { r.Interruptibly = true }

func askLock[T any](l *javaLock, op string, opts []javaOption) <-chan result[T] {
	r := l.thread.request(op)
	r.Kind, r.Names = l.kind, l.names
	for _, opt := range opts {
		opt(&r)
	}
	return ask[T](l.thread.client.jvm, r)
}

// Lock is lock, with lease, interruptibly or forThread.
func (l *javaLock) Lock(opts ...javaOption) error {
	_, err := await(l.LockAsync(opts...), aLongTime)
	return err
}

// LockAsync is Lock, and returns when it was sent.
func (l *javaLock) LockAsync(opts ...javaOption) <-chan result[nothing] {
	return askLock[nothing](l, "lock", opts)
}

// TryLock is tryLock, with wait, lease or forThread.
func (l *javaLock) TryLock(opts ...javaOption) (bool, error) {
	return await(l.TryLockAsync(opts...), aLongTime)
}

// TryLockAsync is TryLock, and returns when it was sent.
func (l *javaLock) TryLockAsync(opts ...javaOption) <-chan result[bool] {
	return askLock[bool](l, "trylock", opts)
}

// Unlock is unlock, with forThread.
func (l *javaLock) Unlock(opts ...javaOption) error {
	_, err := await(l.UnlockAsync(opts...), aLongTime)
	return err
}

// UnlockAsync is Unlock, and returns when it was sent.
func (l *javaLock) UnlockAsync(opts ...javaOption) <-chan result[nothing] {
	return askLock[nothing](l, "unlock", opts)
}

// ForceUnlock is forceUnlock.
func (l *javaLock) ForceUnlock() (bool, error) {
	return await(askLock[bool](l, "force", nil), aLongTime)
}

// IsLocked is isLocked.
func (l *javaLock) IsLocked() (bool, error) {
	return await(askLock[bool](l, "isLocked", nil), aLongTime)
}

// IsHeld is isHeldByCurrentThread, or isHeldByThread with forThread.
func (l *javaLock) IsHeld(opts ...javaOption) (bool, error) {
	return await(askLock[bool](l, "isHeld", opts), aLongTime)
}

// HoldCount is getHoldCount.
func (l *javaLock) HoldCount() (int, error) {
	return await(askLock[int](l, "holdCount", nil), aLongTime)
}

// TTL is remainTimeToLive, which is -2 ms when nobody holds the lock.
func (l *javaLock) TTL() (time.Duration, error) {
	ms, err := await(askLock[int64](l, "ttl", nil), aLongTime)
	return time.Duration(ms) * time.Millisecond, err
}

// LockToken is lockAndGetToken, with lease.
func (l *javaLock) LockToken(opts ...javaOption) (int64, error) {
	return await(askLock[int64](l, "lockToken", opts), aLongTime)
}

// TryLockToken is tryLockAndGetToken, with wait or lease; nil: refused.
func (l *javaLock) TryLockToken(opts ...javaOption) (*int64, error) {
	return await(askLock[*int64](l, "tryLockToken", opts), aLongTime)
}

// Token is getToken; 0: there never was one.
func (l *javaLock) Token() (int64, error) {
	return await(askLock[int64](l, "getToken", nil), aLongTime)
}

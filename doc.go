// Package rlock gives Go services the distributed locks of Redisson, on the same keys and channels of Redis, so that Go and Java processes
// exclude and wake each other on one lock.
//
//	locks, err := rlock.New(rdb) // any redis.Client or redis.ClusterClient of go-redis
//	defer locks.Close()
//
//	lock := locks.NewLock("invoice:42")
//	if err := lock.Lock(ctx); err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx)
//
// Four facts matter to every user.
//
// # A lock is a lease
//
// While the holder lives, its [Client] renews the lease, so a lock is held for as long as the work takes. If the holder dies, Redis frees
// the lock when the lease ends: after up to 30 s, unless [WithWatchdogTimeout] or [RenewedLease] says otherwise. [Lease] asks for a fixed
// time. A holder that cannot reach Redis, or whose machine is suspended, for a whole lease has lost the lock.
//
// # A lock can be lost
//
// [Lock.Do] runs a function under a context that ends when the lock is lost. [Lock.Acquire] returns a [Hold], which has that context, a
// channel and an error. After a bare [Lock.Lock], only Unlock reports a loss: [ErrLost]. Run work that must not be done twice under the
// context.
//
// # The context is the thread
//
// A plain context re-enters nothing: a caller that locks twice waits for itself, as with a [sync.Mutex]. The context of a hold re-enters
// that hold's lock. A context made by [WithOwner] re-enters every lock taken with it, as a thread does in Java.
//
// # A refusal is not an outage
//
// If another owner holds the lock, TryLock and TryDo return false and no error, and all other methods that acquire return [ErrNotAcquired].
// If Redis could not answer, all of them return an error that matches [ErrUnavailable]. No error matches both.
//
// # Kinds
//
// [Client.NewLock] makes the plain lock. Fair locks ([Client.NewFairLock]) serve waiters in the order in which they asked. Read-write locks
// ([Client.NewRWLock]) admit many readers or one writer. Spin locks ([Client.NewSpinLock]) need no pub/sub. With the option [Fenced], locks
// have tokens, with which a resource can refuse the writes of earlier holders. [NewMultiLock] makes one of several locks, and [NewRedLock]
// one of a majority of them.
//
// A semaphore ([Client.NewSemaphore]) has as many holders at a time as it has permits. A count-down latch ([Client.NewCountDownLatch]) lets
// processes wait until others have counted it down to zero. An election ([Client.NewElection]) makes one process the leader for as long as
// it lives. [Lock.TryDo] with [AtLeast] has one of many processes do a job that all begin at the same time. [Hold.Export] and [Lock.Adopt]
// pass a lock that is held to another process.
//
// [Client.Shutdown] ends a process in good order. [Client.Stats] and [WithObserver] report what a client is doing, and [Lock.Inspect] who
// holds a lock. For tests, the module github.com/go-rlock/rlock/rlocktest has a client that needs no Redis.
package rlock

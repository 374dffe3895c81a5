// Package rlock gives Go services the distributed locks of Redisson, on the same keys and channels of Redis. Go and Java
// processes therefore exclude and wake each other on one lock.
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
// If a holder dies, Redis frees its lock when the lease ends: after up to 30 s, unless [WithWatchdogTimeout] or [RenewedLease]
// says otherwise. While the holder lives, the watchdog of its [Client] renews the lease, so a lock is held for as long as the
// work takes. [Lease] asks for a fixed time instead. A holder that cannot reach Redis for a whole lease has lost the lock. A
// holder whose machine was suspended for longer than the lease has lost it too.
//
// # A lock can be lost
//
// [Lock.Do] runs a function under a context that ends when the lock is lost. [Lock.Acquire] returns a [Hold], which has that
// context, a channel and an error. A bare [Lock.Lock] learns of a loss from its Unlock alone: [ErrLost]. A lock with a
// lease can do no more than report a loss. Work that must not be done twice belongs under the context.
//
// # The context is the thread
//
// The context decides whether the caller holds a lock. A plain context re-enters nothing: a caller that locks twice waits for
// itself, as with a [sync.Mutex]. The context of a hold re-enters that hold's lock. A context made by [WithOwner] re-enters
// every lock taken with it, as a thread does in Java.
//
// # A refusal is not an error
//
// TryLock and TryDo return false and no error if another owner holds the lock. All other methods that acquire return
// [ErrNotAcquired] then. If Redis could not answer, all of them return an error that matches [ErrUnavailable]. No error
// matches both. If the context had ended before the call, the error has the context's error and cause, and matches neither.
//
// # Kinds
//
// [Client.NewLock] makes the plain lock. Fair locks ([Client.NewFairLock]) serve waiters in the order in which they asked.
// Read-write locks ([Client.NewRWLock]) admit many readers or one writer. The tokens of fenced locks ([Client.NewFencedLock])
// let a resource refuse the writes of earlier holders. Spin locks ([Client.NewSpinLock]) need no pub/sub. With the option
// [Fenced], fair locks and the write side of read-write locks have tokens too. [NewMultiLock] combines several locks into one.
// [NewRedLock] does so too, and needs only a majority of them. All have the same methods.
//
// A semaphore ([Client.NewSemaphore]) has as many holders at a time as it has permits. A permit is held like a lock.
//
// A count-down latch ([Client.NewCountDownLatch]) is no lock: processes wait until others have counted it down to zero.
//
// # Beyond one section
//
// An election ([Client.NewElection]) makes one process the leader for as long as it lives. [Lock.TryDo] with [AtLeast] has one of
// many processes do a job that all of them begin at the same time. [Hold.Export] and [Lock.Adopt] give a lock that is held to
// another process, such as a worker. (The hand-overs of [WithHandOver] are something else: from one waiter of a process to the
// next.) [Client.Shutdown] ends a process in good order.
//
// [Client.Stats] and [WithObserver] report what a client is doing. [Lock.Inspect] shows who holds a lock, and who is waiting for it.
//
// For tests, the module github.com/go-rlock/rlock/rlocktest has a client that needs no Redis. Or let your code take an interface
// with the one method that it calls, which [Lock] has.
//
// # Inside
//
// A client runs these goroutines, and none per lock that is held:
//
//   - the watchdog, from the first acquisition to Close: it starts renewals and background releases, and ends holds at their
//     deadlines;
//   - the keeper and the reader of the one subscription connection, while an owner waits and 10 s longer;
//   - with sharded pub/sub, these two for each node that has a lock for which an owner waits;
//   - workers, which run the commands whose callers can leave before the reply, and the pipelines of many callers (see
//     [WithAutoPipeline]); each ends after an idle second.
package rlock

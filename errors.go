package rlock

import "github.com/go-rlock/rlock/internal/fault"

// The errors that callers distinguish with [errors.Is]. The error of a method wraps one of them, or an error from Redis or the network, and
// names the operation and the lock. Ask for [ErrLost] first: after a loss, the error of Do also matches what its function returned. What
// waiting does not help matches none of them, such as NOPERM, or WRONGTYPE if a name is used for two kinds of lock that do not go together.
var (
	// ErrNotAcquired means that another owner held the lock when Redis was last asked, and that the wait was over, or the context ended; then
	// the error also matches the context's error and cause. While another owner of this client holds the lock, Redis is not asked.
	ErrNotAcquired = fault.ErrNotAcquired

	// ErrUnavailable means that Redis gave no usable answer: no reply, no connection, or only a temporary error of the server. Nothing is
	// known about the lock. No error matches both it and [ErrNotAcquired] or [ErrLost]. Every method that sends a command may return it.
	// A canceled context says nothing about Redis: the error matches this one only if a command has failed before, or has had no reply
	// for a fifth of the command timeout. A deadline that passes before any reply does match.
	ErrUnavailable = fault.ErrUnavailable

	// ErrNotHeld means that there is nothing to unlock or to extend: the lock was never locked by this owner or through this handle, is
	// unlocked already, or only its [Hold] or Do unlocks it. Nothing was changed in Redis.
	ErrNotHeld = fault.ErrNotHeld

	// ErrLost means that an acquired lock can no longer be guaranteed: its lease ended, or Redis no longer has its holder. It is also the
	// cause of a hold's context. It matches [ErrNotHeld] too.
	ErrLost = fault.ErrLost

	// ErrNoPermits means that nobody has set a semaphore up, so that it has no permits. It matches [ErrNotAcquired] too.
	ErrNoPermits = fault.ErrNoPermits

	// ErrReentered means that an owner asked again for a lock that it holds, through a handle made with [NonReentrant], or with [AtLeast].
	ErrReentered = fault.ErrReentered

	// ErrUpgrade means that an owner which holds the read lock asked for the write lock of the same name: it would wait for itself.
	ErrUpgrade = fault.ErrUpgrade

	// ErrNotReplicated means that fewer replicas acknowledged an acquisition than [WithReplicaAcks] asks for. The lock was released. It
	// matches [ErrUnavailable] too.
	ErrNotReplicated = fault.ErrNotReplicated

	// ErrClosed is returned by every method but the unlocks and [PlainSemaphore.Release] once the [Client] or its redis client is closed,
	// and by methods that acquire once [Client.Shutdown] has begun. It is then also the cause of the contexts of holds.
	ErrClosed = fault.ErrClosed

	// ErrInvalidName is returned by the first method of a handle whose name is empty, longer than 64 KiB, or derived from another name as
	// the keys of a lock are, such as "redisson_lock_queue:{a}". On a Redis Cluster, braces must have something in between.
	ErrInvalidName = fault.ErrInvalidName

	// ErrInvalidOption means that an option or argument cannot work. Nothing was sent to Redis.
	ErrInvalidOption = fault.ErrInvalidOption
)

package notice

import "log/slog"

// Message is what a log line says, and its level. All messages are in this file. docs/guide/observing.md has a row
// for each, for people who operate a service and do not know how rlock works.
type Message struct {
	Text  string
	Level slog.Level
}

// The messages about holds.
var (
	LogLost      = &Message{"lock lost while held", slog.LevelWarn}
	LogNoRenewal = &Message{"renewal failed; it is sent again until the lease ends", slog.LevelWarn}
	LogRenewed   = &Message{"renewals succeed again", slog.LevelInfo}
	LogDropped   = &Message{"hold dropped without Unlock; it is no longer renewed", slog.LevelWarn}
	LogUnfenced  = &Message{"lock acquired without a fencing token, although this client also acquires it with one", slog.LevelWarn}

	LogNotReleased = &Message{"lock could not be released; it is free when its lease ends", slog.LevelWarn}
	LogLeadsOn     = &Message{"the function of an election still runs after its leadership has ended", slog.LevelWarn}
)

// The messages about permits.
var (
	LogPermitsDropped = &Message{"hold dropped without Unlock; its permits are given back", slog.LevelWarn}
	LogNotGivenBack   = &Message{"permits could not be given back; only AddPermits replaces them", slog.LevelWarn}
	LogNotKnown       = &Message{"permits were not given back: Redis no longer knows that this process has them", slog.LevelWarn}
	LogPermitsHeld    = &Message{"client closed while it holds permits of plain semaphores; only Unlock gives them back", slog.LevelWarn}
	LogPermitsOwed    = &Message{"client closed before permits of plain semaphores were given back; only AddPermits replaces them", slog.LevelWarn}
	LogOtherTotal     = &Message{"the number of permits in Redis is not the Total of this handle; SetPermits changes the number in Redis", slog.LevelWarn}
)

// The messages about waiting.
var (
	LogUnanswered   = &Message{"no usable answer from Redis for a whole command timeout; the call keeps waiting", slog.LevelWarn}
	LogSelf         = &Message{"possible self-deadlock: a call waits for a hold that was acquired with the same context", slog.LevelWarn}
	LogLong         = &Message{"possible self-deadlock: a call has waited longer than a lease for one hold of this process", slog.LevelWarn}
	LogItself       = &Message{"self-deadlock: a group of locks waits for a lock that another of its members holds, perhaps through another client", slog.LevelWarn}
	LogPlaceLost    = &Message{"place in the queue of a fair lock lost; the waiter is now last", slog.LevelInfo}
	LogAllWoken     = &Message{"the user lacks a right: each release wakes all waiting processes instead of only the first", slog.LevelWarn}
	LogNoSubscriber = &Message{"Redis does not see this client's subscription, perhaps because of a proxy: each release wakes all waiting processes", slog.LevelWarn}
	LogUnsubscribed = &Message{"Redis refuses a subscription: waiting calls ask again every poll interval, or are woken together with all others", slog.LevelWarn}
	LogClassic      = &Message{"this cluster's pub/sub is not sharded: each release wakes all waiting processes", slog.LevelInfo}
)

// The messages about a client.
var (
	LogReplicasHang     = &Message{"replicas do not acknowledge acquisitions; nobody waits for them until they do again", slog.LevelWarn}
	LogReplicasBack     = &Message{"no replica hangs any more", slog.LevelInfo}
	LogNoIdentity       = &Message{"Redis refuses to keep the identity of this client", slog.LevelWarn}
	LogObserverPanicked = &Message{"an observer panicked", slog.LevelWarn}
	LogUserPanicked     = &Message{"application code panicked, for example in a hook of the redis client", slog.LevelError}
)

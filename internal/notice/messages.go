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
	LogUnfenced  = &Message{"lock acquired without a fencing token, although this client also acquires it with one", slog.LevelWarn}

	LogNotReleased = &Message{"lock could not be released; it is free when its lease ends", slog.LevelWarn}
	LogLeadsOn     = &Message{"the function of an election still runs after its leadership has ended", slog.LevelWarn}
)

// The messages about permits.
var (
	LogOtherTotal = &Message{"the number of permits in Redis is not the Total of this handle; SetPermits changes the number in Redis", slog.LevelWarn}
)

// The messages about waiting.
var (
	LogPlaceLost    = &Message{"place in the queue of a fair lock lost; the waiter is now last", slog.LevelInfo}
	LogNoSubscriber = &Message{"Redis does not see this client's subscription, perhaps because of a proxy: each release wakes all waiting processes", slog.LevelWarn}
)

// The messages about a client.
var (
	LogNoIdentity       = &Message{"Redis refuses to keep the identity of this client", slog.LevelWarn}
	LogObserverPanicked = &Message{"an observer panicked", slog.LevelWarn}
)

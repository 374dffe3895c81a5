package rlock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/conform"
)

// claims lists what every kind of lock does, on every kind of Redis. internal/testkit/conform has the test of each, and
// says which of them do not apply to a kind.
var claims = []string{
	"excludes goroutines that share a handle",
	"excludes clients",
	"exactly one of a thousand TryLocks succeeds",
	"a hundred short leases are served in turn",
	"locks and unlocks repeatedly",
	"a stranger cannot unlock",
	"an owner re-enters",
	"a hold's context re-enters only its own lock",
	"an owner created within a hold is a different owner",
	"a plain context does not re-enter",
	"goroutines of one owner share the lock",
	"unlock ends its owner's latest acquisition",
	"unlock without an owner ends this handle's acquisition",
	"a wait lasts as long as requested",
	"a wait of zero takes a free lock",
	"a context ends the wait",
	"an ended context sends nothing",
	"silence is not contention, and a wait is a bound",
	"a waiter is woken by the release",
	"waiters of one process are served in order of arrival",
	"a waiter that leaves does not block the next one",
	"a lease ends",
	"a late unlock does not affect the next holder",
	"a late unlock on a shared handle reports the loss",
	"a re-entry never shortens a lease",
	"the watchdog keeps the lock",
	"the watchdog stops when only leased acquisitions remain",
	"a nested long lease hides no loss",
	"a renewed lease is kept until the unlock",
	"the longest renewed lease is renewed as often as the shortest",
	"Extend lengthens a lease and never shortens it",
	"Extend on a renewed hold leaves the renewals as they are",
	"Extend reports a hold that is over",
	"an unlock works after its context has ended",
	"force unlock frees any lock",
	"a force unlock notifies the holder",
	"queries return the state of the lock",
	"queries without an owner refer to the handle",
	"Do unlocks whatever happens",
	"Do skips work that another owner is doing",
	"Do reports a loss",
	"a hold ends once",
	"a hold's context is a child of the caller's",
	"HoldFrom returns the hold that a context carries",
	"HoldFrom looks as far outward as a re-entry",
	"a borrowed hold cannot be unlocked",
	"TryDo reports whether the function ran",
	"DoValue returns the function's value whenever it returned",
	"EnsureOwner hides no hold",
	"the context of an ended hold is no owner",
	"goroutines with the context of an ended hold exclude each other",
	"a re-entry outlives its hold",
	"each outermost acquisition draws a token, if the kind has tokens",
	"readers that prefer writers wait for those that wait",
	"readers that prefer writers read together when a writer leaves",
	"readers that prefer nobody pass the writers that wait",
	"a writer that gives up lets in the readers that prefer it",
	"Close stops everything and releases nothing",
	"a closed client's lock is free after its lease",
	"Shutdown tells the holders and keeps their locks",
	"Shutdown lets an owner re-enter, and waits for that",
	"Shutdown ends with its context",
	"Shutdown is refused within a section",
	"a cancelled wait leaves nothing to renew",
	"thousands of turns leave no channels",
	"an unlock past the deadline returns the loss at once",
	"Do returns its function's error untouched",
	"Do reports a loss once",
	"the loss of another lock does not hide a loss from Do",
	"Do's own errors name the phase",
	"an error states the age of this process's hold",
	"an unlock ends no other hold",
	"a loss is logged once",
	"a lock and a hold log their names",
	"nothing is left behind",
}

// TestConformance runs every claim for every kind of lock on the embedded server. internal/suites/claims runs them on a real server, and
// internal/suites/trouble on other topologies.
func TestConformance(t *testing.T) {
	t.Parallel()
	require.Equal(t, claims, conform.Claims())
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Embedded(t)
		conform.Run(t, rdb, func(string) redis.UniversalClient { return rdb })
	})
}

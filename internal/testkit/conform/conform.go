// Package conform is the conformance suite: the claims that hold for every kind of lock, on every kind of Redis.
package conform

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// conformance is the table of claims. lock_test.go beside the library has the same list, for its readers.
var conformance = []struct {
	claim string
	test  func(*fixture)
}{
	{"excludes goroutines that share a handle", excludesGoroutines},
	{"excludes clients", excludesClients},
	{"exactly one of a thousand TryLocks succeeds", oneOfAThousandTryLocks},
	{"a hundred short leases are served in turn", hundredShortLeases},
	{"locks and unlocks repeatedly", locksAndUnlocks},
	{"a stranger cannot unlock", strangerCannotUnlock},
	{"an owner re-enters", ownerReenters},
	{"a hold's context re-enters only its own lock", holdContextReenters},
	{"an owner created within a hold is a different owner", ownerWithinHold},
	{"a plain context does not re-enter", plainContextDoesNotReenter},
	{"goroutines of one owner share the lock", goroutinesOfOneOwner},
	{"unlock ends its owner's latest acquisition", unlockEndsLatest},
	{"unlock without an owner ends this handle's acquisition", unlockWithoutOwner},
	{"a wait lasts as long as requested", waitIsBounded},
	{"a wait of zero takes a free lock", waitOfZero},
	{"a context ends the wait", contextEndsWait},
	{"an ended context sends nothing", endedContext},
	{"silence is not contention, and a wait is a bound", silenceIsNotContention},
	{"a waiter is woken by the release", wokenByRelease},
	{"waiters of one process are served in order of arrival", servedInOrder},
	{"a waiter that leaves does not block the next one", leavingWaiter},
	{"a lease ends", leaseEnds},
	{"a late unlock does not affect the next holder", lateUnlock},
	{"a late unlock on a shared handle reports the loss", lateUnlockOnSharedHandle},
	{"a re-entry never shortens a lease", reentryKeepsLease},
	{"the watchdog keeps the lock", watchdogKeeps},
	{"the watchdog stops when only leased acquisitions remain", watchdogStops},
	{"a nested long lease hides no loss", nestedLeaseHidesNoLoss},
	{"a renewed lease is kept until the unlock", renewedLeaseKeeps},
	{"the longest renewed lease is renewed as often as the shortest", renewedLeasesTogether},
	{"Extend lengthens a lease and never shortens it", extendLengthens},
	{"Extend on a renewed hold leaves the renewals as they are", extendRenewed},
	{"Extend reports a hold that is over", extendOver},
	{"an unlock works after its context has ended", unlockAfterContext},
	{"force unlock frees any lock", forceUnlock},
	{"a force unlock notifies the holder", forceUnlockNotifiesHolder},
	{"queries return the state of the lock", queriesReturnState},
	{"queries without an owner refer to the handle", queriesWithoutOwner},
	{"Do unlocks whatever happens", doUnlocks},
	{"Do skips work that another owner is doing", doSkips},
	{"Do reports a loss", doReportsLoss},
	{"a hold ends once", holdEndsOnce},
	{"a hold's context is a child of the caller's", holdContextIsChild},
	{"HoldFrom returns the hold that a context carries", holdFromContext},
	{"HoldFrom looks as far outward as a re-entry", holdFromLooksOutward},
	{"a borrowed hold cannot be unlocked", borrowedHold},
	{"TryDo reports whether the function ran", tryDoReportsRan},
	{"DoValue returns the function's value whenever it returned", doValueReturns},
	{"EnsureOwner hides no hold", ensureOwner},
	{"the context of an ended hold is no owner", endedHoldIsNoOwner},
	{"goroutines with the context of an ended hold exclude each other", endedHoldExcludes},
	{"a re-entry outlives its hold", reentryOutlivesHold},
	{"each outermost acquisition draws a token, if the kind has tokens", outermostAcquisitionsDrawTokens},
	{"readers that prefer writers wait for those that wait", writersFirst},
	{"readers that prefer writers read together when a writer leaves", readersTogether},
	{"readers that prefer nobody pass the writers that wait", othersPassWriters},
	{"a writer that gives up lets in the readers that prefer it", writersLeave},
	{"Close stops everything and releases nothing", closeStops},
	{"a closed client's lock is free after its lease", closedClientsLeaseEnds},
	{"Shutdown tells the holders and keeps their locks", shutdownTells},
	{"Shutdown lets an owner re-enter, and waits for that", shutdownReenters},
	{"Shutdown ends with its context", shutdownEndsWithContext},
	{"Shutdown is refused within a section", shutdownWithinSection},
	{"a cancelled wait leaves nothing to renew", cancelledNotRenewed},
	{"thousands of turns leave no channels", thousandsOfTurns},
	{"an unlock past the deadline returns the loss at once", unlockPastDeadline},
	{"Do returns its function's error untouched", doKeepsError},
	{"Do reports a loss once", doReportsLossOnce},
	{"the loss of another lock does not hide a loss from Do", doReportsOwnLoss},
	{"Do's own errors name the phase", doNamesPhase},
	{"an error states the age of this process's hold", errorNamesAge},
	{"an unlock ends no other hold", unlockEndsNoOther},
	{"a loss is logged once", lossLoggedOnce},
	{"a lock and a hold log their names", logsItself},
	{"nothing is left behind", nothingLeft},
}

// long has the claims that keep a processor busy. The short tests skip them.
var long = map[string]bool{
	"excludes goroutines that share a handle":     true,
	"exactly one of a thousand TryLocks succeeds": true,
	"a hundred short leases are served in turn":   true,
	"thousands of turns leave no channels":        true,
}

// smoke has the claims that need something of Redis that depends on its topology, or on the rights there: each script, messages, expiry.
var smoke = map[string]bool{
	"excludes clients": true, "an owner re-enters": true, "a waiter is woken by the release": true,
	"a waiter that leaves does not block the next one": true, "a lease ends": true, "the watchdog keeps the lock": true,
	"Extend lengthens a lease and never shortens it": true, "force unlock frees any lock": true, "queries return the state of the lock": true,
	"each outermost acquisition draws a token, if the kind has tokens": true, "Shutdown tells the holders and keeps their locks": true,
	"readers that prefer writers wait for those that wait": true, "readers that prefer writers read together when a writer leaves": true,
	"readers that prefer nobody pass the writers that wait": true, "a writer that gives up lets in the readers that prefer it": true,
	"nothing is left behind": true,
}

// Claims returns every claim, in the order in which [Run] tests them.
func Claims() (all []string) {
	for _, c := range conformance {
		all = append(all, c.claim)
	}
	return all
}

// fixture is the environment of one conformance test.
type fixture struct {
	*testing.T
	rdb   redis.UniversalClient // of the locks, as a user with only the required rights
	admin redis.UniversalClient // the test's own
	kind  testkit.Kind
	name  string
	opts  []rlock.Option // of every client
}

// client returns a new client, which acts as another process.
func (f *fixture) client(opts ...rlock.Option) *rlock.Client {
	return testkit.NewClient(f, f.rdb, append(slices.Clip(f.opts), opts...)...)
}

// newLock returns a handle of the kind under test.
func (f *fixture) newLock(c *rlock.Client, name string) testkit.Locker { return f.kind.Make(c, name) }

// newRival returns a handle that the kind under test excludes.
func (f *fixture) newRival(c *rlock.Client, name string) testkit.Locker {
	if f.kind.Rival != nil {
		return f.kind.Rival(c, name)
	}
	return f.kind.Make(c, name)
}

// lock returns a handle of the test's name on a new client.
func (f *fixture) lock(opts ...rlock.Option) testkit.Locker {
	return f.newLock(f.client(opts...), f.name)
}

// rival returns a handle that the test's lock excludes, on another new client.
func (f *fixture) rival(opts ...rlock.Option) testkit.Locker {
	return f.newRival(f.client(opts...), f.name)
}

// Run runs every claim for every kind of lock. The clients have the given options. Each kind has its own redis client, as
// a user with limited rights. The tests inspect Redis through the admin client.
func Run(
	t *testing.T, admin redis.UniversalClient, rdb func(kind string) redis.UniversalClient, opts ...rlock.Option,
) {
	t.Helper()
	run(t, admin, rdb, true, func(string) bool { return true }, opts)
}

// Smoke is Run without groups, and without the claims that hold on any topology if they hold on one.
func Smoke(t *testing.T, admin redis.UniversalClient, rdb func(kind string) redis.UniversalClient, opts ...rlock.Option) {
	t.Helper()
	run(t, admin, rdb, false, func(claim string) bool { return smoke[claim] }, opts)
}

func run(
	t *testing.T, admin redis.UniversalClient, rdb func(kind string) redis.UniversalClient, groups bool, has func(claim string) bool,
	opts []rlock.Option,
) {
	t.Helper()
	// A fifth of the command timeout bounds a single attempt. On a busy machine a healthy server may need more than a second.
	opts = append([]rlock.Option{rlock.WithCommandTimeout(testkit.ALongTime)}, append(opts, rlock.WithKeyPrefix(testkit.AppPrefix))...)
	for name, kind := range testkit.Kinds {
		if kind.Groups && !groups {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range conformance {
				if !has(c.claim) {
					continue
				}
				t.Run(c.claim, func(t *testing.T) {
					if testing.Short() {
						t.Parallel()
						if long[c.claim] {
							t.Skip("takes long")
						}
					}
					if why := kind.Skips[c.claim]; why != "" {
						t.Skip(why)
					}
					c.test(&fixture{T: t, rdb: rdb(name), admin: admin, kind: kind, name: testkit.NewName(), opts: opts})
				})
			}
		})
	}
}

// noError fails the test if err is not nil, and reports whether it is nil. Unlike require.NoError, any goroutine may call it.
func noError(f *fixture, err error) bool {
	if err != nil {
		f.Errorf("unexpected error: %v", err)
	}
	return err == nil
}

func holdCount(f *fixture, ctx context.Context, lock testkit.Locker) int {
	f.Helper()
	n, err := lock.HoldCount(ctx)
	require.NoError(f, err)
	return n
}

func tryLock(f *fixture, ctx context.Context, lock testkit.Locker) bool {
	f.Helper()
	ok, err := lock.TryLock(ctx)
	require.NoError(f, err)
	return ok
}

// requireFree requires that a handle can lock, and unlocks it again. A red lock is unlocked as soon as a majority of its
// members is. The remaining members may stay locked for a moment longer.
func requireFree(f *fixture, lock testkit.Locker) {
	f.Helper()
	if testkit.Red(lock) {
		require.NoError(f, lock.Lock(f.Context(), rlock.Wait(testkit.ALongTime)))
	} else {
		require.True(f, tryLock(f, f.Context(), lock))
	}
	require.NoError(f, lock.Unlock(f.Context()))
}

func isLocked(f *fixture, lock testkit.Locker) bool {
	f.Helper()
	locked, err := lock.IsLocked(f.Context())
	require.NoError(f, err)
	return locked
}

func ttl(f *fixture, lock testkit.Locker) time.Duration {
	f.Helper()
	d, err := lock.TTL(f.Context())
	require.NoError(f, err)
	return d
}

package interop_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// oddNames lists names that a library could mishandle: in JSON, in a key, in a hash tag, in a format or in a pattern.
var oddNames = []string{
	"plain", "with space", " around ", "\t", "new\nline", "a:b:c", ":", "mode", "0", "*?[a-z]", `back\slash`, "100%s%d%",
	`"double" 'single'`, "ünïcodé", "日本語", "🔒👩‍👩‍👧", "e\u0301", "{tag}:x", "a{b}c", "a{b}c{d}", "a{b", "a}b", "}{", "{}", "{", "}",
	strings.Repeat("long ", 205), "{" + strings.Repeat("é", 512) + "}",
}

// suffixed applies Redisson's rule for keys that begin with the name of the lock.
func suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// namedKind is a kind of lock with its traces in Redis. In the keys, H stands for the holder.
type namedKind struct {
	kind, rival string // the Java kinds of the held lock and of the waiter's
	held        func(name string) []string
	queue       func(name string) []string // additional keys while an owner waits
	channel     func(name string) string
	message     string
}

var namedKinds = []namedKind{
	{"lock", "lock", onlyItself, noKeys, lockChannel, "0"},
	{"fair", "fair", onlyItself, fairKeys, lockChannel, "0"},
	{"read", "write", readKeys, noKeys, rwChannel, "0"},
	{"write", "read", onlyItself, noKeys, rwChannel, "1"},
}

func noKeys(string) []string          { return nil }
func onlyItself(name string) []string { return []string{name} }
func readKeys(name string) []string   { return []string{name, suffixed(name, "H:rwlock_timeout:1")} }

func fairKeys(name string) []string {
	return []string{derived("redisson_lock_queue", name), derived("redisson_lock_timeout", name)}
}

// holderID matches the holder in a key, in both languages.
var holderID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+`)

// requireKeys requires that a server has exactly these keys.
func requireKeys(t *testing.T, rdb *redis.Client, want []string) {
	t.Helper()
	got := keysOf(t, rdb)
	for i := range got {
		got[i] = holderID.ReplaceAllString(got[i], "H")
	}
	require.ElementsMatch(t, want, got)
}

// excludes lets one hand hold a lock while the other waits for it. The name is the one in Redis.
func (k namedKind) excludes(t *testing.T, rdb *redis.Client, name string, holder, waiter hand) {
	t.Helper()
	messages := rdb.PSubscribe(t.Context(), "*")
	defer func() { _ = messages.Close() }()
	_, err := messages.Receive(t.Context())
	require.NoError(t, err)

	holder.lock(t)
	requireKeys(t, rdb, k.held(name))
	waiter.refused(t, "another owner holds the lock")
	requireKeys(t, rdb, k.held(name))
	asked, channel := waiter.ask(), k.channel(name)
	if k.kind == "fair" {
		queued(t, rdb, name, 1)
		channel += ":" + rdb.LIndex(t.Context(), derived("redisson_lock_queue", name), 0).Val()
	}
	subscribed(t, rdb, channel, 1)
	requireKeys(t, rdb, append(k.held(name), k.queue(name)...))

	holder.release(t)
	waiter.granted(t, asked)
	message := within(t, "the release is announced", messages.Channel())
	require.Equal(t, channel, message.Channel)
	require.Equal(t, k.message, message.Payload)
	waiter.release(t)
	requireKeys(t, rdb, nil)
}

// onNames runs a test for every kind, with a holder of either language and a waiter of the other.
func onNames(t *testing.T, test func(t *testing.T, h *namesHarness)) {
	t.Helper()
	onMappedNames(t, "", test)
}

// onMappedNames is onNames with a Redisson whose nameMapper puts a prefix before each name. An empty one means no nameMapper.
func onMappedNames(t *testing.T, prefix string, test func(t *testing.T, h *namesHarness)) {
	t.Helper()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for _, k := range namedKinds {
			for _, holder := range []string{"Go", "Java"} {
				t.Run(k.kind+", "+holder+" holds", func(t *testing.T) {
					t.Parallel()
					server := redistest.Start(t)
					watchdog := watchdogOf(v)
					if k.message == "1" || k.kind == "fair" && !mapsQueues(v) { // no release wakes a waiter that stands in another queue
						watchdog = 3 * time.Second
					}
					set := settings{Watchdog: watchdog}
					if prefix != "" {
						set.More = map[string]any{"nameMapper": prefix}
					}
					java := sharedJVM(t, v).open(t, set, server.Addr)
					test(t, &namesHarness{k, v, watchdog, server.Client(t), java, holder == "Java"})
				})
			}
		}
	})
}

type namesHarness struct {
	namedKind
	version   version
	watchdog  time.Duration
	rdb       *redis.Client
	java      *redissonClient
	javaHolds bool
}

func (h *namesHarness) open(t *testing.T, opts ...rlock.Option) *rlock.Client {
	t.Helper()
	return newClient(t, h.rdb, append(opts, rlock.WithWatchdogTimeout(h.watchdog))...)
}

// hands returns those that hold a lock and wait for it, given its name in each language.
func (h *namesHarness) hands(t *testing.T, client *rlock.Client, nameInGo, nameInJava string) (holder, waiter hand) {
	t.Helper()
	inGo := func(kind string) hand { return goHand(t.Context(), kindNamed(kind).newLock(client, nameInGo)) }
	inJava := func(kind string) hand { return javaHand(h.java.thread(1).lock(kind, nameInJava)) }
	if h.javaHolds {
		return inJava(h.kind), inGo(h.rival)
	}
	return inGo(h.kind), inJava(h.rival)
}

// test checks that the languages exclude each other from one lock, whose name in Go may not be that in Java and in Redis.
func (h *namesHarness) test(t *testing.T, client *rlock.Client, nameInGo, name string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the name was %q", name)
		}
	}()
	holder, waiter := h.hands(t, client, nameInGo, name)
	h.excludes(t, h.rdb, name, holder, waiter)
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	onNames(t, func(t *testing.T, h *namesHarness) {
		t.Helper()
		client := h.open(t)
		for _, name := range oddNames {
			h.test(t, client, name, name)
		}
	})
}

// TestMappedNames checks that the name in Java is the one that results from a prefix in Go.
func TestMappedNames(t *testing.T) {
	t.Parallel()
	onNames(t, func(t *testing.T, h *namesHarness) {
		t.Helper()
		h.test(t, h.open(t, rlock.WithKeyPrefix("app:")), "x", "app:x")
		h.test(t, h.open(t), "{app}:x", "{app}:x")
	})
}

// mapsQueues reports whether Redisson applies its nameMapper to the queue of a fair lock: redisson/redisson#6759.
func mapsQueues(v version) bool { return v.atLeast(3, 52) }

// TestANameMapperInBothLanguages has both map the name. A Redisson that does not map the name of a fair lock's queue has a queue of
// its own: the languages exclude each other, but no release of one side wakes the other.
func TestANameMapperInBothLanguages(t *testing.T) {
	t.Parallel()
	onMappedNames(t, "app:", func(t *testing.T, h *namesHarness) {
		t.Helper()
		holder, waiter := h.hands(t, h.open(t, rlock.WithKeyPrefix("app:")), "x", "x")
		if h.kind != "fair" || mapsQueues(h.version) {
			h.excludes(t, h.rdb, "app:x", holder, waiter)
			return
		}
		queue := "x"
		if h.javaHolds {
			queue = "app:x"
		}
		holder.lock(t)
		waiter.refused(t, "another owner holds the lock")
		asked := waiter.ask()
		queued(t, h.rdb, queue, 1)
		requireKeys(t, h.rdb, append(fairKeys(queue), "app:x"))
		holder.release(t)
		waiter.granted(t, asked)
		waiter.release(t)
	})
}

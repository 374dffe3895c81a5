package interop_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
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
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for _, k := range namedKinds {
			for _, holder := range []string{"Go", "Java"} {
				t.Run(k.kind+", "+holder+" holds", func(t *testing.T) {
					t.Parallel()
					server := redistest.Start(t)
					watchdog := watchdogOf(v)
					if k.message == "1" { // it wakes only threads in Java that sleep already
						watchdog = 3 * time.Second
					}
					java := sharedJVM(t, v).open(t, settings{Watchdog: watchdog}, server.Addr)
					test(t, &namesHarness{k, watchdog, server.Client(t), java, holder == "Java"})
				})
			}
		}
	})
}

type namesHarness struct {
	namedKind
	watchdog  time.Duration
	rdb       *redis.Client
	java      *redissonClient
	javaHolds bool
}

func (h *namesHarness) open(t *testing.T, opts ...rlock.Option) *rlock.Client {
	t.Helper()
	return newClient(t, h.rdb, append(opts, rlock.WithWatchdogTimeout(h.watchdog))...)
}

// test checks that the languages exclude each other from one lock, whose name in Go and in Java may differ.
func (h *namesHarness) test(t *testing.T, client *rlock.Client, nameInGo, nameInJava string) {
	t.Helper()
	inGo := func(kind string) hand { return goHand(t.Context(), kindNamed(kind).newLock(client, nameInGo)) }
	inJava := func(kind string) hand { return javaHand(h.java.thread(1).lock(kind, nameInJava)) }
	defer func() {
		if t.Failed() {
			t.Logf("the name was %q", nameInJava)
		}
	}()
	if h.javaHolds {
		h.excludes(t, h.rdb, nameInJava, inJava(h.kind), inGo(h.rival))
	} else {
		h.excludes(t, h.rdb, nameInJava, inGo(h.kind), inJava(h.rival))
	}
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

// TestMappedNames checks that the name in Java is the one that results from a prefix or a name mapper in Go.
func TestMappedNames(t *testing.T) {
	t.Parallel()
	onNames(t, func(t *testing.T, h *namesHarness) {
		t.Helper()
		h.test(t, h.open(t, rlock.WithKeyPrefix("app:")), "x", "app:x")
		mapper := func(name string) string { return "{app}:" + name }
		h.test(t, h.open(t, rlock.WithNameMapper(mapper)), "x", "{app}:x")
	})
}

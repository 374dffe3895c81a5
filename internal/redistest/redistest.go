// Package redistest provides tests with Redis: embedded in the process, as standalone servers, under Sentinel or as a cluster.
// It also provides a TCP proxy that loses and delays the traffic of chosen commands.
//
// Servers run on free ports, which no other test process uses meanwhile, and are stopped by pid. Tests that need redis-server
// skip if it is missing. If RLOCK_REQUIRE_REDIS is 1 they fail instead, and if RLOCK_NO_REDIS is 1 they always skip.
// RLOCK_REDIS_SERVER names another program to run, such as an older redis-server or a valkey-server.
package redistest

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/redistest/host"
)

const embeddedTick = 2 * time.Millisecond

// Leisurely has the clock of [Embedded] be slow, rather than jump, while the machine is busy. The TestMain of a package may set it whose
// tests run scripts and nothing else that has a clock: what they expect within a second is then there within one.
var Leisurely bool

// Embedded starts a miniredis whose clock is the true time, as that of a redis-server is: it stands still while a script runs, and is
// right when one begins. So no lease ends before its time, nor late because the machine is busy. It returns a client that is closed
// with the test.
func Embedded(tb testing.TB) *redis.Client {
	tb.Helper()
	embedded := miniredis.NewMiniRedis()
	addr := start(tb, embedded)
	tb.Cleanup(embedded.Close)
	embedded.ClockTTL(true)
	var mu sync.Mutex
	last := time.Now()
	shown := last
	now := func() {
		mu.Lock()
		defer mu.Unlock() // or else a late call would set the clock back
		step := time.Since(last)
		last = last.Add(step)
		if Leisurely {
			step = min(step, 2*embeddedTick)
		}
		shown = shown.Add(step)
		embedded.SetTime(shown)
	}
	now()
	embedded.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if command == "EVAL" || command == "EVALSHA" { // others may be those of a script, which has the mutex of SetTime
			now()
		}
		return false
	})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(embeddedTick) // for commands that are no scripts
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				now()
			case <-stop:
				return
			}
		}
	}()
	tb.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return Open(tb, &redis.Options{Addr: addr})
}

// start starts a miniredis, and returns its address.
func start(tb testing.TB, embedded *miniredis.Miniredis) string {
	tb.Helper()
	if !host.Virtual {
		if err := embedded.Start(); err != nil {
			tb.Fatal(err)
		}
		return embedded.Addr()
	}
	conn, err := embedded.Dial() // which starts it without a listener
	if err != nil {
		tb.Fatal(err)
	}
	_ = conn.Close()
	listener, err := host.Listen()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			embedded.Server().ServeConn(conn)
		}
	}()
	return listener.Addr().String()
}

// Open returns a client that is closed with the test.
func Open(tb testing.TB, opt *redis.Options) *redis.Client {
	tb.Helper()
	own := *opt
	if host.Virtual && own.Dialer == nil {
		own.Dialer = host.Dial
	}
	rdb := redis.NewClient(&own)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// NeedsRealServer skips a test, or a part of it, in virtual time. The reason names what the simulation does not have.
func NeedsRealServer(tb testing.TB, reason string) {
	tb.Helper()
	if host.Virtual {
		tb.Skip(realServer + reason)
	}
}

// OnRealServersToo has a test that runs in virtual time run on real servers as well. The reason names what only these can show.
func OnRealServersToo(tb testing.TB, reason string) {
	tb.Helper()
	if host.Virtual {
		tb.Log(realServer + reason)
	}
}

// realServer begins the message by which simulation/suites knows which tests to run on real servers.
const realServer = "needs a real server: "

// Eventually waits until a condition holds, and fails the test after half a minute. Tests use it for conditions that no event
// announces. The description names the condition in the failure.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	EventuallyWithin(tb, 30*time.Second, what, condition)
}

// EventuallyWithin is Eventually with another timeout.
func EventuallyWithin(tb testing.TB, timeout time.Duration, what string, condition func() bool) {
	tb.Helper()
	deadline := time.Now().Add(timeout)
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("timed out after %v: %s", timeout, what)
		}
		timer := time.NewTimer(pause)
		<-timer.C
	}
}

func requireRedis() bool { return os.Getenv("RLOCK_REQUIRE_REDIS") == "1" }

func ping(rdb redis.UniversalClient) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return rdb.Ping(ctx).Err() == nil
}

// Package redistest gives tests real parts to work on: Redis embedded in the process, real servers that stand alone,
// under Sentinel or in a cluster, and a TCP proxy that loses and delays what passes through it.
//
// Real servers are started on free ports and stopped by pid. Where there is no redis-server the tests that need one
// skip, unless RLOCK_REQUIRE_REDIS is 1: then they fail. RLOCK_REDIS_SERVER names another program to run instead, such as an
// older redis-server or a valkey-server.
package redistest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Embedded starts a miniredis whose time passes: by itself it lets no key expire.
func Embedded(tb testing.TB) *redis.Client {
	tb.Helper()
	server := miniredis.RunT(tb)
	stop, stopped := make(chan struct{}), make(chan struct{})
	last := time.Now()
	server.SetTime(last) // from now on it never goes back: a tick may come late
	go func() {
		defer close(stopped)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				server.FastForward(now.Sub(last)) // moves what PTTL tells
				server.SetTime(now)               // moves what TIME tells
				last = now
			case <-stop:
				return
			}
		}
	}()
	tb.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return Open(tb, &redis.Options{Addr: server.Addr()})
}

// Open opens a client that is closed with the test.
func Open(tb testing.TB, opt *redis.Options) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(opt)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Eventually waits until a condition holds, and fails the test when it does not within ten seconds. It is for what no
// event announces.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	EventuallyWithin(tb, 10*time.Second, what, condition)
}

// EventuallyWithin is Eventually with another patience.
func EventuallyWithin(tb testing.TB, patience time.Duration, what string, condition func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("after %v still not: %s", patience, what)
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

// Package demo provides a Redis for the examples.
package demo

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Main runs an example until it returns. An interrupt cancels its context.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		stop()
		log.Fatal(err)
	}
}

// Redis connects to the Redis at REDIS_URL, or to one embedded in this program. It also returns a description of that
// Redis, and a function that closes everything.
func Redis() (rdb *redis.Client, where string, shutdown func(), err error) {
	if url := os.Getenv("REDIS_URL"); url != "" {
		opt, err := redis.ParseURL(url)
		if err != nil {
			return nil, "", nil, fmt.Errorf("REDIS_URL: %w", err)
		}
		rdb = redis.NewClient(opt)
		return rdb, "the Redis at " + opt.Addr, func() { _ = rdb.Close() }, nil
	}
	rdb, server, err := Embedded()
	if err != nil {
		return nil, "", nil, err
	}
	return rdb, "a Redis embedded in this program (set REDIS_URL to use your own)", func() {
		_ = rdb.Close()
		server()
	}, nil
}

// Embedded starts a Redis in this program. It returns a client for it, and a function that stops the server.
func Embedded() (rdb *redis.Client, stop func(), err error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, nil, err
	}
	// miniredis has no clock: its keys expire only when the program moves its time forward.
	tick, done := time.NewTicker(10*time.Millisecond), make(chan struct{})
	go func() {
		for last := time.Now(); ; {
			select {
			case now := <-tick.C:
				server.FastForward(now.Sub(last))
				server.SetTime(now)
				last = now
			case <-done:
				return
			}
		}
	}()
	return redis.NewClient(&redis.Options{Addr: server.Addr()}), func() {
		tick.Stop()
		close(done)
		server.Close()
	}, nil
}

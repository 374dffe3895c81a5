package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// roundTrip is that of a network between machines of a data centre, or of two.
const roundTrip = time.Millisecond

// togethers returns the scenario in which one owner takes several locks.
func togethers() scenario {
	sc := scenario{
		id: "S15", title: "Several locks as one, at a round trip of 1 ms", rounds: 3,
		only: []string{floor, "floor-rueidis", "rlock", onRueidis, "bsm/redislock", "redsync", "rueidislock-m1"},
		how: "One goroutine takes so many locks and frees them. A proxy between client and server adds 1 ms to each round trip. rlock is a " +
			"multi lock. The floor sends all raw acquires in one pipeline, and all releases in another: two round trips. The other " +
			"libraries have nothing like it: they take one lock after another.",
		head: mLatency, lowIsGood: true, columns: []string{mLatency99, mAllocs, mCommands, mScriptCPU},
	}
	for _, n := range []int{2, 10, 50} {
		c := pairOf(Cell{Together: n, RoundTrip: roundTrip})
		sc.sizes = append(sc.sizes, size{id: fmt.Sprint(n), cell: c})
	}
	return sc
}

// together returns a handle of several locks.
func together(lib Library, names []string) Handle {
	if l, ok := lib.(interface{ Together(names []string) Handle }); ok {
		return l.Together(names)
	}
	s := make(inTurn, len(names))
	for i, name := range names {
		s[i] = lib.Handle(name)
	}
	return s
}

// inTurn takes one lock after another.
type inTurn []Handle

// Lock takes them all, or fails.
func (s inTurn) Lock(ctx context.Context) error {
	for _, h := range s {
		if err := h.Lock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Unlock frees them all.
func (s inTurn) Unlock(ctx context.Context) error {
	errs := make([]error, len(s))
	for i, h := range s {
		errs[i] = h.Unlock(ctx)
	}
	return errors.Join(errs...)
}

// chunk is what a server has sent at once, and when it is due.
type chunk struct {
	bytes []byte
	due   time.Time
}

// startFar starts a proxy that delivers what a server sends later, in order, and returns its address. It lasts as long as the lab.
func startFar(ctx context.Context, tb testing.TB, server string, later time.Duration) string {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var open sync.WaitGroup
	tb.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			open.Go(func() { far(ctx, client, server, later) })
		}
	})
	return listener.Addr().String()
}

// far serves one connection until the client closes it.
func far(ctx context.Context, client net.Conn, server string, later time.Duration) {
	defer func() { _ = client.Close() }()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return // the client sees a closed connection
	}
	chunks := make(chan chunk, 1024)
	var both sync.WaitGroup
	both.Go(func() {
		defer close(chunks)
		for {
			bytes := make([]byte, 16<<10)
			n, err := to.Read(bytes)
			if err != nil {
				return
			}
			chunks <- chunk{bytes[:n], time.Now().Add(later)}
		}
	})
	both.Go(func() {
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if _, err := client.Write(c.bytes); err != nil {
				continue // the other direction ends soon
			}
		}
	})
	_, _ = io.Copy(to, client)
	_ = to.Close()
	both.Wait()
}

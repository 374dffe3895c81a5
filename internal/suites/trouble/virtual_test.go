package trouble

import (
	"context"
	"net"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest/host"
)

// mood is what a Redis in virtual time does with commands.
type mood uint8

const (
	answers mood = iota
	fails        // it is loading its data, and says so to everybody
	hangs        // it takes the commands of one client, and does nothing
)

// inBubble runs a test in virtual time, wherever it runs.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if host.Virtual { // a bubble has no other in it
		test(t)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		// A command on which Close gave up ends by itself later, and so do its retries. What still runs after a minute is a leak.
		t.Cleanup(func() { time.Sleep(time.Minute) })
		test(t)
	})
}

// virtualRedis is a Redis in memory. In a bubble of testing/synctest its clock is the bubble's.
type virtualRedis struct{ server *miniredis.Miniredis }

// newVirtualRedis starts one, which ends with the test.
func newVirtualRedis(t *testing.T) *virtualRedis {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	return &virtualRedis{server}
}

// virtualPath is the connections of one client to such a Redis.
type virtualPath struct {
	to *virtualRedis

	mu  sync.Mutex
	now mood
}

// client returns a client of its own, which ends with the test, and its connections.
func (r *virtualRedis) client(t *testing.T, opts ...rlock.Option) (*rlock.Client, *virtualPath) {
	t.Helper()
	p := &virtualPath{to: r}
	dial := func(context.Context, string, string) (net.Conn, error) {
		conn, err := r.server.Dial()
		return &virtualConn{conn, p}, err
	}
	// go-redis looks the host up, also if it does not dial. A name would be asked of the network, outside any bubble.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: dial, DisableIdentity: true, MaxRetries: -1})
	client, err := rlock.New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.set(answers)
		_ = client.Close()
		_ = rdb.Close()
	})
	return client, p
}

// set has the Redis do something else from now on.
func (p *virtualPath) set(m mood) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = m
	text := ""
	if m == fails {
		text = "LOADING Redis is loading the dataset in memory"
	}
	p.to.server.SetError(text)
}

func (p *virtualPath) is(m mood) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now == m
}

// virtualConn is a connection to a Redis that may hang.
type virtualConn struct {
	net.Conn
	path *virtualPath
}

// Write sends, or loses what a Redis that hangs would have. It loses no handshake and no subscription: go-redis waits for those while
// it holds a mutex, and a bubble has no end while somebody waits for a mutex.
func (c *virtualConn) Write(b []byte) (int, error) {
	if c.path.is(hangs) && !connects.Match(b) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

var connects = regexp.MustCompile(`(?i)^\*\d+\r\n\$\d+\r\n(hello|client|ping|s?(un)?subscribe)\r\n`)

// ending is what ends a wait.
type ending string

const (
	byWait     ending = "Wait"
	byDeadline ending = "a deadline"
	byCancel   ending = "a cancellation"
)

// wait has a call wait for so long.
func (p ending) wait(ctx context.Context, d time.Duration, call func(context.Context, ...rlock.AcquireOption) error) error {
	switch p {
	case byWait:
		return call(ctx, rlock.Wait(d))
	case byDeadline:
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return call(ctx)
	default:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(d, cancel).Stop()
		return call(ctx)
	}
}

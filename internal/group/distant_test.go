package group

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// A Redis in memory that runs the real scripts, in virtual time, and is far away.

// trip is how long a command is on its way to Redis and back.
const trip = 10 * time.Millisecond

// distant is a Redis that is a trip away. It is safe for concurrent use.
type distant struct {
	mu      sync.Mutex
	redis   *simredis.Server
	nodes   int      // of a cluster; zero means none
	sent    []string // what was sent: a pipeline is one entry
	scripts int      // how many scripts were run
	clients int
	acks    int // how many replicas acknowledge an acquisition
	// meanwhile, if it is not nil, is called before a script runs, without mu.
	meanwhile func(c *wire.Call)
}

func newDistant() *distant { return &distant{redis: simredis.New(time.Now)} }

// carryOut runs calls that arrive together.
func (d *distant) carryOut(calls []wire.Call, out []wire.Reply) {
	<-time.After(trip / 2)
	for i := range calls {
		if d.meanwhile != nil {
			d.meanwhile(&calls[i])
		}
		d.mu.Lock()
		out[i] = d.redis.Call(&calls[i])
		d.scripts++
		d.mu.Unlock()
	}
	d.mu.Lock()
	d.sent = append(d.sent, fmt.Sprintf("%d", len(calls)))
	d.mu.Unlock()
	<-time.After(trip / 2)
}

// took returns how many scripts there were since it was last called.
func (d *distant) took() (scripts int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	scripts = d.scripts
	d.sent, d.scripts = nil, 0
	return scripts
}

// keys returns the keys of the locks that are held, and of the lines that are not empty.
func (d *distant) keys(t *testing.T) (left []string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	all, ok := d.redis.Do("KEYS", "*").([]any)
	require.True(t, ok)
	for _, key := range all { // what else there is expires
		if key := fmt.Sprint(key); !strings.Contains(key, "{") || strings.HasSuffix(key, "}:waiters") {
			left = append(left, key)
		}
	}
	slices.Sort(left)
	return left
}

// link is the driver of one client of a [distant].
type link struct {
	driver.Driver

	to   *distant
	info driver.Info
}

func (l *link) Info() driver.Info { return l.info }

func (*link) Refresh() {}

func (*link) Close(context.Context) {}

// node is a node of a cluster, all of which are one server here.
type node string

func (n node) Addr() string { return string(n) }

func (l *link) Node(_ context.Context, key string) (driver.Node, *fault.Error) {
	if l.to.nodes == 0 {
		return nil, nil
	}
	return node(fmt.Sprint(int(key[len(key)-1]) % l.to.nodes)), nil
}

func (l *link) Run(_ context.Context, _ driver.Node, c wire.Call) wire.Reply {
	var out [1]wire.Reply
	l.to.carryOut([]wire.Call{c}, out[:])
	return out[0]
}

func (l *link) Pipe(_ context.Context, _ driver.Node, calls []wire.Call, _ *driver.Acks, out []wire.Reply) {
	l.to.carryOut(calls, out)
}

func (l *link) Raw(_ context.Context, _ driver.Node, cmd ...any) (any, *fault.Error) {
	<-time.After(trip)
	var args []string
	for _, arg := range cmd {
		args = append(args, fmt.Sprint(arg))
	}
	l.to.mu.Lock()
	defer l.to.mu.Unlock()
	reply := l.to.redis.Do(args...)
	if err, failed := reply.(simredis.Err); failed {
		return nil, driver.Rejected(err, string(err), false)
	}
	return reply, nil
}

func (l *link) Subscribe(context.Context, driver.Node, bool) driver.Subscription {
	s := &ear{to: l.to, arrives: make(chan driver.Message, 1000), closed: make(chan struct{})}
	s.sub = &simredis.Subscriber{Send: func(channel, payload string) {
		time.AfterFunc(trip/2, func() { s.arrives <- driver.Message{Sort: driver.Published, Channel: channel, Payload: payload} })
	}}
	return s
}

// ear is a subscription connection of a [link].
type ear struct {
	to      *distant
	sub     *simredis.Subscriber
	arrives chan driver.Message
	closed  chan struct{}
	once    sync.Once
}

func (s *ear) Subscribe(_ context.Context, channels ...string) *fault.Error {
	time.AfterFunc(trip/2, func() {
		s.to.mu.Lock()
		defer s.to.mu.Unlock()
		for _, channel := range channels {
			s.to.redis.Subscribe(channel, s.sub, false)
			time.AfterFunc(trip/2, func() { s.arrives <- driver.Message{Sort: driver.Subscribed, Channel: channel} })
		}
	})
	return nil
}

func (s *ear) Unsubscribe(_ context.Context, channels ...string) *fault.Error {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for _, channel := range channels {
		s.to.redis.Unsubscribe(channel, s.sub, false)
		s.arrives <- driver.Message{Sort: driver.Unsubscribed, Channel: channel}
	}
	return nil
}

func (s *ear) Ping(context.Context) *fault.Error {
	s.arrives <- driver.Message{}
	return nil
}

func (s *ear) Receive(ctx context.Context) (driver.Message, *fault.Error) {
	select {
	case m := <-s.arrives:
		return m, nil
	case <-s.closed:
		return driver.Message{}, &fault.Error{Err: driver.ErrSubscriptionClosed}
	case <-ctx.Done():
		return driver.Message{}, &fault.Error{Err: ctx.Err()}
	}
}

func (s *ear) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.to.mu.Lock()
		defer s.to.mu.Unlock()
		s.to.redis.Drop(s.sub)
	})
	return nil
}

// newLinked returns a client of this Redis, with the root's defaults. It has sent a command already.
func (d *distant) newLinked(t *testing.T, info driver.Info) *client.Client {
	t.Helper()
	d.clients++
	info.Bounded, info.Cluster = true, d.nodes > 0
	c := client.New(client.Config{
		Table: config.Config{
			ClientID:        fmt.Sprintf("00000000-0000-4000-8000-%012d", d.clients),
			WatchdogTimeout: leaseTime, CommandTimeout: commandTimeout, PollInterval: 5 * time.Second, FairWait: 5 * time.Minute,
			BatchSize: 100, HandOvers: 32, HandOverTime: time.Second, StandBack: 2 * time.Millisecond, Crowd: 6,
		},
		Acks: d.acks, AckTimeout: time.Second, Logger: slog.Default,
	}, &link{to: d, info: info})
	t.Cleanup(c.Close)
	for _, key := range []string{"0", "1", "2"} { // of each node
		warm := newLined(c, key)
		h, err := warm.Take(t.Context(), single)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
	d.took()
	return c
}

// pooled is what a driver with a usual pool knows of itself.
var pooled = driver.Info{Slots: 15, Batches: 4}

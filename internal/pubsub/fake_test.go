package pubsub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/task"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	// go-redis's pool tries a dead server once a second, and only then sees that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// quiet drops the log lines of go-redis about connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// fakeNode is a node of a fake cluster.
type fakeNode string

func (n fakeNode) Addr() string { return string(n) }

// fakeDriver is a driver whose subscriptions confirm every channel at once, unless a test says otherwise.
type fakeDriver struct {
	driver.Driver // the methods that a hub never calls

	info driver.Info

	mu            sync.Mutex
	home          driver.Node  // the node that has every key
	replica       driver.Node  // the node that is a replica
	hidden        *fault.Error // of ROLE
	roles         int          // ROLE
	refreshed     int
	subscriptions []*fakeSubscription
	refuses       func(channel string) *fault.Error
	fails         *fault.Error  // of Subscribe
	delay         time.Duration // of Subscribe
	unreachable   *fault.Error  // of Node
	placed        int           // calls of Node
	silent        bool          // whether new subscriptions are
	over          int           // how many of the next subscriptions have ended when they begin
}

func (d *fakeDriver) Info() driver.Info { return d.info }

func (d *fakeDriver) Refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refreshed++
}

func (*fakeDriver) Close(context.Context) {}

func (d *fakeDriver) Node(context.Context, string) (driver.Node, *fault.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.placed++
	return d.home, d.unreachable
}

func (d *fakeDriver) Raw(_ context.Context, at driver.Node, _ ...any) (any, *fault.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.roles++
	if at == d.replica {
		return []any{"slave"}, d.hidden
	}
	return []any{"master"}, d.hidden
}

func (d *fakeDriver) Subscribe(_ context.Context, at driver.Node, sharded bool) driver.Subscription {
	s := &fakeSubscription{
		driver: d, node: at, sharded: sharded, arrives: make(chan arrival, 1000), closed: make(chan struct{}),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.silent = d.silent
	if d.over > 0 {
		d.over--
		_ = s.Close()
	}
	d.subscriptions = append(d.subscriptions, s)
	return s
}

// set changes the driver's state.
func (d *fakeDriver) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// latest returns the subscription that was opened last, of how many.
func (d *fakeDriver) latest() (s *fakeSubscription, of int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.subscriptions); n > 0 {
		return d.subscriptions[n-1], n
	}
	return nil, 0
}

type arrival struct {
	message driver.Message
	err     *fault.Error
}

// fakeSubscription is a subscription connection. Its mutex is the driver's.
type fakeSubscription struct {
	driver  *fakeDriver
	node    driver.Node
	sharded bool
	arrives chan arrival
	once    sync.Once
	closed  chan struct{}

	silent   bool // whether nothing arrives any more
	commands []string
}

func (s *fakeSubscription) Subscribe(_ context.Context, channels ...string) *fault.Error {
	var delay time.Duration
	s.driver.set(func() { delay = s.driver.delay })
	time.Sleep(delay)
	if s.sharded {
		for _, channel := range channels {
			if err := s.subscribe(channel); err != nil {
				return err
			}
		}
		return nil
	}
	return s.subscribe(channels...)
}

func (s *fakeSubscription) subscribe(channels ...string) *fault.Error {
	if len(channels) == 0 {
		return nil
	}
	d := s.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(channels)
	s.commands = append(s.commands, "+"+strings.Join(channels, ","))
	if d.fails != nil {
		return d.fails
	}
	for _, channel := range channels {
		if d.refuses == nil {
			break
		}
		if err := d.refuses(channel); err != nil {
			s.push(arrival{err: err}) // Redis refuses the whole command
			return nil
		}
	}
	for _, channel := range channels {
		s.push(arrival{message: driver.Message{Sort: driver.Subscribed, Channel: channel}})
	}
	return nil
}

func (s *fakeSubscription) Unsubscribe(_ context.Context, channels ...string) *fault.Error {
	d := s.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, channel := range channels {
		s.commands = append(s.commands, "-"+channel)
		if d.refuses != nil {
			if err := d.refuses(channel); err != nil && err.Transient { // it refuses the whole command
				s.push(arrival{err: err})
				return nil
			}
		}
		s.push(arrival{message: driver.Message{Sort: driver.Unsubscribed, Channel: channel}})
	}
	return nil
}

func (s *fakeSubscription) Ping(context.Context) *fault.Error {
	d := s.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	s.commands = append(s.commands, "ping")
	s.push(arrival{})
	return nil
}

func (s *fakeSubscription) Receive(ctx context.Context) (driver.Message, *fault.Error) {
	select {
	case a := <-s.arrives:
		return a.message, a.err
	case <-s.closed:
		return driver.Message{}, &fault.Error{Err: driver.ErrSubscriptionClosed}
	case <-ctx.Done():
		return driver.Message{}, &fault.Error{Err: ctx.Err()}
	}
}

func (s *fakeSubscription) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// push has something arrive. The driver's mutex must be held.
func (s *fakeSubscription) push(a arrival) {
	if !s.silent {
		s.arrives <- a
	}
}

// receives has a message arrive, or an error, and waits until the hub has taken it in. A published message says that a lock
// is free.
func (s *fakeSubscription) receives(sort driver.MessageSort, channel string, err *fault.Error) {
	m := driver.Message{Sort: sort, Channel: channel}
	if sort == driver.Published {
		m.Payload = "0"
	}
	s.driver.set(func() { s.push(arrival{m, err}) })
	synctest.Wait()
}

// published has messages arrive on a channel, and waits until the hub has taken them in.
func (s *fakeSubscription) published(channel string, payloads ...string) {
	s.driver.set(func() {
		for _, payload := range payloads {
			s.push(arrival{message: driver.Message{Sort: driver.Published, Channel: channel, Payload: payload}})
		}
	})
	synctest.Wait()
}

// sent returns the commands that were sent, and forgets them.
func (s *fakeSubscription) sent() []string {
	s.driver.mu.Lock()
	defer s.driver.mu.Unlock()
	commands := s.commands
	s.commands = nil
	return commands
}

func (s *fakeSubscription) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// fixture is a hub on a fake driver, in virtual time.
type fixture struct {
	*testing.T

	hub    *Hub
	driver *fakeDriver
	tasks  *task.Group
	mu     sync.Mutex
	calls  []string // "channel payload" of OnMessage, "channel" of OnFreed, "channel is unwatched" of OnUnwatched, and so on
}

const clientID = "00000000-0000-4000-8000-000000000001"

// run runs a test in virtual time with a hub, which it stops afterwards.
func run(t *testing.T, info driver.Info, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{info: info}
		f := &fixture{T: t, driver: d, tasks: task.New()}
		f.hub = New(Config{
			ClientID: clientID,
			OnLost:   func(error) {}, OnReplaced: func() {},
			OnMessage: func(channel, payload string, at clock.Instant) {
				require.Equal(t, clock.Now(), at)
				f.called(channel + " " + payload)
			},
			OnFreed:     func(channel string) { f.called(channel) },
			OnUnwatched: func(channel string) { f.called(channel + " is unwatched") },
		}, d, f.tasks)
		defer func() {
			f.close()
			f.tasks.Wait(t.Context())
			f.hub.Stop(t.Context())
			f.tasks.Stop(t.Context())
		}()
		test(f)
	})
}

// called notes a call of OnMessage or OnFreed. These may call the hub.
func (f *fixture) called(what string) {
	f.hub.Epoch(what)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
}

// heard returns the calls of OnMessage and OnFreed, and forgets them.
func (f *fixture) heard() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// watch watches "base", and waits until nothing more happens at this moment.
func (f *fixture) watch() {
	f.hub.Watch("base", "base:twin")
	synctest.Wait()
}

// watches is watch, and forgets what that sent and heard. It returns the subscription.
func (f *fixture) watches() *fakeSubscription {
	f.watch()
	s, _ := f.driver.latest()
	s.sent()
	f.heard()
	return s
}

func (f *fixture) unwatch() { f.hub.Unwatch("base", "base:twin") }

// close closes the client.
func (f *fixture) close() {
	if !f.tasks.IsClosed() {
		f.tasks.Close()
	}
}

// listen adds a listener, and waits until nothing more happens at this moment.
func (f *fixture) listen(channel string) (wake chan struct{}) {
	f.Helper()
	wake = make(chan struct{}, 1)
	f.hub.Listen(channel, wake, 0)
	synctest.Wait()
	return wake
}

// after lets time pass.
func (f *fixture) after(d time.Duration) {
	f.Helper()
	time.Sleep(d)
	synctest.Wait()
	f.planned()
}

// confirmed requires a channel to be subscribed, or not.
func (f *fixture) confirmed(want bool, channel string) {
	f.Helper()
	_, subscribed := f.hub.Received(channel)
	require.Equal(f, want, subscribed)
}

// woken reports whether a wake has a token, and takes it.
func woken(wake chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func rejected(code string, stale bool) *fault.Error {
	return &fault.Error{Fate: fault.Rejected, Code: code, Stale: stale, Err: errors.New(code + " says the server")}
}

func network() *fault.Error {
	return &fault.Error{Fate: fault.InDoubt, Transient: true, Stale: true, Err: errors.New("connection reset")}
}

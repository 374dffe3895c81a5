package testkit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// AwaitSubscriber waits until Redis has a subscriber of the lock's channel.
func (f *Faulty) AwaitSubscriber() {
	f.Helper()
	channel := Channel(f.Lock)
	Eventually(f, "the waiter is subscribed", func() bool {
		return f.Direct.PubSubNumSub(f.Context(), channel).Val()[channel] == 1
	})
}

// Faulty is a lock whose commands pass through a proxy, with the server behind that proxy.
type Faulty struct {
	*testing.T
	Server *redistest.Server
	Proxy  *redistest.Proxy
	Direct *redis.Client // bypasses the proxy
	Client *rlock.Client
	Lock   *rlock.Lock
	Other  *rlock.Lock // of another client, which bypasses the proxy
	log    *Recorder
}

// NewFaulty loads the scripts into Redis, so that each fault hits the intended command.
func NewFaulty(t *testing.T, opt *redis.Options, opts ...rlock.Option) *Faulty {
	t.Helper()
	f := &Faulty{T: t, Server: redistest.Start(t)}
	f.Proxy = redistest.NewProxy(t, f.Server.Addr)
	f.Direct = f.Server.Client(t)
	for _, source := range Sources() {
		require.NoError(t, f.Direct.ScriptLoad(t.Context(), source).Err())
	}
	own := redis.Options{} // a copy, because parallel tests may share opt
	if opt != nil {
		own = *opt
	}
	own.Addr = f.Proxy.Addr
	logger, log := Recording()
	f.log = log
	f.Client = NewClient(t, redistest.Open(t, &own), append([]rlock.Option{logger}, opts...)...)
	name := NewName()
	f.Lock = f.Client.NewLock(name)
	f.Other = NewClient(t, f.Direct).NewLock(name)
	return f
}

// Free checks that the lock has no holder.
func (f *Faulty) Free(msg string) {
	f.Helper()
	require.Empty(f, Holders(f, f.Direct, f.Lock.Name()), msg)
}

// Count returns the count of the only holder in Redis, or "0" if there is none.
func (f *Faulty) Count() string {
	f.Helper()
	fields := Holders(f, f.Direct, f.Lock.Name())
	require.LessOrEqual(f, len(fields), 1)
	for _, count := range fields {
		return count
	}
	return "0"
}

// Lossy lists the ways to lose a reply: the connection breaks, or it stays open and silent.
var Lossy = map[string]func(*redistest.Proxy, int, func(redistest.Command) bool) *redistest.Fault{
	"broken": (*redistest.Proxy).DropReply,
	"silent": (*redistest.Proxy).SwallowReply,
}

// Quick makes go-redis give up on a silent connection soon. MaxRetries keeps its default of 3, so that go-redis would send a
// command again if rlock let it.
func Quick() *redis.Options { return &redis.Options{ReadTimeout: time.Second} }

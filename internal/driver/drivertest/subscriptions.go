package drivertest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
)

// next returns what a subscription receives next.
func next(t *testing.T, s driver.Subscription) driver.Message {
	t.Helper()
	m, err := s.Receive(t.Context())
	require.Nil(t, err)
	return m
}

func subscription(t *testing.T, open OpenAlone) {
	d, do := open(t)
	ctx := t.Context()
	s := d.Subscribe(ctx, nil, false)
	require.Nil(t, s.Subscribe(ctx, "a"))
	require.Nil(t, s.Subscribe(ctx))
	require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "a"}, next(t, s))
	require.NoError(t, do("publish", "a", "0"))
	require.Equal(t, driver.Message{Sort: driver.Published, Channel: "a", Payload: "0"}, next(t, s))
	require.Nil(t, s.Ping(ctx))
	require.Equal(t, driver.Message{}, next(t, s))
	require.Nil(t, s.Unsubscribe(ctx))
	require.Nil(t, s.Unsubscribe(ctx, "a"))
	require.Equal(t, driver.Message{Sort: driver.Unsubscribed, Channel: "a"}, next(t, s))
	require.Nil(t, s.Subscribe(ctx, "b", "c"))
	require.ElementsMatch(t, []string{"b", "c"}, []string{next(t, s).Channel, next(t, s).Channel})
	require.NoError(t, s.Close())
	_, err := s.Receive(ctx)
	require.True(t, isClosed(err), err)
}

// brokenSubscription breaks a subscription's connection: Receive says so once, then connects again, subscribes all channels, and
// confirms them again.
func brokenSubscription(t *testing.T, open Open) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	d := open(t, Server{Addr: proxy.Addr}, driver.Config{CommandTimeout: commandTimeout})
	s := d.Subscribe(t.Context(), nil, false)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(t.Context(), "a", "b", "c"))
	confirmed := func() (channels []string) {
		for range cap(channels) + 3 {
			m := next(t, s)
			require.Equal(t, driver.Subscribed, m.Sort)
			channels = append(channels, m.Channel)
		}
		slices.Sort(channels)
		return channels
	}
	require.Equal(t, []string{"a", "b", "c"}, confirmed())
	require.Nil(t, s.Unsubscribe(t.Context(), "b"))
	require.Equal(t, driver.Unsubscribed, next(t, s).Sort)
	require.Equal(t, map[string]int64{"b": 0}, server.Client(t).PubSubNumSub(t.Context(), "b").Val(), "Redis does not count it any more")
	require.Nil(t, s.Subscribe(t.Context(), "d"))
	require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "d"}, next(t, s))
	proxy.CloseAll()
	_, err := s.Receive(t.Context())
	require.NotNil(t, err)
	require.True(t, err.Stale)
	require.Equal(t, []string{"a", "c", "d"}, confirmed())
	require.NoError(t, server.Client(t).Publish(t.Context(), "d", "0").Err())
	require.Equal(t, driver.Message{Sort: driver.Published, Channel: "d", Payload: "0"}, next(t, s))
}

// refusedSubscription subscribes as a user who may listen to some channels only.
func refusedSubscription(t *testing.T, open Open) {
	server := redistest.Start(t)
	admin := server.Client(t)
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", "default", "resetchannels", "&ok:*").Err())
	d := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout})
	s := d.Subscribe(t.Context(), nil, false)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(t.Context(), "ok:1"))
	require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "ok:1"}, next(t, s))
	require.Nil(t, s.Subscribe(t.Context(), "no"))
	_, err := s.Receive(t.Context())
	require.NotNil(t, err)
	require.Equal(t, "NOPERM", err.Code)
	require.Nil(t, s.Subscribe(t.Context(), "ok:2"))
	require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "ok:2"}, next(t, s))
	require.NoError(t, server.Client(t).Publish(t.Context(), "ok:1", "0").Err())
	require.Equal(t, driver.Message{Sort: driver.Published, Channel: "ok:1", Payload: "0"}, next(t, s), "the connection goes on")
}

// busySubscription subscribes several channels while the server runs a script for long. That costs one error: a message may be behind it.
func busySubscription(t *testing.T, open Open) {
	server := redistest.Start(t, "--lua-time-limit", "50")
	admin := server.Client(t)
	d := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout})
	s := d.Subscribe(t.Context(), nil, false)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(t.Context(), "a"))
	require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "a"}, next(t, s))
	ran := make(chan error, 1)
	other := server.Client(t)
	go func() { ran <- other.Eval(t.Context(), "while true do end", nil).Err() }()
	redistest.Eventually(t, "Redis is busy", func() bool { return redis.HasErrorPrefix(admin.Ping(t.Context()).Err(), "BUSY") })
	require.Nil(t, s.Subscribe(t.Context(), "b", "c", "d"))
	_, err := s.Receive(t.Context())
	require.NotNil(t, err)
	require.Equal(t, "BUSY", err.Code)
	require.True(t, err.Transient)
	require.NoError(t, admin.ScriptKill(t.Context()).Err())
	require.Error(t, <-ran)
	require.NoError(t, admin.Publish(t.Context(), "a", "0").Err())
	require.Equal(t, driver.Message{Sort: driver.Published, Channel: "a", Payload: "0"}, next(t, s), "the connection goes on")
	require.Nil(t, s.Subscribe(t.Context(), "b", "c", "d"))
	require.ElementsMatch(t, []string{"b", "c", "d"}, []string{next(t, s).Channel, next(t, s).Channel, next(t, s).Channel})
}

// busyUnsubscription gives channels up while the server runs a script for long. Redis does not count them for good.
func busyUnsubscription(t *testing.T, open Open) {
	server := redistest.Start(t, "--lua-time-limit", "50")
	admin := server.Client(t)
	d := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout})
	s := d.Subscribe(t.Context(), nil, false)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(t.Context(), "a", "b", "c"))
	for range 3 {
		require.Equal(t, driver.Subscribed, next(t, s).Sort)
	}
	ran := make(chan error, 1)
	other := server.Client(t)
	go func() { ran <- other.Eval(t.Context(), "while true do end", nil).Err() }()
	redistest.Eventually(t, "Redis is busy", func() bool { return redis.HasErrorPrefix(admin.Ping(t.Context()).Err(), "BUSY") })
	require.Nil(t, s.Unsubscribe(t.Context(), "a", "b"))
	require.Nil(t, s.Subscribe(t.Context(), "b")) // it is wanted again
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			m, err := s.Receive(t.Context())
			if m == (driver.Message{Sort: driver.Unsubscribed, Channel: "a"}) || errors.Is(err, driver.ErrSubscriptionClosed) {
				return
			}
		}
	}()
	<-time.After(300 * time.Millisecond) // Redis refuses the commands
	require.NoError(t, admin.ScriptKill(t.Context()).Err())
	require.Error(t, <-ran)
	redistest.Eventually(t, "Redis does not count it any more", func() bool {
		require.Nil(t, s.Unsubscribe(t.Context()))
		return admin.PubSubNumSub(t.Context(), "a").Val()["a"] == 0
	})
	<-gone
	require.EqualValues(t, 1, admin.PubSubNumSub(t.Context(), "b").Val()["b"])
}

// silentSubscription closes a subscription whose server is silent, while a goroutine receives.
func silentSubscription(t *testing.T, open Open) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	d := open(t, Server{Addr: proxy.Addr}, driver.Config{CommandTimeout: commandTimeout})
	s := d.Subscribe(t.Context(), nil, false)
	require.Nil(t, s.Subscribe(t.Context(), "a"))
	next(t, s)
	received := make(chan *fault.Error, 1)
	go func() {
		_, err := s.Receive(t.Context())
		received <- err
	}()
	proxy.Freeze()
	defer proxy.Thaw()
	require.NoError(t, s.Close())
	select {
	case err := <-received:
		require.NotNil(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("Close ends Receive")
	}
}

// troubledSubscription has channels come and go while the server replies errors to PING. The process survives that, and so do
// other channels.
func troubledSubscription(t *testing.T, open Open) {
	for what, trouble := range map[string]func(t *testing.T, server *redistest.Server) (ends func()){
		"BUSY": func(t *testing.T, server *redistest.Server) func() {
			t.Helper()
			over := make(chan error, 1)
			go func() { over <- server.Client(t).Eval(context.Background(), "while true do end", nil).Err() }()
			return func() {
				require.NoError(t, server.Client(t).Do(t.Context(), "script", "kill").Err())
				<-over
			}
		},
		"MISCONF": func(t *testing.T, server *redistest.Server) func() {
			t.Helper()
			admin, gone := server.Client(t), t.TempDir()
			require.NoError(t, admin.Do(t.Context(), "config", "set", "dir", gone, "save", "3600 1000000").Err())
			require.NoError(t, os.Remove(gone))
			require.NoError(t, admin.BgSave(t.Context()).Err())
			return func() { require.NoError(t, admin.ConfigSet(t.Context(), "stop-writes-on-bgsave-error", "no").Err()) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--lua-time-limit", "20", "--enable-protected-configs", "yes")
			d := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout})
			s := d.Subscribe(t.Context(), nil, false)
			defer func() { require.NoError(t, s.Close()) }()
			require.Nil(t, s.Subscribe(t.Context(), "a", "b", "c"))
			for range 3 {
				next(t, s)
			}
			ends := trouble(t, server)
			redistest.Eventually(t, "the server replies the error", func() bool {
				err := server.Client(t).Ping(t.Context()).Err()
				return err != nil && strings.HasPrefix(err.Error(), what)
			})
			for _, channel := range []string{"a", "b"} {
				require.Nil(t, s.Unsubscribe(t.Context(), channel))
				require.Nil(t, s.Ping(t.Context()))
			}
			require.Nil(t, s.Subscribe(t.Context(), "d"))
			<-time.After(1500 * time.Millisecond) // rueidis pings by itself each second, which is when it once failed
			ends()
			redistest.Eventually(t, "a new channel is confirmed", func() bool {
				_ = s.Subscribe(t.Context(), "e")
				for {
					switch m, err := s.Receive(t.Context()); {
					case err != nil:
						return false
					case m.Sort == driver.Subscribed && m.Channel == "e":
						return true
					}
				}
			})
			for {
				require.NoError(t, server.Client(t).Publish(t.Context(), "c", "0").Err())
				if m, _ := s.Receive(t.Context()); m == (driver.Message{Sort: driver.Published, Channel: "c", Payload: "0"}) {
					break
				}
			}
		})
	}
}

// unansweredSubscription subscribes on a silent connection: that does not wait for the reply.
func unansweredSubscription(t *testing.T, open Open) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	d := open(t, Server{Addr: proxy.Addr}, driver.Config{CommandTimeout: commandTimeout})
	s := d.Subscribe(t.Context(), nil, false)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(t.Context(), "a"))
	next(t, s)
	proxy.Freeze()
	defer proxy.Thaw()
	passed := redistest.Stopwatch(t)
	require.Nil(t, s.Subscribe(t.Context(), "b"))
	require.Nil(t, s.Ping(t.Context()))
	require.Nil(t, s.Unsubscribe(t.Context(), "a"))
	require.Less(t, passed(), 2*time.Second)
}

// unwantedChannels subscribes thousands of channels, one after the other, while one stays. Redis does not keep them all.
func unwantedChannels(t *testing.T, open Open) {
	server := redistest.Start(t)
	admin := server.Client(t)
	d := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout})
	s := d.Subscribe(t.Context(), nil, false)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(t.Context(), "stays"))
	for i := range 3000 {
		channel := strconv.Itoa(i)
		require.Nil(t, s.Subscribe(t.Context(), channel))
		for {
			m, err := s.Receive(t.Context())
			require.Nil(t, err)
			if m == (driver.Message{Sort: driver.Subscribed, Channel: channel}) {
				break
			}
		}
		require.Nil(t, s.Unsubscribe(t.Context(), channel))
	}
	redistest.Eventually(t, "Redis keeps only the channel that is wanted", func() bool {
		return slices.Equal(admin.PubSubChannels(t.Context(), "*").Val(), []string{"stays"})
	})
	require.NoError(t, admin.Publish(t.Context(), "stays", "0").Err())
	for {
		m, err := s.Receive(t.Context())
		require.Nil(t, err)
		if m.Sort == driver.Published {
			require.Equal(t, "stays", m.Channel)
			break
		}
	}
}

// sentinel fails a master over: calls and subscriptions follow.
func sentinel(t *testing.T, open Open) {
	trio := redistest.StartSentinel(t)
	d := open(t, Server{Sentinel: trio.Options()}, driver.Config{CommandTimeout: commandTimeout})
	require.True(t, d.Info().Sentinel)
	require.False(t, d.Info().Cluster)
	works := func() bool { return d.Run(t.Context(), nil, Inspect(NewName(), "a:1")).Err == nil }
	require.True(t, works())
	s := d.Subscribe(t.Context(), nil, false)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(t.Context(), "a"))
	next(t, s)
	trio.Master.Kill()
	for {
		m, err := s.Receive(t.Context())
		if err == nil && m.Sort == driver.Subscribed {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	redistest.EventuallyWithin(t, 30*time.Second, "calls reach the new master", works)
	rdb := redis.NewFailoverClient(trio.Options())
	defer func() { _ = rdb.Close() }()
	redistest.EventuallyWithin(t, 30*time.Second, "messages of the new master arrive", func() bool {
		n, err := rdb.Publish(t.Context(), "a", "0").Result()
		return err == nil && n > 0
	})
	require.Equal(t, driver.Message{Sort: driver.Published, Channel: "a", Payload: "0"}, next(t, s))
}

package drivertest

import (
	"slices"
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

func subscription(t *testing.T, open Open) {
	d, rdb := embedded(t, open)
	ctx := t.Context()
	s := d.Subscribe(ctx, nil, false)
	require.Nil(t, s.Subscribe(ctx, "a"))
	require.Nil(t, s.Subscribe(ctx))
	require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "a"}, next(t, s))
	require.NoError(t, rdb.Publish(ctx, "a", "0").Err())
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
// confirms them anew.
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

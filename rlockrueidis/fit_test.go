package rlockrueidis

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// wrapped is a client with another one around it, as rueidishook and rueidisotel make it.
type wrapped struct {
	rueidis.Client // so that it is one
	client         rueidis.Client
}

// TestOptionsThatBreakLocks checks that New refuses clients with such options. It fails if rueidis has renamed a field that New reads.
func TestOptionsThatBreakLocks(t *testing.T) {
	t.Parallel()
	_, err := New(nil)
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
	_, err = New((*wrapped)(nil))
	require.ErrorIs(t, err, rlock.ErrInvalidOption)

	single := rueidis.ClientOption{InitAddress: []string{redistest.Embedded(t).Options().Addr}}
	trio := redistest.StartSentinel(t)
	sentinel := rueidis.ClientOption{
		InitAddress: trio.Options().SentinelAddrs, Sentinel: rueidis.SentinelOption{MasterSet: trio.Options().MasterName},
	}
	cluster := rueidis.ClientOption{InitAddress: redistest.StartCluster(t).Options().Addrs}
	scattered := single
	scattered.InitAddress = []string{trio.Master.Addr}
	scattered.Standalone.ReplicaAddress = []string{trio.Master.Addr}
	scattered.SendToReplicas = func(rueidis.Completed) bool { return false }
	for name, opt := range map[string]rueidis.ClientOption{"single": single, "Sentinel": sentinel, "cluster": cluster, "a master with replicas": scattered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks, err := New(client(t, opt))
			require.NoError(t, err)
			require.NoError(t, locks.Close())
			for field, change := range map[string]func(*rueidis.ClientOption){
				"ConnLifetime":          func(o *rueidis.ClientOption) { o.ConnLifetime = time.Hour },
				"BlockingPoolCleanup":   func(o *rueidis.ClientOption) { o.BlockingPoolCleanup = time.Hour },
				"DisableAutoPipelining": func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
				"AlwaysRESP2":           func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true },
				"BlockingPoolSize":      func(o *rueidis.ClientOption) { o.BlockingPoolSize = 3 },
			} {
				bad := opt
				change(&bad)
				refused := client(t, bad)
				for _, c := range []rueidis.Client{refused, wrapped{Client: refused, client: wrapped{Client: refused, client: refused}}} {
					_, err := New(c)
					require.ErrorIs(t, err, rlock.ErrInvalidOption, field)
					require.ErrorContains(t, err, field)
				}
			}
			opt.ReplicaOnly = true
			if name == "Sentinel" || name == "cluster" { // rueidis itself refuses it elsewhere
				_, err = New(client(t, opt))
				require.ErrorIs(t, err, rlock.ErrInvalidOption)
				require.ErrorContains(t, err, "ReplicaOnly")
			}
		})
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	locks, err := New(client(t, rueidis.ClientOption{InitAddress: []string{rdb.Options().Addr}}))
	require.NoError(t, err)
	defer func() { require.NoError(t, locks.Close()) }()
	lock := locks.NewLock("invoice:7")
	require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
		require.EqualValues(t, 1, rdb.Exists(ctx, "invoice:7").Val())
		return nil
	}))
	require.Zero(t, rdb.Exists(t.Context(), "invoice:7").Val())
	_, err = New(client(t, rueidis.ClientOption{InitAddress: []string{rdb.Options().Addr}}), rlock.WithWatchdogTimeout(-1))
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
}

package transport

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestAllThatWereOnlineWithinASecond acknowledge a call, and the master is asked for their number once in that time.
func TestAllThatWereOnlineWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, waited := 0, 0
		said := "role:master\r\n"
		d := &stub{info: driver.Info{Bounded: true}, pipe: func(driver.Node, wire.Call) wire.Reply { return wire.Reply{N: 1} }}
		d.said = func() string { asked++; return said }
		d.acks = func(a *driver.Acks) { waited = a.Replicas }
		conn, _ := open(t, Config{Acks: &driver.Acks{Replicas: -1, Timeout: time.Second}}, d)
		acquires := func(wants int) {
			t.Helper()
			require.Nil(t, conn.Ask(context.Background(), Question{Call: acquire("a"), Acked: true}, nil).Err)
			require.Equal(t, wants, waited)
		}
		acquires(0)
		for i := range 2 {
			said += fmt.Sprintf("slave%d:ip=a,port=1,state=online,offset=5,lag=0\r\n", i)
		}
		acquires(0)
		require.Equal(t, 1, asked)
		time.Sleep(onlineFor)
		acquires(2)
		acquires(2)
		require.Equal(t, 2, asked)
		time.Sleep(onlineFor)
		said = "# Clients\r\n"
		r := conn.Ask(context.Background(), Question{Call: acquire("a"), Acked: true}, nil)
		require.Equal(t, fault.Unreplicated, r.Err.Fate)
		require.False(t, r.Acquired())
	})
}

func TestReplicasThatAreOnline(t *testing.T) {
	t.Parallel()
	n, ok := countOnline("# Replication\r\nrole:master\r\nconnected_slaves:3\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=70,lag=1\r\n" +
		"slave1:ip=::1,port=2,state=wait_bgsave,offset=0,lag=0\r\nslave2:ip=a,port=3,state=online,offset=56,lag=9,type=x\r\n")
	require.True(t, ok)
	require.Equal(t, 2, n)
	n, ok = countOnline("role:slave\r\nmaster_host:a\r\nslave_repl_offset:7\r\nslave_priority:100\r\n")
	require.True(t, ok)
	require.Zero(t, n)
	for _, other := range []string{"ip=a,port=1,offset=70,lag=1", "ip=a,port=1,state=stable_sync,lag=0"} {
		_, ok = countOnline("role:master\r\nconnected_slaves:1\r\nslave0:" + other + "\r\nmaster_repl_offset:84\r\n")
		require.False(t, ok, "a server that is not Redis would count as one without replicas")
	}
}

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

// TestReplicasThatAreBehindARepeatedCall has a call sent again, because two replicas are connected of which it did not know. It writes nothing
// then, on another connection, so WAIT waits for nothing, as from Redis 7.2 on: that the replicas do not have the first run yet is no failure.
func TestReplicasThatAreBehindARepeatedCall(t *testing.T) {
	t.Parallel()
	for behind, acked := range map[time.Duration]bool{50 * time.Millisecond: true, time.Hour: false} {
		t.Run(fmt.Sprint(behind), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				d := &stub{info: driver.Info{Bounded: true}, pipe: func(driver.Node, wire.Call) wire.Reply { return wire.Reply{N: 1} }}
				d.said = func() string {
					offset := 6 // of both replicas
					if time.Since(start) >= behind {
						offset = 11
					}
					return fmt.Sprintf("role:master\r\nmaster_replid:a\r\nmaster_repl_offset:11\r\n"+
						"slave0:ip=a,port=1,state=online,offset=%[1]d,lag=0\r\nslave1:ip=b,port=1,state=online,offset=%[1]d,lag=0\r\n", offset)
				}
				d.acks = func(a *driver.Acks) {
					if a.Acked = a.Replicas; a.Asks {
						a.Info = d.said()
					}
				}
				conn, _ := open(t, Config{Acks: &driver.Acks{Replicas: -1, Timeout: time.Second}}, d)
				r := conn.Ask(context.Background(), Question{Call: acquire("a"), Acked: true}, nil)
				require.True(t, r.Acquired())
				require.Len(t, d.sent(), 2)
				if acked {
					require.Nil(t, r.Err)
					require.Equal(t, behind, time.Since(start))
				} else {
					require.Equal(t, fault.Unreplicated, r.Err.Fate)
					require.Contains(t, r.Err.Error(), "0 of 2 replicas")
					require.Equal(t, time.Second, time.Since(start))
				}
			})
		})
	}
}

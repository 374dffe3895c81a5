package simnet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/fault"
)

// TestConnectionsHang has connections hang in one direction: when a command is carried out, and when its caller hears of that.
func TestConnectionsHang(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for what, c := range map[string]struct {
		clog     Clog
		lasts    time.Duration
		executed int           // after a second
		took     time.Duration // until the caller hears of it
	}{
		"requests":          {Clog{Requests: 1}, 2 * s, 0, 2 * s},
		"replies":           {Clog{Replies: 1}, 2 * s, 1, 2 * s},
		"messages":          {Clog{Messages: true}, 2 * s, 1, 0},
		"requests for long": {Clog{Requests: 1}, 2 * timeout, 0, timeout},
		"replies for long":  {Clog{Replies: 1}, 2 * timeout, 1, timeout},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, l, d := open(Faults{Latency: time.Millisecond})
				require.Nil(t, d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1")).Err, "the server knows the script now")
				l.Clog(c.lasts, c.clog)
				require.False(t, l.Healthy())
				before, began := server.Commands(), time.Now()
				time.AfterFunc(s, func() { require.Equal(t, c.executed, server.Commands()-before) })
				r := d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1"))
				require.InDelta(t, c.took, time.Since(began), float64(10*time.Millisecond))
				if c.took == timeout {
					require.Equal(t, fault.InDoubt, r.Err.Fate)
				} else {
					require.Nil(t, r.Err)
				}
				time.Sleep(3 * timeout)
				require.Equal(t, 1, server.Commands()-before)
				require.True(t, l.Healthy())
			})
		})
	}
}

// TestSomeConnectionsHang: what is sent on the others overtakes what hangs.
func TestSomeConnectionsHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, l, d := open(Faults{Latency: time.Millisecond})
		require.Nil(t, d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1")).Err)
		l.Clog(time.Hour, Clog{Requests: 0.2, Replies: 0.3})
		passed := 0
		for range 200 {
			if d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1")).Err == nil {
				passed++
			}
		}
		require.InDelta(t, 100, passed, 30)
	})
}

// TestMessagesHang checks that messages which are published while connections hang arrive after that.
func TestMessagesHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l, sub := listen(t)
		for _, hang := range []bool{false, true} {
			l.Clog(time.Second, Clog{Replies: 1, Messages: hang})
			began, lasts := time.Now(), time.Duration(0)
			if hang {
				lasts = time.Second
			}
			s.Do("PUBLISH", "a", "x")
			m, err := sub.Receive(t.Context())
			require.Nil(t, err)
			require.Equal(t, "x", m.Payload)
			require.InDelta(t, lasts, time.Since(began), float64(30*time.Millisecond))
			time.Sleep(2 * time.Second)
		}
		require.NoError(t, sub.Close())
	})
}

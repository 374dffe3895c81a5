package simnet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/fault"
)

// TestCodeOfTheApplicationPanics has each command panic, before it was sent or after it was executed. The command is in doubt.
func TestCodeOfTheApplicationPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, d := open(Faults{Latency: time.Millisecond})
		told := 0
		d = driver.Checked(d, func(error) { told++ })
		require.Nil(t, d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1")).Err, "the server knows the script now")
		s.Set(Faults{Latency: time.Millisecond, Panic: 1})
		before := s.Commands()
		for range 40 {
			r := d.Run(t.Context(), nil, drivertest.Inspect("x", "a:1"))
			require.Equal(t, fault.InDoubt, r.Err.Fate)
		}
		require.Equal(t, 40, told)
		require.Greater(t, s.Commands(), before)
		require.Less(t, s.Commands(), before+40)
	})
}

// TestDeniedRights takes a right from the processes, which they lack after a restart, too. Nobody else lacks it.
func TestDeniedRights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l, d := open(Faults{Latency: time.Millisecond})
		s.Deny("-exists")
		for range 2 {
			_, err := d.Raw(t.Context(), nil, "EXISTS", "x")
			require.NotNil(t, err)
			require.True(t, err.Denied())
			require.Equal(t, int64(0), s.Do("EXISTS", "x"))
			_, err = d.Raw(t.Context(), nil, "GET", "x")
			require.Nil(t, err)
			s.Stop()
			s.Start(nil)
		}
		require.Equal(t, 4, l.Executed())
	})
}

// TestAMonitorCountsAsAReceiver has somebody receive what is published on all channels.
func TestAMonitorCountsAsAReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := open(Faults{})
		require.Equal(t, int64(0), s.Do("PUBLISH", "a", "x"))
		s.Monitor()
		require.Equal(t, int64(1), s.Do("PUBLISH", "a", "x"))
		require.Equal(t, []any{"a", int64(0)}, s.Do("PUBSUB", "NUMSUB", "a"))
	})
}

package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// replica has the server answer what a replica does.
func (f *fixture) replica(string, func() wire.Reply) wire.Reply {
	err := errors.New("READONLY You can't write against a read only replica.")
	return driver.Failed(driver.Rejected(err, err.Error(), false))
}

// A failover that began before the process did may take a minute. A call that waits goes on as long. After that nothing but an error
// would tell anybody that the client reaches replicas only.
func TestAClientThatReachesOnlyReplicas(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.instead(f.replica)
		late := f.async(func() error { return acquire(context.Background(), f.newLock()) })
		l := f.newLock()
		waits := f.async(func() error { return acquire(context.Background(), l) })
		f.until(55 * time.Second)
		require.ErrorIs(f, acquireWithin(f.Context(), l, time.Millisecond), fault.ErrUnavailable)
		require.False(f, waits.over(), "it may be a failover")
		for _, r := range []*result{waits, late} {
			<-r.done
			require.ErrorIs(f, r.err, fault.ErrInvalidOption)
			require.NotErrorIs(f, r.err, fault.ErrUnavailable)
			require.ErrorContains(f, r.err, "nothing but replicas")
			require.InDelta(f, time.Minute, r.at, float64(2*time.Second))
		}
		f.instead(nil)
		require.NoError(f, acquire(f.Context(), l), "it is a master now")
		require.NoError(f, l.Unlock(f.Context()))
		f.instead(f.replica)
		again := f.async(func() error { return acquireWithin(context.Background(), l, 3*time.Minute) })
		<-again.done
		require.ErrorIs(f, again.err, fault.ErrUnavailable, "a failover, however long: the client has written")
	})
}

func TestAFailoverThatBeganBeforeTheProcess(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.instead(f.replica)
		l := f.newLock()
		waits := f.async(func() error { return acquire(context.Background(), l) })
		f.until(55 * time.Second)
		f.instead(nil)
		<-waits.done
		require.NoError(f, waits.err)
		require.NoError(f, l.Unlock(f.Context()))
	})
}

// Who asks now and then may have met the end of one failover and the beginning of the next.
func TestRefusalsOfReplicasWithPausesAreNoProof(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.instead(f.replica)
		l := f.newLock()
		for range 20 {
			require.ErrorIs(f, acquireWithin(f.Context(), l, time.Millisecond), fault.ErrUnavailable)
			time.Sleep(6 * time.Second)
		}
	})
}

package figures

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestManyHoldsOutliveFailovers has one process hold many locks on a cluster, while one master steps down and another is killed.
// Nothing is lost that Redis kept. As a figure, there are 100,000 with the usual lease.
func TestManyHoldsOutliveFailovers(t *testing.T) {
	n, lease := 3000, 20*time.Second
	if os.Getenv("RLOCK_FIGURES") != "" {
		n, lease = 100_000, 30*time.Second
	}
	cluster := redistest.StartCluster(t)
	s := &fleet{T: t, cluster: cluster, lease: lease}
	rdb := cluster.Client(t)
	rdb.AddHook(&s.tally)
	s.client = testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(lease))
	s.acquire(n)
	s.round("quiet", func() {})
	s.round("a master steps down", func() { cluster.Failover(t, s.holds[0].name) })
	s.round("a master is killed", func() {
		master := cluster.MasterToKill(t, s.holds[1].name)
		replica := cluster.ReplicaOf(t, master)
		testkit.Eventually(t, "its replica has all locks", func() bool {
			return replica.Client(t).DBSize(t.Context()).Val() == master.Client(t).DBSize(t.Context()).Val()
		})
		master.Kill()
	})
	s.release()
}

// fleet is the locks that one process holds on a cluster.
type fleet struct {
	*testing.T
	cluster *redistest.Cluster
	client  *rlock.Client
	tally   testkit.Tally
	lease   time.Duration
	holds   []heldName
}

type heldName struct {
	name string
	hold *rlock.Hold
}

// each runs a function of every hold, on many goroutines.
func (s *fleet) each(do func(h *heldName) error) {
	s.Helper()
	const workers = 64
	var all sync.WaitGroup
	errs := make(chan error, workers)
	for w := range workers {
		all.Go(func() {
			for i := w; i < len(s.holds); i += workers {
				if err := do(&s.holds[i]); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	require.NoError(s, <-errs)
}

func (s *fleet) acquire(n int) {
	s.Helper()
	s.holds = make([]heldName, n)
	tag := testkit.NewName()
	for i := range s.holds {
		s.holds[i].name = fmt.Sprint(tag, ":", i)
	}
	start := time.Now()
	s.each(func(h *heldName) (err error) {
		h.hold, err = s.client.NewLock(h.name).Acquire(context.Background())
		return err
	})
	s.Logf("%d locks acquired in %v", n, time.Since(start))
}

func (s *fleet) release() {
	s.Helper()
	start := time.Now()
	s.each(func(h *heldName) error { return h.hold.Unlock(context.Background()) })
	s.Logf("released in %v", time.Since(start))
}

// round has something happen, and waits until each hold was renewed after that. It logs what the watchdog needed meanwhile, and
// checks that every lock is held, here and in Redis.
func (s *fleet) round(what string, happens func()) {
	s.Helper()
	stop, paused := make(chan struct{}), make(chan time.Duration)
	go func() { paused <- s.longestPause(stop) }()
	commands, cpu, start := s.tally.Scripts(), cpuTime(s.T), time.Now()
	happens()
	happened := time.Now()
	for i := range s.holds {
		redistest.EventuallyWithin(s, s.lease, "the hold is renewed", func() bool {
			return s.holds[i].hold.Deadline().After(happened.Add(s.lease))
		})
	}
	close(stop)
	took := time.Since(start)
	s.Logf("%s: all renewed after %v, %.0f commands/s, %.0f %% of a core, longest pause between two renewals %v", what,
		time.Since(happened).Round(time.Millisecond), float64(s.tally.Scripts()-commands)/took.Seconds(),
		100*(cpuTime(s.T)-cpu).Seconds()/took.Seconds(), (<-paused).Round(time.Millisecond))
	require.Zero(s, s.client.Stats().Losses, what)
	rdb := s.cluster.Client(s)
	s.each(func(h *heldName) error {
		if left := rdb.PTTL(context.Background(), h.name).Val(); left <= 0 || h.hold.Err() != nil {
			return fmt.Errorf("%s has %v left in Redis, and its hold ended with %v", h.name, left, h.hold.Err())
		}
		return nil
	})
}

// longestPause returns the longest time for which a hold was not renewed, until stop is closed.
func (s *fleet) longestPause(stop <-chan struct{}) (longest time.Duration) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return longest
		case <-time.After(s.lease / 1000):
		}
		for k := i % 50; k < len(s.holds); k += 50 {
			longest = max(longest, s.lease-lease.Margin(s.lease)-time.Until(s.holds[k].hold.Deadline()))
		}
	}
}

// cpuTime returns how much of the processors this process has used.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package trouble

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestRandomFaults injects random network faults while three clients use every verb of every kind of lock. No two owners may
// hold a lock at once, except readers. In the end, nothing may be left.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	direct := server.Client(t)
	proxy := redistest.NewProxy(t, server.Addr)
	var clients [3]*rlock.Client
	for i := range clients {
		rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 250 * time.Millisecond})
		clients[i] = testkit.NewClient(t, rdb, rlock.WithLogger(slog.New(slog.DiscardHandler)), rlock.WithCommandTimeout(300*time.Millisecond),
			rlock.WithWatchdogTimeout(600*time.Millisecond), tune.PollInterval(200*time.Millisecond))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	locks := []*contested{
		{kind: "lock"},
		{kind: "fair"},
		{kind: "fenced"},
		{kind: "spin"},
		{kind: "read"},
		{kind: "multi"},
		{kind: "red"},
		{kind: "fenced fair"},
		{kind: "fenced write"},
	}
	for _, c := range locks {
		c.name = testkit.NewName()
	}
	stop := time.Now().Add(6 * time.Second)
	var wg sync.WaitGroup
	wg.Go(func() {
		random := rand.New(rand.NewPCG(seed, 0))
		all := func(redistest.Command) bool { return true }
		for time.Now().Before(stop) {
			<-time.After(time.Duration(random.IntN(60)) * time.Millisecond)
			switch random.IntN(6) {
			case 0:
				proxy.DropReply(1, all)
			case 1:
				proxy.SwallowReply(1, all)
			case 2:
				time.AfterFunc(time.Duration(random.IntN(700))*time.Millisecond, proxy.HoldReply(1, all).Release)
			case 3:
				time.AfterFunc(time.Duration(random.IntN(1500))*time.Millisecond, proxy.HoldRequest(1, all).Release)
			case 4:
				if random.IntN(4) == 0 {
					proxy.CloseAll()
				}
			case 5:
				if random.IntN(4) == 0 {
					_ = direct.ScriptFlush(context.Background()).Err()
				}
			}
		}
	})
	var acquired atomic.Int32
	for i := range 36 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i+1)))
			for time.Now().Before(stop) {
				c := locks[random.IntN(len(locks))]
				newLock := testkit.Kinds[c.kind].Make
				if testkit.Kinds[c.kind].Rival != nil && random.IntN(2) == 0 {
					newLock = testkit.Kinds[c.kind].Rival
				}
				lock := newLock(clients[i%3], c.name)
				if oneTurn(t, random, lock, c) {
					acquired.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, acquired.Load())
	t.Logf("%d acquisitions", acquired.Load())
	for _, client := range clients {
		testkit.Eventually(t, "nothing is left in the clients", func() bool { return testkit.Remains(client) == 0 })
	}
	for _, c := range locks {
		lock := testkit.Kinds[c.kind].Make(clients[0], c.name)
		testkit.Eventually(t, "nothing is left in Redis of the lock of kind "+c.kind, func() bool { return !testkit.LeftIn(t, direct, testkit.Keys(lock)) })
	}
}

// contested is a lock and the holds that may be valid at the moment.
type contested struct {
	kind, name    string
	holders       sync.Map     // from *rlock.Hold to its entrance
	begun, forced atomic.Int64 // unlocks by force that have begun, and that are over
}

// entrance is what is known of a hold that may be valid.
type entrance struct {
	reads  bool
	forces int64 // unlocks by force that were over when its acquisition began, or -1 if one was under way
}

// entrance returns that of an acquisition that begins now.
func (c *contested) entrance(reads bool) entrance {
	forces := c.forced.Load()
	if c.begun.Load() != forces {
		forces = -1
	}
	return entrance{reads, forces}
}

// force frees the lock by force. Its holders learn of that later, and others may have it meanwhile.
func (c *contested) force(lock *rlock.Lock) {
	c.begun.Add(1)
	_, _ = lock.ForceUnlock(context.Background())
	c.forced.Add(1)
}

// enters records a hold, and fails the test if another valid hold excludes it.
func (c *contested) enters(t *testing.T, hold *rlock.Hold, mine entrance) {
	t.Helper()
	c.holders.Store(hold, mine)
	c.holders.Range(func(other, of any) bool {
		theirs := of.(entrance)
		excludes := other != hold && (!mine.reads || !theirs.reads) && other.(*rlock.Hold).Err() == nil && hold.Err() == nil
		if excludes && mine.forces == theirs.forces && mine.forces == c.begun.Load() {
			t.Errorf("two owners hold the %s lock %s", c.kind, c.name)
		}
		return true
	})
}

// oneTurn acquires a lock, re-enters it and unlocks it, all in random ways. It reports whether it acquired the lock.
func oneTurn(t *testing.T, random *rand.Rand, lock testkit.Locker, c *contested) bool {
	t.Helper()
	reads := false
	if single, ok := lock.(*rlock.Lock); ok {
		reads = testkit.Reads(single)
	}
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if random.IntN(2) == 0 {
		ctx = rlock.WithOwner(ctx)
	}
	if random.IntN(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+random.IntN(400))*time.Millisecond)
	}
	defer cancel()
	var opts []rlock.AcquireOption
	if random.IntN(3) == 0 {
		opts = append(opts, rlock.Lease(time.Duration(50+random.IntN(300))*time.Millisecond))
	}
	if random.IntN(2) == 0 {
		opts = append(opts, rlock.Wait(time.Duration(random.IntN(300))*time.Millisecond))
	}
	entrance := c.entrance(reads)
	hold, err := lock.Acquire(ctx, opts...)
	if err != nil {
		return false
	}
	c.enters(t, hold, entrance)
	reentries := 0
	for range random.IntN(3) {
		if ok, err := lock.TryLock(hold.Context(), opts...); ok {
			reentries++
		} else if err == nil && c.kind != "red" { // a red lock may have lost a member meanwhile
			t.Errorf("a re-entry of a %s lock is refused", c.kind)
		}
	}
	<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
	c.holders.Delete(hold)
	unlock := func() {
		if err := hold.Unlock(ctx); err == nil || !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
			return
		}
		t.Errorf("the first unlock of a hold returned %v", err)
	}
	first := random.IntN(2) == 0
	if first {
		unlock()
	}
	for range reentries {
		err := lock.Unlock(context.WithoutCancel(hold.Context()))
		if errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost) {
			t.Errorf("the unlock of a re-entry returned %v", err)
		}
	}
	if !first {
		unlock()
	}
	if err := hold.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
		t.Errorf("the second unlock of a hold returned %v", err)
	}
	return true
}

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// TestReadReleaseKeepsLockForRemainingReaders checks that the lock lasts as long as the longest remaining read hold, no
// matter which side released.
func TestReadReleaseKeepsLockForRemainingReaders(t *testing.T) {
	t.Parallel()
	const long, short, between = time.Minute, 20 * time.Second, 30 * time.Second
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p := newRWPair(t, v, settings{})
		read := p.inGo.Reader()
		pairs := [][2]hand{ // the longer lease first
			{goHandOf(p.owner, read, rlock.Lease(long)), javaHand(p.inJava("read"), lease(short))},
			{javaHand(p.inJava("read"), lease(long)), goHandOf(p.owner, read, rlock.Lease(short))},
		}
		for _, pair := range pairs {
			for _, order := range bothOrders(pair[0], pair[1]) {
				order[0].lock(t)
				order[1].lock(t)
				require.Greater(t, p.ttl(t), between, "the longest lease counts")
				pair[0].release(t)
				require.Greater(t, p.ttl(t), time.Duration(0), "a reader is left")
				require.LessOrEqual(t, p.ttl(t), short, "the remaining lease counts")
				p.writersRefused(t, "a reader is left")
				pair[1].release(t)
				require.Empty(t, keysOf(t, p.rdb))

				order[0].lock(t)
				order[1].lock(t)
				pair[1].release(t)
				require.Greater(t, p.ttl(t), between, "the remaining lease counts")
				p.writersRefused(t, "a reader is left")
				pair[0].release(t)
				require.Empty(t, keysOf(t, p.rdb))
			}
		}
	})
}

// TestReadReleaseSeesReentriesOfOtherSide checks that each side finds the keys of the other. Redisson has a key per entry of
// a reader; rlock has one key for all entries.
func TestReadReleaseSeesReentriesOfOtherSide(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p := newRWPair(t, v, settings{})
		read := p.inGo.Reader()
		inGo := func(d time.Duration) hand { return goHandOf(p.owner, read, rlock.Lease(d)) }
		inJava := func(d time.Duration) hand { return javaHand(p.inJava("read"), lease(d)) }
		for _, first := range []time.Duration{time.Minute, 20 * time.Second} { // the longer entry first, or the shorter
			second := 80*time.Second - first
			for _, pair := range [][3]hand{
				{inJava(first), inJava(second), inGo(time.Hour)},
				{inGo(first), inGo(second), inJava(time.Hour)},
			} {
				for _, h := range pair {
					h.lock(t)
				}
				pair[2].release(t)
				require.Greater(t, p.ttl(t), 30*time.Second)
				require.LessOrEqual(t, p.ttl(t), time.Minute)
				p.writersRefused(t, "both entries are left")
				pair[0].release(t)
				p.writersRefused(t, "an entry is left")
				pair[1].release(t)
				require.Empty(t, keysOf(t, p.rdb))
			}
		}
	})
}

// TestDeadReaderBlocksWritersForItsOwnLeaseOnly checks that a killed reader blocks writers for its own lease and no longer.
// A live reader of the other side must not change that, whether it releases before the end of that lease or after.
func TestDeadReaderBlocksWritersForItsOwnLeaseOnly(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for _, dead := range []string{"Go", "Java"} {
			for _, when := range []string{"before", "after"} {
				t.Run(dead+", released "+when, func(t *testing.T) {
					t.Parallel()
					testDeadReader(t, v, dead, when == "before")
				})
			}
		}
	})
}

func testDeadReader(t *testing.T, v version, dead string, before bool) {
	t.Helper()
	const watchdog = 3 * time.Second
	p := newRWPair(t, v, settings{Watchdog: watchdog}, rlock.WithWatchdogTimeout(watchdog)) // see asleep
	kill := startReader(t, v, dead, p.rdb.Options().Addr, p.name, watchdog)
	zombie := p.rdb.Keys(t.Context(), "{"+p.name+"}:*:rwlock_timeout:1").Val()
	require.Len(t, zombie, 1)
	isOver := func() bool { return p.rdb.Exists(t.Context(), zombie...).Val() == 0 }
	living := p.goReads
	if dead == "Go" {
		living = p.javaReads
	}
	living.lock(t)
	gotGo, gotJava := p.goWriter.ask(), p.javaWriter.ask()
	subscribed(t, p.rdb, rwChannel(p.name), 2)
	kill()
	switch {
	case before:
	case dead == "Java", v.atLeast(4, 4):
		eventually(t, "the lease of the dead reader is over", isOver)
	default:
		<-time.After(2 * watchdog)
		require.False(t, isOver(), "before 4.4.0 Redisson renews the leases of all readers, dead or alive")
	}
	require.Empty(t, gotGo, "a reader is left")
	require.Empty(t, gotJava, "a reader is left")
	living.release(t)

	first, second, gotSecond := p.goWriter, p.javaWriter, gotJava
	select {
	case err := <-gotGo:
		require.NoError(t, err)
	case err := <-gotJava:
		require.NoError(t, err)
		first, second, gotSecond = p.javaWriter, p.goWriter, gotGo
	case <-time.After(watchdog + 15*time.Second):
		t.Fatal("no writer got the lock")
	}
	require.True(t, isOver(), "the lease of the dead reader had to end first")
	first.release(t)
	second.granted(t, gotSecond)
	second.release(t)
	require.Empty(t, keysOf(t, p.rdb))
}

// startReader starts a process that holds a read lock. It returns a function that kills the process.
func startReader(t *testing.T, v version, language, address, name string, watchdog time.Duration) (kill func()) {
	t.Helper()
	if language == "Go" {
		reader := startChild(t, "hold", holding{Addr: address, Kind: "read", Name: name, Watchdog: watchdog})
		reader.say("lock")
		require.Equal(t, "locked", reader.reply())
		return reader.kill
	}
	own := newJVM(t, v)
	require.NoError(t, own.open(t, settings{Watchdog: watchdog}, address).thread(1).lock("read", name).Lock())
	return own.Kill
}

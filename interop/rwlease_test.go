package interop_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/stretchr/testify/require"
)

// The lock lasts as long as the longest read hold that is left, whichever side released last and by whose keys.
func TestAReadReleaseKeepsTheLockForTheReadersThatAreLeft(t *testing.T) {
	t.Parallel()
	const long, short, between = time.Minute, 20 * time.Second, 30 * time.Second
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p := newRWPair(t, v, settings{})
		read := p.inGo.ReadLock()
		pairs := [][2]hand{ // who reads longer, and the other
			{goHandOf(p.owner, read, rlock.Lease(long)), javaHand(p.inJava("read"), lease(short))},
			{javaHand(p.inJava("read"), lease(long)), goHandOf(p.owner, read, rlock.Lease(short))},
		}
		for _, pair := range pairs {
			for _, order := range bothOrders(pair[0], pair[1]) {
				order[0].lock(t)
				order[1].lock(t)
				require.Greater(t, p.ttl(t), between, "the longest counts")
				pair[0].release(t)
				require.Greater(t, p.ttl(t), time.Duration(0), "one still reads")
				require.LessOrEqual(t, p.ttl(t), short, "its lease counts")
				p.writersRefused(t, "one still reads")
				pair[1].release(t)
				require.Empty(t, keysOf(t, p.rdb))

				order[0].lock(t)
				order[1].lock(t)
				pair[1].release(t)
				require.Greater(t, p.ttl(t), between, "the lease of who is left counts")
				p.writersRefused(t, "one still reads")
				pair[0].release(t)
				require.Empty(t, keysOf(t, p.rdb))
			}
		}
	})
}

// Redisson has a key for each entry of a reader, rlock one for all. Either finds what keeps the other's.
func TestAReadReleaseSeesTheReentriesOfTheOtherSide(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p := newRWPair(t, v, settings{})
		read := p.inGo.ReadLock()
		inGo := func(d time.Duration) hand { return goHandOf(p.owner, read, rlock.Lease(d)) }
		inJava := func(d time.Duration) hand { return javaHand(p.inJava("read"), lease(d)) }
		for _, first := range []time.Duration{time.Minute, 20 * time.Second} { // the longer entry, or the other
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

// A reader whose process was killed blocks writers for its own lease, though readers of the other side live on, whether
// these release before that is over or after.
func TestADeadReaderBlocksWritersOfBothLanguagesForItsOwnLeaseOnly(t *testing.T) {
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
		eventually(t, "the dead one's lease is over", isOver)
	default:
		<-time.After(2 * watchdog)
		require.False(t, isOver(), "before 4.4.0 Redisson renews whoever reads beside it, dead or alive")
	}
	require.Empty(t, gotGo, "one still reads")
	require.Empty(t, gotJava, "one still reads")
	living.release(t)

	first, second, gotSecond := p.goWriter, p.javaWriter, gotJava
	select {
	case err := <-gotGo:
		require.NoError(t, err)
	case err := <-gotJava:
		require.NoError(t, err)
		first, second, gotSecond = p.javaWriter, p.goWriter, gotGo
	case <-time.After(watchdog + 15*time.Second):
		t.Fatal("no writer gets in")
	}
	require.True(t, isOver(), "the dead one had its lease")
	first.release(t)
	second.granted(t, gotSecond)
	second.release(t)
	require.Empty(t, keysOf(t, p.rdb))
}

// startReader has a process of its own hold a read lock, and returns how to kill it.
func startReader(t *testing.T, v version, language, address, name string, watchdog time.Duration) (kill func()) {
	t.Helper()
	if language == "Go" {
		reader := startChild(t, "hold", holding{Addr: address, Kind: "read", Name: name, Watchdog: watchdog})
		reader.say("lock")
		require.Equal(t, "locked", reader.answer())
		return reader.kill
	}
	own := newJVM(t, v)
	require.NoError(t, own.open(t, settings{Watchdog: watchdog}, address).thread(1).lock("read", name).Lock())
	return own.Kill
}

package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// published matches a message in the output of MONITOR, also if a script sent it.
var published = regexp.MustCompile(`"(?i:s?publish)" "([^"]*)" "([^"]*)"`)

// messages counts the messages that a server sends, by channel and payload.
type messages struct {
	mu    sync.Mutex
	count map[[2]string]int
}

// monitor counts all messages of a server until the test ends.
func monitor(tb testing.TB, address string) *messages {
	tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", address)
	require.NoError(tb, err)
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(tb, err)
	in := bufio.NewScanner(conn)
	require.True(tb, in.Scan(), "MONITOR has a reply")
	m := &messages{count: map[[2]string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for in.Scan() {
			for _, sent := range published.FindAllStringSubmatch(in.Text(), -1) {
				m.mu.Lock()
				m.count[[2]string{sent[1], sent[2]}]++
				m.mu.Unlock()
			}
		}
	}()
	tb.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return m
}

// of returns the messages about a lock.
func (m *messages) of(name string) map[[2]string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.count)
	maps.DeleteFunc(all, func(sent [2]string, _ int) bool { return !strings.Contains(sent[0], name) })
	return all
}

// look is what a lock looked like at one moment.
type look struct {
	fields map[string]string
	left   time.Duration
}

// watch looks at a lock again and again until stop is closed.
func watch(rdb redis.UniversalClient, name string, stop <-chan struct{}) <-chan []look {
	seen := make(chan []look, 1)
	go func() {
		var all []look
		defer func() { seen <- all }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			var fields *redis.MapStringStringCmd
			var left *redis.DurationCmd
			_, err := rdb.TxPipelined(context.Background(), func(tx redis.Pipeliner) error {
				fields, left = tx.HGetAll(context.Background(), name), tx.PTTL(context.Background(), name)
				return nil
			})
			if err == nil && len(fields.Val()) > 0 {
				all = append(all, look{fields.Val(), left.Val()})
			}
		}
	}()
	return seen
}

// TestWhatRedissonSeesOfFleet lets a fleet of both languages take turns. Whoever has the lock, Redisson sees a hash with one
// field and a TTL. On the channels where it listens, it gets nothing but the messages of its own protocol.
func TestWhatRedissonSeesOfFleet(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		c := newSingleCompany(t, v, server, 1, 4)
		c.requireSeen(t, monitor(t, server.Addr), contested...)
	})
}

func TestWhatRedissonSeesOfFleetOnCluster(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		cluster := redistest.StartCluster(t)
		m := (&fleet{version: v}).agreed()[0]
		c := newClusterCompany(t, v, cluster, m, 1, 4)
		for _, kind := range []string{"lock", "fair", "write"} {
			name := newName()
			c.requireSeenAs(t, monitor(t, cluster.MasterOf(t, name).Addr), kind, name)
		}
	})
}

func (c *company) requireSeen(t *testing.T, m *messages, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		c.requireSeenAs(t, m, kind, newName())
	}
}

func (c *company) requireSeenAs(t *testing.T, m *messages, kind, name string) {
	t.Helper()
	stop := make(chan struct{})
	seen := watch(c.rdb, name, stop)
	turns := c.take(t, taking{kind: kind, java: 1, inGo: 4, length: 500 * time.Millisecond}, name)
	close(stop)
	looks := within(t, "the watch ends", seen)
	require.NotEmpty(t, looks)
	longest := time.Duration(0) // that a client in Go has left, as Redisson sees it
	for _, l := range looks {
		mode, ok := l.fields["mode"]
		require.Equal(t, kind == "write", ok)
		if ok {
			require.Equal(t, "write", mode)
			delete(l.fields, "mode")
		}
		require.Len(t, l.fields, 1)
		require.Equal(t, []string{"1"}, slices.Collect(maps.Values(l.fields)))
		require.Positive(t, l.left)
		require.LessOrEqual(t, l.left, c.lease)
		for holder := range l.fields {
			if !strings.HasPrefix(holder, c.java[0].ID) {
				longest = max(longest, l.left)
			}
		}
	}
	public, private := map[string]int{}, map[string]int{}
	for sent, n := range m.of(name) {
		base := kindNamed(kind).channel(name)
		if sent[0] == base || strings.Contains(sent[0], c.java[0].ID) {
			public[sent[1]] += n
		} else {
			private[strings.Fields(sent[1])[0]] += n
		}
	}
	t.Logf("%s: %d turns; sent where Redisson listens: %v; elsewhere: %v; longest TTL of a client in Go: %v",
		kind, len(turns), public, private, longest)
	allowed := []string{"0"}
	if kind == "write" {
		allowed = append(allowed, "1") // Redisson announces the release of a writer by it
	}
	require.Subset(t, allowed, slices.Collect(maps.Keys(public)), fmt.Sprintf("%v", m.of(name)))
}

package catalog

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// TestFind finds what was typed, in any case, of each kind, and nothing twice.
func TestFind(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := newClient(t, rdb)
		for _, name := range []string{"Orders:1", "orders:2", "x:orders", "größe:Ä", "a.b", "aXb", "[ab]", `back\slash`, "two words", "a*b"} {
			acquire(t, client.NewLock(name))
		}
		acquire(t, client.NewSemaphore("orders:permits", rlock.Total(1)))
		acquire(t, client.NewSemaphore("{tag}orders", rlock.Total(1)))
		found := func(c *Catalog, prefix, text string) (names []string) {
			for row, err := range c.Find(t.Context(), Filter{Prefix: prefix, Text: text}) {
				require.NoError(t, err)
				names = append(names, row.Name)
			}
			return names
		}
		c := newCatalog(t, rdb)
		for text, want := range map[string][]string{
			"": {
				"Orders:1", "[ab]", "a*b", "a.b", "aXb", `back\slash`, "größe:Ä", "orders:2", "orders:permits", "two words", "x:orders", "{tag}orders",
			},
			"ORDERS:": {"Orders:1", "orders:2", "orders:permits"}, "orders*": {"Orders:1", "orders:2", "orders:permits"},
			"*orders": {"x:orders", "{tag}orders"}, "größe": {"größe:Ä"}, "ä": {"größe:Ä"}, "a.b": {"a.b"}, "[AB]": {"[ab]"}, "words two": {"two words"},
			"o*s:*1": {"Orders:1"}, `back\`: {`back\slash`}, "a*b": {"a*b", "a.b", "aXb"}, "none": nil, "?": nil, "*": nil, " ": nil,
		} {
			got := found(c, "", text)
			if text == "*" || text == " " {
				assert.Len(t, got, 12, text)
				continue
			}
			slices.Sort(got)
			assert.Equal(t, want, got, text)
		}
		assert.Equal(t, "a*b", found(c, "", "a*b")[0], "the exact name comes first")
		assert.Equal(t, "two words", found(c, "", "two words")[0])
		assert.Equal(t, []string{"orders:2"}, found(c, "orders:", "*2"))
		assert.Empty(t, found(c, "orders:", "aXb"), "nothing outside the prefix")
		mapped := New(rdb, newClient(t, rdb, rlock.WithKeyPrefix("orders:")), "orders:")
		assert.Equal(t, []string{"2"}, found(mapped, "", "2"))
		assert.Empty(t, found(mapped, "", "orders*"), "the key prefix is not a part of the name")
	})
}

// noScan is a hook that fails each SCAN.
type noScan struct{}

func (noScan) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (noScan) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "scan" {
			return rlock.ErrUnavailable
		}
		return next(ctx, cmd)
	}
}

func (noScan) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestAnExactNameNeedsNoScan finds a semaphore by its keys before Redis is asked for all keys.
func TestAnExactNameNeedsNoScan(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	acquire(t, newClient(t, rdb).NewSemaphore("slots", rlock.Total(1)))
	rdb.AddHook(noScan{})
	var names []string
	var last error
	for row, err := range newCatalog(t, rdb).Find(t.Context(), Filter{Text: "slots"}) {
		if last = err; err == nil {
			names = append(names, row.Name)
		}
	}
	assert.Equal(t, []string{"slots"}, names)
	assert.ErrorIs(t, last, rlock.ErrUnavailable)
}

// TestPatternsHaveTwoStars bounds what Redis has to do for what somebody types.
func TestPatternsHaveTwoStars(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "", patternOf(strings.Fields("* ** ä")))
	assert.Equal(t, `[lL][oO][nN][gG]\[\?`, patternOf(strings.Fields("a*a*a*a long b*long[?")))
	assert.NotContains(t, patternOf(strings.Fields("a*a*a*a*a*a*b")), "*")
}

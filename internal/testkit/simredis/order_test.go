package simredis

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func (f *fixture) fill(n int) {
	for i := range n {
		f.Do("HSET", "h", "f"+strconv.Itoa(i), strconv.Itoa(i))
	}
}

// fieldsOf returns the fields of a reply that has values, too.
func fieldsOf(reply any) (names []string) {
	list, _ := reply.([]any)
	for i := 0; i < len(list); i += 2 {
		names = append(names, fmt.Sprint(list[i]))
	}
	return names
}

func TestASmallHashKeepsItsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(smallHash)
	f.do("HDEL h f0")
	f.do("HSET h f1 changed f0 again")
	names := fieldsOf(f.do("HGETALL h"))
	require.Equal(t, "f1", names[0])
	require.Equal(t, "f0", names[smallHash-1])
	require.Equal(t, []any{"0", f.do("HGETALL h")}, f.do("HSCAN h 12345 COUNT 1"), "it is scanned at once, whatever the cursor")
}

func TestTheSeedOrdersWhatRedisLeavesOpen(t *testing.T) {
	t.Parallel()
	list := func(seed uint64) any {
		f := newFixture(t)
		f.Seed = seed
		f.fill(smallHash + 1)
		for i := range 20 {
			f.Do("SET", "k"+strconv.Itoa(i), "v")
			f.Subscribe("c"+strconv.Itoa(i), &Subscriber{}, false)
		}
		return []any{f.do("HGETALL h"), f.do("HKEYS h"), f.do("KEYS *"), f.do("SCAN 0 COUNT 100"), f.do("PUBSUB CHANNELS"), f.do("HRANDFIELD h 5")}
	}
	one, again, other := list(1), list(1), list(2)
	require.Equal(t, one, again)
	for i := range one.([]any) {
		require.NotEqual(t, one.([]any)[i], other.([]any)[i])
	}
}

func TestAHashOnceBigStaysBig(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(smallHash + 1)
	f.do("HDEL h f5")
	names := fieldsOf(f.do("HGETALL h"))
	require.False(t, slices.IsSortedFunc(names, func(a, b string) int { return len(a) - len(b) }), "the order is not that of insertion")
	f.Reset(f.DB().Clone())
	require.Equal(t, names, fieldsOf(f.do("HGETALL h")))
}

// TestAScanFindsWhatStays checks what Redis promises of a scan: it finds each field that is there all the time.
func TestAScanFindsWhatStays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		f := newFixture(t)
		f.Seed = seed
		f.fill(1000)
		found, cursor := map[string]int{}, "0"
		for page := 0; ; page++ {
			reply, _ := f.Do("HSCAN", "h", cursor, "COUNT", "30").([]any)
			for _, name := range fieldsOf(reply[1]) {
				found[name]++
			}
			for i := range 10 { // others come and go
				f.Do("HDEL", "h", fmt.Sprint("new", page, " ", i-5))
				f.Do("HSET", "h", fmt.Sprint("new", page+1, " ", i), "1")
			}
			if cursor, _ = reply[0].(string); cursor == "0" {
				break
			}
			require.Less(t, page, 1000)
		}
		for i := range 1000 {
			require.Equal(t, 1, found["f"+strconv.Itoa(i)], "seed %d", seed)
		}
	}
}

func TestACursorSelectsAPartOfABigHash(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(2000)
	found := map[string]bool{}
	for i := range 64 {
		reply, _ := f.Do("HSCAN", "h", strconv.FormatUint(uint64(i)<<26, 10), "COUNT", "300").([]any)
		names := fieldsOf(reply[1])
		require.LessOrEqual(t, len(names), 301)
		for _, name := range names {
			found[name] = true
		}
	}
	require.Len(t, found, 2000, "as rlock selects them when it removes old tombstones")
}

func TestScanOptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(1)
	f.do("SET a1 v")
	f.do("SET b1 v")
	require.Equal(t, []any{"0", []any{"a1"}}, f.do("SCAN 0 MATCH a* COUNT 100"))
	require.Equal(t, []any{"0", []any{"h"}}, f.do("SCAN 0 TYPE hash COUNT 100"))
	require.Equal(t, errSyntax, f.do("SCAN 0 COUNT 0"))
	require.Equal(t, errNotInt, f.do("SCAN 0 COUNT x"))
	require.Equal(t, errSyntax, f.do("HSCAN h 0 TYPE hash"))
	require.Equal(t, errSyntax, f.do("SCAN 0 COUNT"))
	require.Equal(t, errCursor, f.do("SCAN x"))
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"*", "", false},
		{"*", "a", true},
		{"a*c", "abbc", true},
		{"a*c", "abb", false},
		{"a?c", "abc", true},
		{"a?", "a", false},
		{"[a-c]x", "bx", true},
		{"[c-a]x", "bx", true},
		{"[^a-c]x", "bx", false},
		{"[]]", "]", false},
		{`[\]]`, "]", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{"[", "a", false},
		{"a[", "a", false},
		{"**a", "ba", true},
		{"{x}:*", "{x}:y", true},
	} {
		require.Equal(t, c.want, matches(c.pattern, c.text), "%q matches %q", c.pattern, c.text)
	}
}

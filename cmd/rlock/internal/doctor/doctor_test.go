package doctor

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// examine returns the findings that are worse than ok and those of the given check, which must have one.
func examine(t *testing.T, rdb redis.UniversalClient, opts Options, check string) (report Report, of []Finding) {
	t.Helper()
	report, err := Examine(t.Context(), rdb, opts)
	require.NoError(t, err)
	for _, f := range report.Findings {
		require.NotContains(t, f.Text, "\n")
		require.NotContains(t, f.Text, "%!")
		if f.Check == check {
			of = append(of, f)
		}
	}
	require.NotEmpty(t, of)
	return report, of
}

// requireOnly checks that exactly one finding is not ok, and what it says. It returns the finding.
func requireOnly(t *testing.T, of []Finding, level Level, text string) Finding {
	t.Helper()
	require.Len(t, of, 1, "%v", of)
	require.Equal(t, level, of[0].Level, "%v", of)
	require.Contains(t, of[0].Text, text)
	return of[0]
}

// levels returns the checks with findings of a level.
func levels(r Report, level Level) (ids []string) {
	for _, f := range r.Findings {
		if f.Level == level {
			ids = append(ids, f.Check)
		}
	}
	return ids
}

func TestAHealthyServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	needsRedis7(t, admin)
	before := fields(admin.Info(t.Context(), "persistence").Val())["rdb_changes_since_last_save"]
	r, _ := examine(t, admin, Options{Strict: true}, "replicas")
	require.Equal(t, []string{server.Addr}, r.Nodes)
	require.Equal(t, []string{"replicas"}, levels(r, Note), "there is none, as one may want")
	for _, level := range []Level{Warning, Problem, Unknown} {
		require.Empty(t, levels(r, level), level)
	}
	require.Zero(t, r.ExitCode())
	require.Equal(t, before, fields(admin.Info(t.Context(), "persistence").Val())["rdb_changes_since_last_save"], "it wrote")
}

// TestTwice examines the same twice, as one pipeline after another does.
func TestTwice(t *testing.T) {
	t.Parallel()
	admin := redistest.Start(t).Client(t)
	first, err := Examine(t.Context(), admin, Options{})
	require.NoError(t, err)
	second, err := Examine(t.Context(), admin, Options{})
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestAHealthyCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	needsRedis7(t, cluster.Nodes[0].Client(t))
	makeReplicasKnown(t, cluster)
	r, of := examine(t, rdb, Options{Acks: 1}, "demotion")
	require.Equal(t, []string{"demotion"}, levels(r, Warning))
	require.Empty(t, requireOnly(t, of, Warning, "min-replicas-to-write is not set").Node, "it is so on all masters")
	for _, node := range cluster.Nodes {
		require.NoError(t, node.Client(t).ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	}
	again, of := examine(t, rdb, Options{Acks: 1}, "demotion")
	requireOnly(t, of, OK, "refuses renewals")
	require.Len(t, again.Nodes, 6)
	for _, level := range []Level{Note, Warning, Problem, Unknown} {
		require.Empty(t, levels(again, level), "%v", again.Findings)
	}
	third, err := Examine(t.Context(), rdb, Options{Acks: 1})
	require.NoError(t, err)
	require.Equal(t, again, third, "the order is stable")
}

// makeReplicasKnown waits until every node names every replica. Nodes leave replicas out that nothing was written to.
func makeReplicasKnown(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	admin := cluster.Client(t)
	for i := range 100 { // in the slots of all masters
		require.NoError(t, admin.Set(t.Context(), strconv.Itoa(i), "", time.Millisecond).Err())
	}
	for _, node := range cluster.Nodes {
		rdb := node.Client(t)
		redistest.EventuallyWithin(t, 30*time.Second, "the replicas are known", func() bool {
			slots, err := rdb.Do(t.Context(), "cluster", "slots").Slice() // the first and the last one, the master, its replica
			return err == nil && !slices.ContainsFunc(slots, func(s any) bool { return len(s.([]any)) < 4 })
		})
	}
}

func TestNobodyReplies(t *testing.T) {
	t.Parallel()
	opt := &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1}
	_, err := Examine(t.Context(), redistest.Open(t, opt), Options{})
	require.ErrorIs(t, err, rlock.ErrUnavailable)

	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{opt.Addr}, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = cluster.Close() })
	_, err = Examine(t.Context(), cluster, Options{})
	require.ErrorIs(t, err, rlock.ErrUnavailable)
}

func TestThePasswordIsWrong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, err := Examine(t.Context(), redistest.Open(t, &redis.Options{Addr: server.Addr, Username: "nobody", Password: "x"}), Options{})
	require.ErrorIs(t, err, ErrDenied)
	require.NotErrorIs(t, err, rlock.ErrUnavailable)

	require.NoError(t, server.Client(t).Do(t.Context(), "acl", "setuser", "default", "resetpass", ">secret").Err())
	_, err = Examine(t.Context(), redistest.Open(t, &redis.Options{Addr: server.Addr}), Options{})
	require.ErrorIs(t, err, ErrDenied)
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	for _, opts := range []Options{{Kinds: []string{"atomic"}}, {Acks: -2}, {Lease: -1}} {
		_, err := Examine(t.Context(), rdb, opts)
		require.ErrorIs(t, err, rlock.ErrInvalidOption)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { _ = ring.Close() })
	_, err := Examine(t.Context(), ring, Options{})
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
}

func TestTheContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Examine(ctx, redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}), Options{})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, rlock.ErrUnavailable)
}

// TestAServerThatKnowsLittle examines an embedded server, which knows neither CONFIG, nor ACL, nor much of INFO.
func TestAServerThatKnowsLittle(t *testing.T) {
	t.Parallel()
	r, err := Examine(t.Context(), redistest.Embedded(t), Options{RedLock: true})
	require.NoError(t, err)
	require.Subset(t, levels(r, Unknown), []string{"version", "rights", "eviction", "persistence"})
	require.Empty(t, levels(r, Problem), "%v", r.Findings)
	require.Zero(t, r.ExitCode(), "what could not be checked does not count")
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	r := Report{Findings: []Finding{{Level: OK, Code: 10}, {Level: Warning, Code: 11}, {Level: Unknown, Code: 12}}}
	require.Zero(t, r.ExitCode())
	r.Strict = true
	require.Equal(t, 11, r.ExitCode())
	r.Findings = append(r.Findings, Finding{Level: Problem, Code: 13}, Finding{Level: Problem, Code: 14})
	require.Equal(t, 13, r.ExitCode(), "a problem is more severe than a warning")
}

func TestJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Report{Nodes: []string{"a:1"}, Findings: []Finding{{Check: "clock", Level: Note, Text: "x", Page: "y", Code: 17}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"nodes": ["a:1"], "strict": false,
		"findings": [{"check": "clock", "level": "note", "node": "", "text": "x", "page": "y", "code": 17}]}`, string(text))
}

func TestCodesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[int]string{}
	for _, c := range Checks() {
		require.GreaterOrEqual(t, c.Code, 10)
		require.Empty(t, seen[c.Code], "%s has the same code", c.ID)
		require.False(t, slices.Contains([]string{"", "-"}, c.ID))
		seen[c.Code] = c.ID
	}
}

// TestPagesExist reads the source for the pages, so that a page of a rare finding is not forgotten.
func TestPagesExist(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	pages := regexp.MustCompile(`"((?:docs/)?(?:guide/)?[A-Za-z-]+\.md)#([^"]*)"`)
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range pages.FindAllStringSubmatch(string(text), -1) {
			page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", m[1]))
			require.NoError(t, err)
			require.Contains(t, anchors(string(page)), m[2], "in %s", m[1])
			checked++
		}
	}
	require.Greater(t, checked, 10)
	for _, c := range Checks() {
		require.Contains(t, c.Page, ".md#")
	}
}

// anchors returns the anchors of the headings, as GitHub makes them.
func anchors(page string) (all []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
			all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-"))
		}
	}
	return all
}

// TestNothingTakesLong checks that no command of an examination looks at many keys at once, which would keep Redis busy.
func TestNothingTakesLong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000") // of all commands
	admin := server.Client(t)
	require.NoError(t, admin.Do(t.Context(), "debug", "populate", 300_000, "k").Err())
	require.NoError(t, admin.SlowLogReset(t.Context()).Err())
	_, of := examine(t, admin, Options{}, "leases")
	requireOnly(t, of, Note, "only a part")
	scans := 0
	for _, c := range admin.SlowLogGet(t.Context(), -1).Val() {
		args := strings.Fields(strings.ToLower(strings.Join(c.Args, " ")))
		require.NotContains(t, []string{"keys", "sort", "flushall", "flushdb"}, args[0])
		if at := slices.Index(args, "count"); args[0] == "scan" {
			scans++
			require.Contains(t, []string{"10", "100", "1000"}, args[at+1], "a thousand keys take less than a millisecond")
		}
	}
	require.Greater(t, scans, 2)
}

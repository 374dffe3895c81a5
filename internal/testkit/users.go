package testkit

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// AppPrefix is the key prefix that the rights in SECURITY.md assume.
const AppPrefix = "app:"

// Secret is the password of every user.
const Secret = "secret-password"

// RowsOf lists the rows of SECURITY.md for each kind. The rows of a group are those of its members' kind.
var RowsOf = map[string][]string{
	"lock":         {"plain"},
	"multi":        {"plain"},
	"red":          {"plain"},
	"fenced":       {"plain", "fenced, in addition to plain"},
	"fair":         {"fair and read-write", "fair, in addition"},
	"fenced fair":  {"fair and read-write", "fair, in addition", "fenced fair, in addition to fair"},
	"read":         {"fair and read-write", "read-write, in addition"},
	"write":        {"fair and read-write", "read-write, in addition"},
	"fenced write": {"fair and read-write", "read-write, in addition", "fenced read-write, in addition to read-write"},
	"spin":         {"spin"},
}

// ClusterRows lists the rows of SECURITY.md for clusters.
var ClusterRows = []string{"a Cluster", "sharded pub/sub"}

// Rights returns the ACL rules in the given rows of SECURITY.md.
func Rights(tb testing.TB, rows ...string) (rules []string) {
	tb.Helper()
	text := strings.ReplaceAll(string(Must(os.ReadFile(filepath.Join(Repository(), "SECURITY.md")))), `\|`, "\x00")
	found := make(map[string][]string)
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		name := strings.Trim(cells[1], " `")
		for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cells[2]+cells[3], -1) {
			found[name] = append(found[name], strings.Fields(strings.ReplaceAll(m[1], "\x00", "|"))...)
		}
	}
	for _, row := range rows {
		require.NotEmpty(tb, found[row], "SECURITY.md has no row %q", row)
		rules = append(rules, found[row]...)
	}
	return rules
}

// NewUser creates a user with exactly these rights on all nodes, and returns its name.
func NewUser(tb testing.TB, nodes []*redis.Client, rules ...string) string {
	tb.Helper()
	name := "u" + strings.ReplaceAll(NewName(), ":", "")
	args := []any{"acl", "setuser", name, "on", ">" + Secret, "resetkeys", "resetchannels", "-@all"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	for _, admin := range nodes {
		require.NoError(tb, admin.Do(context.Background(), args...).Err())
	}
	return name
}

// Admins opens an unrestricted client of each node.
func Admins(tb testing.TB, nodes ...*redistest.Server) (all []*redis.Client) {
	tb.Helper()
	for _, node := range nodes {
		all = append(all, node.Client(tb))
	}
	return all
}

// Denied returns what the nodes refused to a user. It ignores CLIENT commands: go-redis sends CLIENT SETINFO on each new
// connection and works without it. Redis knows that command since 7.2.
func Denied(nodes []*redis.Client, user string) (all []string) {
	for _, admin := range nodes {
		for _, entry := range Must(admin.ACLLog(context.Background(), 1000).Result()) {
			if entry.Username == user && !strings.HasPrefix(entry.Object, "client") {
				all = append(all, entry.Reason+" "+entry.Object)
			}
		}
	}
	return all
}

// Limited returns one client per kind of lock. Its user has exactly the rights that SECURITY.md lists for that kind. The test
// fails at its end if Redis denied any of these users anything.
func Limited(
	t *testing.T, nodes []*redis.Client, open func(user string) redis.UniversalClient, rows ...string,
) func(kind string) redis.UniversalClient {
	t.Helper()
	users := make(map[string]string)
	clients := make(map[string]redis.UniversalClient)
	for kind := range Kinds {
		users[kind] = NewUser(t, nodes, Rights(t, slices.Concat(RowsOf[kind], connect.Rows(), rows)...)...)
		clients[kind] = open(users[kind])
	}
	t.Cleanup(func() {
		for kind, user := range users {
			require.Empty(t, Denied(nodes, user), kind)
		}
	})
	return func(kind string) redis.UniversalClient { return clients[kind] }
}

// OpenAs returns a function that opens a client of a server as a user.
func OpenAs(tb testing.TB, server *redistest.Server) func(user string) redis.UniversalClient {
	tb.Helper()
	return func(user string) redis.UniversalClient {
		return redistest.Open(tb, &redis.Options{Addr: server.Addr, Username: user, Password: Secret})
	}
}

// OpenClusterAs returns a function that opens a client of a cluster as a user.
func OpenClusterAs(tb testing.TB, cluster *redistest.Cluster) func(user string) redis.UniversalClient {
	tb.Helper()
	return func(user string) redis.UniversalClient {
		opt := cluster.Options()
		opt.Username, opt.Password = user, Secret
		rdb := redis.NewClusterClient(opt)
		tb.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
}

// OpenSentinelAs opens a client that connects to the master as one user, and to the sentinels as another.
func OpenSentinelAs(tb testing.TB, sentinel *redistest.Sentinel, user, watching string) redis.UniversalClient {
	tb.Helper()
	opt := sentinel.Options()
	opt.Username, opt.Password = user, Secret
	opt.SentinelUsername, opt.SentinelPassword = watching, Secret
	rdb := redistest.NewFailover(opt)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

package deploy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// TestOpen reaches every sort of deployment.
func TestOpen(t *testing.T) {
	t.Parallel()
	single, cluster, sentinel := redistest.Start(t), redistest.StartCluster(t), redistest.StartSentinel(t)
	failover, _ := redistest.FailoverOptions(sentinel.Client(t))
	for what, c := range map[string]Config{
		"single":   {Addrs: []string{single.Addr}},
		"URL":      {URL: "redis://" + single.Addr + "/1"},
		"cluster":  {Addrs: cluster.Options().Addrs, Cluster: true},
		"sentinel": {Addrs: failover.SentinelAddrs, SentinelMaster: failover.MasterName},
	} {
		c.Timeout = 5 * time.Second
		rdb, where, err := c.Open(env(nil))
		require.NoError(t, err, what)
		require.NoError(t, rdb.Set(t.Context(), "a", 1, time.Minute).Err(), what)
		require.NotEmpty(t, where)
		require.NoError(t, rdb.Close())
	}
}

// TestPasswords come from a file, the URL or the environment, in this order, and are shown nowhere.
func TestPasswords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("of the file\n"), 0o600))
	for want, c := range map[string]Config{
		"of the file": {URL: "redis://me:in-url@host:1/2", PasswordFile: file},
		"in-url":      {URL: "redis://me:in-url@host:1/2"},
		"of the env":  {URL: "redis://me@host:1/2"},
	} {
		rdb, where, err := c.Open(env(map[string]string{"REDIS_PASSWORD": "of the env"}))
		require.NoError(t, err)
		require.Equal(t, want, rdb.(*redis.Client).Options().Password)
		require.Equal(t, "me", rdb.(*redis.Client).Options().Username)
		require.Equal(t, "host:1/2", where)
		require.NoError(t, rdb.Close())
	}
	for _, url := range []string{
		"redis://me:s3/cr3t@host", "http://me:s3cr3t@host", "redis://me:s3cr3t@host/x", "redis://me:%s3cr3t@host", "s3cr3t",
		"redis://cr3t:12345/secret@h:1", "redis://cr3t:12345?sec@h", "redis://cr3t:12#sec@h",
	} {
		_, _, err := Config{}.Open(env(map[string]string{"REDIS_URL": url}))
		require.ErrorIs(t, err, ErrConfig, url)
		require.NotContains(t, err.Error(), "cr3t", url)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	_, _, err := Config{CAFile: "x"}.Open(env(nil))
	require.ErrorIs(t, err, ErrConfig)
	rdb, _, err := Config{TLS: true, ServerName: "name"}.Open(env(nil))
	require.NoError(t, err)
	require.Equal(t, "name", rdb.(*redis.Client).Options().TLSConfig.ServerName)
	require.NoError(t, rdb.Close())
}

// TestBadConfig is refused before anything is sent.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]Config{
		"two addresses":         {Addrs: []string{"a:1", "b:1"}},
		"no port":               {Addrs: []string{"localhost"}},
		"no port of a Sentinel": {Addrs: []string{"a:1", "::1"}, SentinelMaster: "m"},
		"cluster and Sentinels": {Cluster: true, SentinelMaster: "m"},
		"database of a cluster": {Cluster: true, URL: "redis://a/1"},
		"socket of a cluster":   {Cluster: true, URL: "unix:///tmp/x"},
		"no such file":          {PasswordFile: "/none"},
		"no such authority":     {TLS: true, CAFile: "/none"},
		"no certificate":        {TLS: true, CAFile: "/dev/null"},
		"no key":                {TLS: true, CertFile: "/none"},
	} {
		_, _, err := c.Open(env(nil))
		require.ErrorIs(t, err, ErrConfig, what)
	}
}

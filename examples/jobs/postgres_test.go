//go:build unix

package main

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// postgres is a PostgreSQL server that ends with the test. It has a socket in a directory of its own, and no port.
type postgres struct{ dir string }

// startPostgres starts a server. Without PostgreSQL it skips the test, or fails it if RLOCK_REQUIRE_POSTGRES is 1.
func startPostgres(t *testing.T) *postgres {
	t.Helper()
	bin := binaries()
	switch {
	case bin == "" && os.Getenv("RLOCK_REQUIRE_POSTGRES") == "1":
		t.Fatal("RLOCK_REQUIRE_POSTGRES=1, but PostgreSQL is not installed")
	case bin == "":
		t.Skip("needs PostgreSQL (Debian: apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "rlock-pg-") //nolint:usetesting // the path of t.TempDir is too long for a socket, and closed to the other user
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := unprivileged(t, dir)
	data := filepath.Join(dir, "data")

	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, as
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, "%s", out)

	// The shell ends the server when its input ends: with the test, even with one that is killed.
	server := exec.Command("sh", "-c", `"$@" & cat; kill -QUIT $!; wait $!`, "sh",
		filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, as
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	server.Stdout, server.Stderr = log, log
	input, err := server.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s", text[max(0, len(text)-5000):])
		}
		_ = input.Close()
		_ = server.Wait()
	})
	p := &postgres{dir}
	q := p.open(t, "postgres")
	redistest.EventuallyWithin(t, 20*time.Second, "PostgreSQL replies", func() bool { return q.db.PingContext(t.Context()) == nil })
	return p
}

// url returns the address of a database.
func (p *postgres) url(database string) string {
	return fmt.Sprintf("postgres:///%s?user=postgres&host=%s", database, url.QueryEscape(p.dir))
}

func (p *postgres) open(t *testing.T, database string) *queue {
	t.Helper()
	q, err := open(p.url(database), "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = q.db.Close() })
	return q
}

// binaries returns the directory of PostgreSQL's programs, or an empty string.
func binaries() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // where Debian has them, outside of the path
	if len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

// unprivileged gives a directory to a user as whom PostgreSQL can run, because it refuses to run as root.
func unprivileged(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

var databases atomic.Int64

// create creates a database.
func (p *postgres) create(t *testing.T) (database string) {
	t.Helper()
	database = fmt.Sprintf("jobs%d", databases.Add(1))
	_, err := p.open(t, "postgres").db.ExecContext(t.Context(), "CREATE DATABASE "+database)
	require.NoError(t, err)
	return database
}

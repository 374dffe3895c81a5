package interop_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// version is a version of Redisson.
type version string

// atLeast reports whether v is the given version or a later one.
func (v version) atLeast(major, minor int) bool {
	parts := append(strings.Split(string(v), "."), "0", "0")
	x, _ := strconv.Atoi(parts[0])
	y, _ := strconv.Atoi(parts[1])
	return x > major || x == major && y >= minor
}

// versions returns the versions under test: by default the newest, and the oldest that rlock supports.
func versions() (all []version) {
	for v := range strings.FieldsSeq(cmp.Or(os.Getenv("RLOCK_REDISSON"), "4.7.0 3.21.3")) {
		all = append(all, version(v))
	}
	return all
}

// onVersions runs a test against every version, side by side.
func onVersions(t *testing.T, test func(*testing.T, version)) {
	t.Helper()
	for _, v := range versions() {
		t.Run("redisson "+string(v), func(t *testing.T) {
			t.Parallel()
			needJava(t, v)
			test(t, v)
		})
	}
}

// built holds the build error of each version, or nil.
var built = map[version]error{}

func buildAll() {
	for _, v := range versions() {
		built[v] = build(v)
	}
}

// needJava skips a test if its Java program could not be built. If RLOCK_REQUIRE_JAVA is 1, it fails the test instead.
func needJava(tb testing.TB, v version) {
	tb.Helper()
	err := built[v]
	switch {
	case err == nil:
	case os.Getenv("RLOCK_REQUIRE_JAVA") == "1":
		tb.Fatalf("RLOCK_REQUIRE_JAVA=1, but: %v", err)
	default:
		why, _, _ := strings.Cut(err.Error(), "\n")
		tb.Skipf("needs Java 17 and Maven (Debian: apt-get install openjdk-17-jdk-headless maven): %s", why)
	}
}

// outputOf returns the build directory for a version.
func outputOf(v version) string { return filepath.Join(".build", string(v)) }

// build compiles the Java program against a version. If an earlier build is up to date, it does nothing and needs neither
// Maven nor a network.
func build(v version) error {
	if _, err := exec.LookPath("java"); err != nil {
		return err
	}
	unlock, err := buildLock()
	if err != nil {
		return err
	}
	defer unlock()
	stamp := filepath.Join(outputOf(v), "built")
	if fresh(stamp) {
		return nil
	}
	repository, err := filepath.Abs(".m2")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(outputOf(v)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for range 3 { // a download may fail
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", "java/pom.xml",
			"-Dmaven.repo.local="+repository, "-Dredisson.version="+string(v), "compile")
		var out []byte
		if out, err = mvn.CombinedOutput(); err == nil {
			return os.WriteFile(stamp, nil, 0o600)
		}
		err = fmt.Errorf("mvn for Redisson %s: %w: %s", v, err, bytes.TrimSpace(out))
	}
	return err
}

// buildLock prevents two runs of the tests from building at the same time.
func buildLock() (unlock func(), err error) {
	if err := os.MkdirAll(".build", 0o750); err != nil {
		return nil, err
	}
	file, err := os.Create(".build/lock")
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = file.Close() }
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// fresh reports whether the stamp is newer than all files under java.
func fresh(stamp string) bool {
	made, err := os.Stat(stamp)
	if err != nil {
		return false
	}
	changed := errors.New("changed")
	return filepath.WalkDir("java", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := entry.Info(); err != nil || info.ModTime().After(made.ModTime()) {
			return changed
		}
		return nil
	}) == nil
}

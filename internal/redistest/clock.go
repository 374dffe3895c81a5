package redistest

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// shim is a library that is preloaded before the C library. It adds an offset, read from a shared file, to the time of day and
// to no other clock.
const shim = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead; /* seconds */

__attribute__((constructor)) static void begin(void) {
	int fd = open(getenv("RLOCK_AHEAD"), O_RDONLY);
	ahead = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int err = syscall(SYS_clock_gettime, id, ts);
	if (id == CLOCK_REALTIME) ts->tv_sec += *ahead;
	return err;
}

int gettimeofday(struct timeval *tv, void *zone) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (t) *t = ts.tv_sec;
	return ts.tv_sec;
}
`

// Clock sets the time of day of one server.
type Clock struct {
	tb   testing.TB
	file *os.File
}

// StartWithClock starts a server whose clock can be set. It needs Linux and a C compiler, and skips the test if either is
// missing.
func StartWithClock(tb testing.TB) (*Server, *Clock) {
	tb.Helper()
	cc, err := exec.LookPath("cc")
	if runtime.GOOS != "linux" || err != nil {
		tb.Skip("setting a server's clock needs Linux and a C compiler")
	}
	dir := tb.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	must(tb, os.WriteFile(source, []byte(shim), 0o600))
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		tb.Skipf("the C compiler cannot build the clock library: %v\n%s", err, out)
	}
	file, err := os.Create(filepath.Join(dir, "ahead"))
	must(tb, err)
	tb.Cleanup(func() { _ = file.Close() })
	clock := &Clock{tb, file}
	clock.Set(0)
	server := newServer(tb, freePort(tb))
	server.env = []string{"LD_PRELOAD=" + library, "RLOCK_AHEAD=" + file.Name()}
	tb.Cleanup(server.Kill)
	server.Run()
	return server, clock
}

// Set moves the server's clock ahead of the true time by whole seconds. A negative duration moves it behind.
func (c *Clock) Set(ahead time.Duration) {
	c.tb.Helper()
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)) // wraps around as in C
	_, err := c.file.WriteAt(seconds, 0)
	must(c.tb, err)
}

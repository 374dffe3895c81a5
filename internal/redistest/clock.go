package redistest

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest/host"
)

// shim is a library that is preloaded before the C library. It changes the time of day and no other clock, as a shared file says: it
// adds an offset, or stops the clock.
const shim = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *clocks; /* seconds ahead; microseconds at which it stands, or 0 */

__attribute__((constructor)) static void begin(void) {
	int fd = open(getenv("RLOCK_CLOCK"), O_RDONLY);
	clocks = mmap(0, 2 * sizeof *clocks, PROT_READ, MAP_SHARED, fd, 0);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int real = clocks && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE); /* without clocks it is before begin */
	long long stopped = real ? clocks[1] : 0;
	if (stopped) {
		ts->tv_sec = stopped / 1000000;
		ts->tv_nsec = stopped % 1000000 * 1000;
		return 0;
	}
	int err = syscall(SYS_clock_gettime, id, ts);
	if (real) ts->tv_sec += clocks[0];
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
	tb        testing.TB
	file      *os.File
	simulated host.Clock // nil means that the file has it
}

// StartWithClock starts a server whose clock can be set. It needs Linux and a C compiler, and skips the test if either is missing. If
// RLOCK_REQUIRE_REDIS is 1, it fails the test without a C compiler.
func StartWithClock(tb testing.TB) (*Server, *Clock) {
	tb.Helper()
	if host.Virtual {
		s := startSimulated(tb)
		return s, &Clock{simulated: s.simulated}
	}
	cc, err := exec.LookPath("cc")
	switch {
	case runtime.GOOS != "linux":
		tb.Skip("setting a server's clock needs Linux")
	case err != nil && requireRedis():
		tb.Fatalf("RLOCK_REQUIRE_REDIS=1, but setting a server's clock needs a C compiler: %v", err)
	case err != nil:
		tb.Skip("setting a server's clock needs a C compiler (Debian: apt-get install gcc libc6-dev)")
	}
	dir := tb.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	must(tb, os.WriteFile(source, []byte(shim), 0o600))
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		if requireRedis() {
			tb.Fatalf("RLOCK_REQUIRE_REDIS=1, but the C compiler cannot build the clock library: %v\n%s", err, out)
		}
		tb.Skipf("the C compiler cannot build the clock library: %v\n%s", err, out)
	}
	file, err := os.Create(filepath.Join(dir, "clock"))
	must(tb, err)
	tb.Cleanup(func() { _ = file.Close() })
	clock := &Clock{tb: tb, file: file}
	clock.write(0, 0)
	clock.write(1, 0)
	server := startFirst(tb, func() *Server {
		s := newServer(tb)
		s.env = []string{"LD_PRELOAD=" + library, "RLOCK_CLOCK=" + file.Name()}
		return s
	})
	return server, clock
}

// Set moves the server's clock ahead of the true time by whole seconds. A negative duration moves it behind.
func (c *Clock) Set(ahead time.Duration) {
	if c.simulated != nil {
		c.simulated.SetAhead(ahead)
		return
	}
	c.tb.Helper()
	c.write(0, int64(ahead/time.Second))
}

// Stop stops the server's clock at a time, to the microsecond. The next Stop moves it on.
func (c *Clock) Stop(at time.Time) {
	if c.simulated != nil {
		c.simulated.StopClock(at)
		return
	}
	c.tb.Helper()
	c.write(1, at.UnixMicro())
}

func (c *Clock) write(place, number int64) {
	c.tb.Helper()
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(number)), 8*place) // wraps around as in C
	must(c.tb, err)
}

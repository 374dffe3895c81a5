package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// intro tells a reader what the figures are.
const intro = `# Benchmarks

Made by ` + "`make bench`" + `; do not edit. rlock beside other lock libraries for Go on one redis-server, and the floor: a raw
go-redis pair, ` + "`EVALSHA` (SET NX PX) and `EVALSHA`" + ` (compare and DEL).

Absolute figures mean little, on a machine that others share less. What counts are the **ratios**: each is taken within one
round, in which the libraries take turns, and the median of all rounds is shown. Each cell is a process of its own, on an
emptied Redis; commands are those that clients send (` + "`INFO commandstats`" + `), without what scripts call. *Hand-offs* are
acquisitions by another goroutine than the last holder: a library whose releaser takes the lock straight back shows many
acquisitions and few hand-offs. Every contended cell counts under the lock, in memory that nothing else guards; a library
that loses an update is reported as broken.

All libraries are as they come, with go-redis's default options, but:

- bsm/redislock (which by itself does not wait) and redsync (by itself every 50 to 250 ms, 32 times) poll as often as was the best for
  them: every 1 ms, 2 ms in S4, 5 ms among 128.
- rueidislock is shown as it comes, which is three keys for each lock, and as m1: KeyMajority 1 and NoLoopTracking, what one
  server needs. m1 has a TryNextAfter of 1 s, for with its 20 ms a slow answer makes it wait for ever, even for a name that
  nobody else uses. (Its last waiters sometimes do so still: see "left waiting".)
- redsync is v4.17.0, the last for Go 1.25.
- rlock is shown as it comes, and in variants. rlock-lazy (WithLazyHandOver, and WithHandOver(1000, 5 ms)) hands the lock on
  within the process without asking Redis. What that gives up: a section may begin though the lock was taken away, by force or by
  a failover, since it was last offered to all, which is 5 ms ago at most. A hold that is renewed notices as late in either
  form. rlock-1 (WithHandOver(1, 5 ms)) offers the lock to all processes after every hand-over: it goes from process to
  process more often, and is passed on less often in all. rlock-pipelined is WithAutoPipeline.
- Not there: Redisson-like locks. The module proxy served none (me-cs/goRedisson, cheerego/go-redisson,
  jefferyjob/go-redislock and others that were looked for).

`

// writeReport writes benchmarks.md and its plots.
func (l *lab) writeReport(ctx context.Context, dir, args string, results []result) error {
	plots := filepath.Join(dir, "benchmarks")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString(l.circumstances(ctx, args))
	for _, r := range results {
		b.WriteString(r.markdown())
		for _, c := range charts(r) {
			drawn, err := c.draw(plots)
			if err != nil {
				return err
			}
			if drawn {
				fmt.Fprintf(&b, "![%s, %s](benchmarks/%s)\n\n", c.title, c.axis, c.file)
			}
		}
	}
	text := strings.TrimRight(b.String(), "\n") + "\n"
	return os.WriteFile(filepath.Join(dir, "benchmarks.md"), []byte(text), 0o644)
}

var (
	cpuModel     = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)
	redisVersion = regexp.MustCompile(`redis_version:(\S+)`)
)

// circumstances says when, where and with what it was measured.
func (l *lab) circumstances(ctx context.Context, args string) string {
	cpu := "an unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := cpuModel.FindSubmatch(info); m != nil {
			cpu = string(bytes.TrimSpace(m[1]))
		}
	}
	kernel, _ := exec.CommandContext(ctx, "uname", "-sr").Output()
	version := "?"
	if m := redisVersion.FindStringSubmatch(l.single.nodes[0].Info(ctx, "server").Val()); m != nil {
		version = m[1]
	}
	pinning := "with taskset"
	if l.cpus == "" {
		pinning = "without taskset: nothing is pinned"
	}
	return fmt.Sprintf(
		"%s, `bench %s`\n%d cores of %s, %s, %s\n%s, redis-server %s, %s\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), args,
		runtime.NumCPU(), cpu, strings.TrimSpace(string(kernel)), pinning,
		runtime.Version(), version, strings.Join(modules(), ", "),
	)
}

// modules returns the versions of what is compared, and of what that stands on.
func modules() []string {
	var versions []string
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, dep := range info.Deps {
		switch dep.Path {
		case "github.com/redis/go-redis/v9", "github.com/bsm/redislock", "github.com/go-redsync/redsync/v4",
			"github.com/redis/rueidis":
			versions = append(versions, strings.TrimPrefix(dep.Path, "github.com/")+" "+dep.Version)
		}
	}
	return versions
}

//go:build !wasip1

package simulation

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

var mini = flag.Bool("mini", false, "compare with miniredis instead")

var differential = flag.Int("differential", 0, "how many seeds to compare with a real server")

const shim = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long long *now;
__attribute__((constructor)) static void begin(void) {
	int fd = open(getenv("SIM_NOW"), O_RDONLY);
	now = mmap(0, sizeof *now, PROT_READ, MAP_SHARED, fd, 0);
}
int clock_gettime(clockid_t id, struct timespec *ts) {
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) { ts->tv_sec = *now / 1000000; ts->tv_nsec = *now % 1000000 * 1000; return 0; }
	return syscall(SYS_clock_gettime, id, ts);
}
int gettimeofday(struct timeval *tv, void *zone) { tv->tv_sec = *now / 1000000; tv->tv_usec = *now % 1000000; return 0; }
time_t time(time_t *t) { if (t) *t = *now / 1000000; return *now / 1000000; }
`

type real struct {
	t      *testing.T
	addr   string
	file   *os.File
	conn   *resp
	mini   *miniredis.Miniredis
	micros int64
}

type resp struct {
	c net.Conn
	r *bufio.Reader
}

func dialResp(t *testing.T, addr string) *resp {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &resp{c, bufio.NewReader(c)}
}

func (r *resp) send(args ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	_, _ = r.c.Write([]byte(b.String()))
}

func (r *resp) read() any {
	line, err := r.r.ReadString('\n')
	if err != nil {
		return err
	}
	line = strings.TrimRight(line, "\r\n")
	switch line[0] {
	case '+':
		return simredis.Status(line[1:])
	case '-':
		return simredis.Err(line[1:])
	case ':':
		n, _ := strconv.ParseInt(line[1:], 10, 64)
		return n
	case '$':
		n, _ := strconv.Atoi(line[1:])
		if n < 0 {
			return nil
		}
		b := make([]byte, n+2)
		_, _ = io.ReadFull(r.r, b)
		return string(b[:n])
	case '*':
		n, _ := strconv.Atoi(line[1:])
		if n < 0 {
			return nil
		}
		all := []any{}
		for range n {
			all = append(all, r.read())
		}
		return all
	}
	return line
}

func (r *resp) do(args ...string) any { r.send(args...); return r.read() }

func startReal(t *testing.T) *real {
	if *mini {
		m := miniredis.RunT(t)
		return &real{t: t, addr: m.Addr(), mini: m, conn: dialResp(t, m.Addr())}
	}
	dir := t.TempDir()
	src, lib, now := filepath.Join(dir, "c.c"), filepath.Join(dir, "c.so"), filepath.Join(dir, "now")
	_ = os.WriteFile(src, []byte(shim), 0o600)
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", lib, src).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	f, _ := os.Create(now)
	r := &real{t: t, file: f}
	r.set(946684800000000)
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	r.addr = l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(r.addr)
	cmd := exec.Command("redis-server", "--port", port, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", dir)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+lib, "SIM_NOW="+now)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 200 {
		if c, err := net.Dial("tcp", r.addr); err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.conn = dialResp(t, r.addr)
	return r
}

func (r *real) set(micros int64) {
	if r.mini != nil {
		if r.micros != 0 {
			r.mini.FastForward(time.Duration(micros/1000-r.micros/1000) * time.Millisecond)
		}
		r.micros = micros
		r.mini.SetTime(time.UnixMicro(micros))
		return
	}
	_, _ = r.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(micros)), 0)
}

func normal(v any) any {
	if e, ok := v.(simredis.Err); ok {
		text, _, _ := strings.Cut(string(e), " script: ")
		return simredis.Err(text)
	}
	return v
}

// TestDifferential compares the simulated server with a real one, whose clock is that of the simulation.
func TestDifferential(t *testing.T) {
	if *differential == 0 {
		t.Skip()
	}
	Recording = true
	defer func() { Recording = false }()
	commands, messages, differences, keys := 0, 0, 0, 0
	scripts := map[string]bool{}
	byScript := map[string]int{}
	defer func() { t.Log(byScript) }()
	for seed := *first; seed < *first+uint64(*differential); seed++ {
		s := swarm(seed)
		if *only != "swarm" {
			s = sceneOf(t)
		}
		if *length > 0 {
			s.Duration = *length
		}
		var kept []string
		for _, n := range s.Nemeses {
			if n != "restart" && n != "amnesia" && n != "failover" {
				kept = append(kept, n)
			}
		}
		s.Nemeses = kept
		var res *Result
		synctest.Test(t, func(*testing.T) { res = Play(s, seed, false) })
		real := startReal(t)
		conns := map[*simredis.Subscriber]*resp{}
		want := map[*simredis.Subscriber][]any{}
		began := time.Now()
		for i, e := range res.World.Events[:res.World.Last] {
			real.set(e.Micros)
			switch e.What {
			case "command":
				commands++
				if strings.HasPrefix(e.Args[0], "EVAL") {
					scripts[e.Args[1]] = true
				}
				if got := real.conn.do(e.Args...); !reflect.DeepEqual(normal(got), normal(e.Reply)) {
					if !*mini {
						_ = 0
					}
					byScript[short6(e.Args)]++
					if differences++; differences < 10 {
						t.Errorf("seed %d, event %d: %.400q\n real %v\n sim  %v", seed, i, e.Args, got, e.Reply)
					}
				}
			case "flush":
				real.conn.do("SCRIPT", "FLUSH")
			case "subscribe", "unsubscribe":
				c := conns[e.Sub]
				if c == nil {
					c = dialResp(t, real.addr)
					conns[e.Sub] = c
				}
				c.send(append([]string{e.What}, e.Args...)...)
				for _, ch := range e.Args { // messages may come before
					for {
						got, _ := c.read().([]any)
						if len(got) == 3 && got[0] == e.What && got[1] == ch {
							break
						}
						want[e.Sub] = expect(t, want[e.Sub], got, &differences)
						messages++
					}
				}
			case "drop":
				if c := conns[e.Sub]; c != nil {
					for len(want[e.Sub]) > 0 {
						got, _ := c.read().([]any)
						want[e.Sub] = expect(t, want[e.Sub], got, &differences)
						messages++
					}
					delete(conns, e.Sub)
					id := c.do("PING")
					_ = id
					_ = c.c.Close()
					for real.mini != nil && real.mini.CurrentConnectionCount() > len(conns)+1 {
						time.Sleep(50 * time.Microsecond)
					}
					for real.mini == nil && strings.Count(real.conn.do("CLIENT", "LIST", "TYPE", "pubsub").(string), "\n") > subscribed(conns) {
						time.Sleep(50 * time.Microsecond)
					}
				}
			case "message":
				want[e.Sub] = append(want[e.Sub], []any{"message", e.Args[0], e.Args[1]})
			}
		}
		// the keyspaces
		final := simredis.New(func() time.Time { return res.World.FinalAt })
		final.Reset(res.World.Final)
		real.set(res.World.FinalAt.UnixMicro())
		a, b := dumpSim(final), dumpReal(real.conn)
		if !reflect.DeepEqual(a, b) {
			differences++
			t.Errorf("seed %d: keyspaces differ:\nsim  %v\nreal %v", seed, a, b)
		}
		for _, c := range conns {
			_ = c.c.Close()
		}
		keys += len(a)
		_ = began
	}
	t.Logf("%d commands by %d scripts, %d messages, %d keys: %d differences", commands, len(scripts), messages, keys, differences)
}

func short6(a []string) string {
	if len(a) > 1 && len(a[1]) == 40 {
		return a[0] + " " + a[1][:6]
	}
	return a[0]
}

func subscribed(conns map[*simredis.Subscriber]*resp) int { return len(conns) }

func expect(t *testing.T, want []any, got []any, differences *int) []any {
	if len(want) == 0 || !reflect.DeepEqual(want[0], any(got)) {
		*differences++
		t.Errorf("message %v, want %.600s", got, fmt.Sprint(want))
		t.FailNow()
	}
	return want[1:]
}

func dumpSim(s *simredis.Server) (all []string) {
	for _, k := range s.Keys() {
		all = append(all, dumpKey(k, s.Do))
	}
	sort.Strings(all)
	return all
}

func dumpReal(c *resp) (all []string) {
	keys, _ := c.do("KEYS", "*").([]any)
	for _, k := range keys {
		all = append(all, dumpKey(k.(string), c.do))
	}
	sort.Strings(all)
	return all
}

func dumpKey(k string, do func(...string) any) string {
	kind := do("TYPE", k)
	var v any
	switch kind {
	case simredis.Status("hash"):
		list := do("HGETALL", k).([]any)
		var pairs []string
		for i := 0; i < len(list); i += 2 {
			pairs = append(pairs, fmt.Sprint(list[i], "=", list[i+1]))
		}
		sort.Strings(pairs)
		v = pairs
	case simredis.Status("zset"):
		v = do("ZRANGE", k, "0", "-1", "WITHSCORES")
	case simredis.Status("list"):
		v = do("LRANGE", k, "0", "-1")
	case simredis.Status("string"):
		v = do("GET", k)
	}
	return fmt.Sprint(k, " ", kind, " ", do("PTTL", k), " ", v)
}

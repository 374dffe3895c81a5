//go:build unix

package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

// TestFigureOfAHundredThousandLocks measures how long ls takes for them, its memory, and for how long it keeps Redis from others.
func TestFigureOfAHundredThousandLocks(t *testing.T) {
	if os.Getenv("RLOCK_FIGURES") == "" {
		t.Skip("RLOCK_FIGURES=1 go test -v -run TestFigure ./internal/cli")
	}
	server := redistest.Start(t)
	rdb := server.Client(t)
	ctx := t.Context()
	const locks = 100_000
	for first := 0; first < locks; first += 1000 {
		pipe := rdb.Pipeline()
		for i := first; i < first+1000; i++ {
			pipe.HSet(ctx, fmt.Sprint("many:", i), fmt.Sprintf("71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:%d", i), 1)
			pipe.PExpire(ctx, fmt.Sprint("many:", i), time.Hour)
		}
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, rdb.ConfigSet(ctx, "slowlog-log-slower-than", "100").Err())
	for what, args := range map[string][]string{
		"one": {"--prefix", "many:77777"}, "table": {"--prefix", "many:"}, "JSON": {"--all", "--json"},
	} {
		require.NoError(t, rdb.SlowLogReset(ctx).Err())
		began, pings := time.Now(), slowestPing(t, server)
		p := program.Start(t, server.Addr, append([]string{"ls"}, args...)...)
		<-p.Ended
		took, ping := time.Since(began), pings()
		require.Zero(t, p.Code())
		slowest := time.Duration(0)
		for _, entry := range rdb.SlowLogGet(ctx, 128).Val() {
			slowest = max(slowest, entry.Duration)
		}
		usage, _ := p.ProcessState.SysUsage().(*syscall.Rusage)
		t.Logf("%s: %d lines in %v; memory %d MB; slowest command %v; slowest PING of somebody else %v",
			what, strings.Count(p.Out.String(), "\n"), took.Round(time.Millisecond), usage.Maxrss>>10, slowest, ping)
	}
}

// slowestPing measures how long Redis keeps somebody else waiting, until the result is asked for.
func slowestPing(t *testing.T, server *redistest.Server) func() time.Duration {
	t.Helper()
	rdb := server.Client(t)
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		slowest := time.Duration(0)
		for {
			select {
			case <-stop:
				result <- slowest
				return
			default:
				began := time.Now()
				_ = rdb.Ping(t.Context()).Err()
				slowest = max(slowest, time.Since(began))
			}
		}
	}()
	return func() time.Duration { close(stop); return <-result }
}

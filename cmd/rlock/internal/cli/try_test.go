//go:build unix

package cli

import (
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

// TestDoctorTries says what works, with the exit code of what does not. Interrupted, it leaves nothing behind.
func TestDoctorTries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	code, out, errs := command(t, server.Addr, "doctor", "--try", "--kinds", "count-down latch", "--key-prefix", "app:")
	require.Zero(t, code, errs)
	require.Contains(t, out, "ok       try          count-down latch: a message woke the caller that waited for it.\n")
	require.Contains(t, out, "ok       try          removal: ")
	require.Zero(t, rdb.DBSize(t.Context()).Val())

	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	code, out, errs = command(t, server.Addr, "doctor", "--try", "--kinds", "count-down latch")
	require.Equal(t, 26, code, errs)
	require.Contains(t, out, "problem  try          count-down latch: fails: try set count: OOM")
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())

	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) { // as by nohup, and then by the command, too
			continue
		}
		p := program.StartWith(t, server.Addr, func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // on no terminal, where it would end by the signal
		}, "doctor", "--try")
		redistest.EventuallyWithin(t, time.Minute, "it is under way", func() bool { return rdb.DBSize(t.Context()).Val() > 0 })
		p.Signal(s)
		require.Equal(t, exitSignal+int(s), p.Code())
		require.Equal(t, "rlock: interrupted\n", p.Errs.String())
		require.Zero(t, rdb.DBSize(t.Context()).Val())
	}
	p := program.Start(t, server.Addr, "doctor", "--try")
	p.Says("ok       try          lock: ")
	select {
	case <-p.Ended:
		require.Fail(t, "each line comes as it is known, and there are ten seconds of them")
	default:
	}
	p.Signal(syscall.SIGTERM)
	p.Code()
	code, _, errs = command(t, server.Addr, "doctor", "--try", "--services-user", "app")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "acts as the user that connects")
}

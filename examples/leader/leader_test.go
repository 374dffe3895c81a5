package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

func TestMain(m *testing.M) {
	program.Run(main)
	os.Exit(m.Run())
}

// TestOneLeads has another instance lead when one is told to end, and when one is killed.
func TestOneLeads(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	told := program.Start(t, addr)
	told.Says("work 2")
	killed := program.Start(t, addr)
	killed.Says("campaigns")
	require.False(t, killed.Said("leads"))
	began := time.Now()
	told.Signal(syscall.SIGTERM)
	killed.Says("leads")
	t.Logf("it leads %v after the other was told to end", time.Since(began))
	killed.Says("work 2")
	require.True(t, told.Said("does not lead any more"))
	last := program.Start(t, addr)
	last.Says("campaigns")
	began = time.Now()
	killed.Kill()
	last.Says("work 1")
	t.Logf("it leads %v after the other was killed, whose lease was %v", time.Since(began), lease)
}

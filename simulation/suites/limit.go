package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runFor runs a process for so much CPU time at most, and tells it to say where each goroutine is if that does not suffice: a goroutine
// that never pauses keeps package testing from noticing. A machine that is busy with something else does not matter.
func runFor(cmd *exec.Cmd, most time.Duration) error {
	const patience = 20 // for a process that waits for what is no part of its bubble
	ctx, cancel := context.WithTimeout(context.Background(), patience*most)
	defer cancel()
	if err := cmd.Start(); err != nil {
		return err
	}
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = cmd.Wait()
	}()
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return failed
		case <-look.C:
			if cpuTime(cmd.Process.Pid) <= most {
				continue
			}
		case <-ctx.Done():
		}
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		return errors.New("it took too long")
	}
}

// cpuTime returns how much CPU time a running process has taken. It is zero where there is no /proc.
func cpuTime(pid int) time.Duration {
	const ticks = 100 // a second
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if err != nil || len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}

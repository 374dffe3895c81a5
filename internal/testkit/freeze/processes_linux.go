package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// adopt makes this process the parent of its descendants whose parents end. So all that the command starts descends from it for good.
func adopt() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("prctl: %w", errno)
	}
	return nil
}

// await waits until a process has ended, and meanwhile for all adopted ones: nobody else does, and tests wait until they are gone.
func await(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil || ended == pid:
			return status
		}
	}
}

// stop stops all processes that descend from one, and returns them. A parent is stopped before its children, so that it cannot start, stop
// or continue one in between. Those that somebody has stopped already are left out: it is not for this program to continue them.
func stop(root int) (stopped []int) {
	for grown := true; grown; { // a process may have been started while its parent was yet to be stopped
		grown = false
		for _, pid := range descendants(root) {
			if slices.Contains(stopped, pid) || state(pid) == 'T' || syscall.Kill(pid, syscall.SIGSTOP) != nil {
				continue
			}
			stopped, grown = append(stopped, pid), true
			for i := 0; i < 100 && !slices.Contains([]byte("TZX\x00"), state(pid)); i++ {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	return stopped
}

// resume continues processes, children first: a shell whose child is stopped would be told so.
func resume(stopped []int) {
	for _, pid := range slices.Backward(stopped) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// descendants returns the children of a process, then theirs, and so on.
func descendants(root int) (all []int) {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			_, parent := stat(pid)
			children[parent] = append(children[parent], pid)
		}
	}
	for next := children[root]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all
}

// state returns the state of a process as /proc has it, such as R (runs), T (is stopped) and Z (has ended), or 0 if there is none.
func state(pid int) byte {
	state, _ := stat(pid)
	return state
}

// stat returns the state of a process, and its parent.
func stat(pid int) (state byte, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The name of the program stands in parentheses, and may contain anything.
	_, _ = fmt.Sscanf(string(text[bytes.LastIndexByte(text, ')')+1:]), " %c %d", &state, &parent)
	return state, parent
}

package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of the processes that its descendants leave behind, so that it can wait for them, and they
// stay its descendants.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// dieWithParent has Linux kill the program if this process dies. Otherwise it would go on without a lock.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// descendants returns the processes that descend from this one, and live.
func descendants() (all []process) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close() //nolint:errcheck // it was only read
	names, _ := proc.Readdirnames(-1)
	parents, groups := make(map[int]int), make(map[int]int)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name of the program, in parentheses, may have anything in it.
		var state string
		var parent, group int
		rest := stat[bytes.LastIndexByte(stat, ')')+1:]
		if n, _ := fmt.Sscan(string(rest), &state, &parent, &group); n == 3 && state != "Z" {
			parents[pid], groups[pid] = parent, group
		}
	}
	self := os.Getpid()
	for pid, group := range groups {
		at := parents[pid]
		for at > 1 && at != self {
			at = parents[at]
		}
		if at == self && pid != self {
			all = append(all, process{pid, group})
		}
	}
	return all
}

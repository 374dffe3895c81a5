package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of the processes that its descendants leave behind, so that it can wait for them. Without the
// right to that, it waits for the program alone.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// dieWithParent has Linux kill the program if this process dies. Otherwise it would go on without a lock.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

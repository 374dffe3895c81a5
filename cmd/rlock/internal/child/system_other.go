//go:build unix && !linux

package child

import "syscall"

// Only Linux can do these.
func adopt() {}

func dieWithParent(*syscall.SysProcAttr) {}

func descendants() []process { return nil }

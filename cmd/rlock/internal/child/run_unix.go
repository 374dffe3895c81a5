//go:build unix

package child

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Run runs the program, and returns its exit code: 128 and the number of the signal, if one ended it. When ctx ends, what OnLost says
// happens. Run returns when the program has exited and, on Linux, all processes that it left behind in its group have.
//
// If this process dies, Linux kills the program, but not the processes that the program has started.
func Run(ctx context.Context, p Program) (code int, err error) {
	t := takeTerminal(p.Stdin)
	defer t.giveBack()
	events := make(chan event)
	started := make(chan error, 1)
	var pid int
	go func() {
		// The program dies with the thread that starts it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(events)
		var err error
		pid, err = start(p, t)
		started <- err
		if err == nil {
			watch(pid, events)
		}
	}()
	if err := <-started; err != nil {
		return 0, err
	}
	return follow(ctx, p, t, pid, events), nil
}

// event is a change of the program.
type event struct {
	stopped bool // it waits for SIGCONT, rather than having exited
	code    int
}

func start(p Program, t *terminal) (int, error) {
	adopt()
	attr := &syscall.SysProcAttr{Setpgid: true}
	if t != nil {
		attr.Foreground, attr.Ctty = true, t.fd
	}
	dieWithParent(attr)
	process, err := os.StartProcess(p.Path, p.Args, &os.ProcAttr{Env: p.Env, Files: []*os.File{p.Stdin, p.Stdout, p.Stderr}, Sys: attr})
	if err != nil {
		return 0, err
	}
	pid := process.Pid
	return pid, process.Release() // watch waits for it
}

// watch sends what becomes of the program, and returns when nothing is left of its group.
func watch(pid int, events chan<- event) {
	for exited := false; !exited; {
		var status syscall.WaitStatus
		if _, err := wait(pid, &status, syscall.WUNTRACED); err != nil {
			events <- event{code: 255} // somebody else has waited for it
			return
		}
		switch {
		case status.Stopped():
			events <- event{stopped: true}
		case status.Signaled():
			events <- event{code: 128 + int(status.Signal())}
			exited = true
		default:
			events <- event{code: status.ExitStatus()}
			exited = true
		}
	}
	for { // The orphans of the group are children of this process now, see adopt.
		var status syscall.WaitStatus
		if _, err := wait(-pid, &status, 0); err != nil {
			return
		}
	}
}

func wait(pid int, status *syscall.WaitStatus, options int) (int, error) {
	for {
		got, err := syscall.Wait4(pid, status, options, nil)
		if !errors.Is(err, syscall.EINTR) {
			return got, err
		}
	}
}

// follow passes signals on until the program and its group have ended.
func follow(ctx context.Context, p Program, t *terminal, pid int, events <-chan event) (code int) {
	lost := ctx.Done()
	if p.OnLost == Keep {
		lost = nil
	}
	var grace <-chan time.Time
	for {
		select {
		case e, more := <-events:
			switch {
			case !more:
				return code
			case e.stopped:
				t.suspend(pid)
			default:
				code = e.code
			}
		case s := <-p.Signals:
			if s, ok := s.(syscall.Signal); ok {
				send(pid, s)
			}
		case <-lost:
			lost = nil
			if p.OnLost == Kill {
				send(pid, syscall.SIGKILL)
				continue
			}
			send(pid, syscall.SIGTERM)
			send(pid, syscall.SIGCONT) // a stopped one would not see the other
			timer := time.NewTimer(p.Grace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			send(pid, syscall.SIGKILL)
		}
	}
}

// send sends a signal to the group. That fails if nobody is left in it.
func send(pid int, s syscall.Signal) { _ = syscall.Kill(-pid, s) }

// terminal is the terminal of a program that a person runs. Nil means that there is none. Like a shell, rlock gives it to the program's
// group, so that the program can read from it, and that Ctrl-C reaches the program.
type terminal struct {
	fd  int
	own int // the group of this process
}

// takeTerminal returns the terminal, if this process has it.
func takeTerminal(stdin *os.File) *terminal {
	if stdin == nil {
		return nil
	}
	fd := int(stdin.Fd())
	own := unix.Getpgrp()
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != own {
		return nil
	}
	return &terminal{fd, own}
}

// give gives the terminal to a group. Done from the background, that would stop this process. The program must not inherit that the
// signal is ignored, so it is only while this runs.
func (t *terminal) give(group int) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}

func (t *terminal) giveBack() {
	if t != nil {
		t.give(t.own)
	}
}

// suspend stops this process too, as Ctrl-Z stops all of a job, until the shell continues it. The lease may end meanwhile.
func (t *terminal) suspend(pid int) {
	if t == nil {
		return // whoever stopped the program will continue it
	}
	t.give(t.own)
	_ = syscall.Kill(0, syscall.SIGSTOP)
	if group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && group == t.own {
		t.give(pid)
	}
	send(pid, syscall.SIGCONT)
}

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
)

// Run runs the program, and returns its exit code: 128 and the number of the signal, if one ended it. When ctx ends, what OnLost says
// happens. Run returns when the program has exited and, on Linux, so have all processes of its group that it left behind.
//
// On a terminal the program is in the group of this process, so that Ctrl-C, Ctrl-Z, fg and bg reach both, and pipes to programs that
// use the terminal work. Elsewhere it has a group of its own.
//
// If this process dies, Linux kills the program, but not the processes that the program has started, and no program that runs as another
// user.
func Run(ctx context.Context, p Program) (code int, err error) {
	r := &run{Program: p, exits: make(chan exit), over: make(chan struct{})}
	defer close(r.over)
	r.shared = Terminal()
	stops := make(chan os.Signal, 4)
	if !r.shared {
		signal.Notify(stops, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
		defer signal.Stop(stops)
	}
	started := make(chan error, 1)
	go func() {
		// The program dies with the thread that starts it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.start()
		started <- err
		if err == nil {
			r.reap()
		}
	}()
	if err := <-started; err != nil {
		return 0, err
	}
	return r.follow(ctx, stops), nil
}

// Terminal reports whether a person runs this process on a terminal.
func Terminal() bool {
	tty, err := os.Open("/dev/tty") // there is none without a controlling terminal
	if err != nil {
		return false
	}
	return tty.Close() == nil
}

// run is a program that runs.
type run struct {
	Program

	shared bool // the program is in the group of this process
	pid    int
	exits  chan exit
	over   chan struct{} // closed when nobody takes exits any more
}

// exit is the end of the program, or of another process that was left to this one.
type exit struct{ pid, code int }

func (r *run) start() error {
	adopt()
	attr := &syscall.SysProcAttr{Setpgid: !r.shared}
	dieWithParent(attr)
	process, err := os.StartProcess(r.Path, r.Args, &os.ProcAttr{Env: r.Env, Files: []*os.File{r.Stdin, r.Stdout, r.Stderr}, Sys: attr})
	if err != nil {
		return err
	}
	r.pid = process.Pid
	return process.Release() // reap waits for it
}

// reap waits for all processes that are left to this one, so that none stays a zombie.
func (r *run) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		e := exit{pid, status.ExitStatus()}
		switch {
		case err != nil:
			e = exit{} // nobody is left
		case status.Signaled():
			e.code = 128 + int(status.Signal())
		}
		select {
		case r.exits <- e:
		case <-r.over:
			return
		}
		if err != nil {
			return
		}
	}
}

// follow passes signals on until the program and its group have ended, and returns the program's exit code.
func (r *run) follow(ctx context.Context, stops <-chan os.Signal) (code int) {
	lost := ctx.Done()
	if r.OnLost == Keep {
		lost = nil
	}
	var grace, look <-chan time.Time
	running := true
	for {
		select {
		case e := <-r.exits:
			if e.pid == r.pid {
				running, code = false, e.code
			}
			if !running && (e.pid == 0 || !r.left()) {
				return code
			}
		case <-look:
			if !r.left() {
				return code
			}
		case s := <-r.Signals:
			r.pass(s)
		case <-stops:
			r.suspend()
		case <-lost:
			lost = nil
			if r.OnLost == Kill {
				r.sendAll(syscall.SIGKILL)
				continue
			}
			r.sendAll(syscall.SIGTERM)
			r.sendAll(syscall.SIGCONT) // a stopped one would not see the other
			timer := time.NewTimer(r.Grace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			r.sendAll(syscall.SIGKILL)
		}
		if look = nil; !running {
			look = time.After(100 * time.Millisecond) // nobody tells of the end of a process whose parent lives
		}
	}
}

// pass passes a signal on. A terminal has sent those of its keys to the program, too.
func (r *run) pass(s os.Signal) {
	number, ok := s.(syscall.Signal)
	if !ok || r.shared && (number == syscall.SIGINT || number == syscall.SIGQUIT) {
		return
	}
	r.send(number)
	if number != syscall.SIGUSR1 && number != syscall.SIGUSR2 {
		r.send(syscall.SIGCONT) // a stopped one would not see the other
	}
}

// send sends a signal to the program, and to its group if that is its own. That fails if nobody is left.
func (r *run) send(s syscall.Signal) {
	if r.shared {
		_ = syscall.Kill(r.pid, s)
	} else {
		_ = syscall.Kill(-r.pid, s)
	}
}

// sendAll sends a signal to the program and to all that it has started, as far as the system tells.
func (r *run) sendAll(s syscall.Signal) {
	r.send(s)
	for _, p := range descendants() {
		if p.pid != r.pid {
			_ = syscall.Kill(p.pid, s)
		}
	}
}

// left reports whether processes of the program's group are left.
func (r *run) left() bool {
	group := r.pid
	if r.shared {
		group = syscall.Getpgrp()
	}
	for _, p := range descendants() {
		if p.group == group {
			return true
		}
	}
	return false
}

// suspend stops the program, and then this process, until somebody continues it. The lease may end meanwhile; then the program is told so
// as soon as it goes on.
func (r *run) suspend() {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	r.send(syscall.SIGSTOP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-resumed
	r.send(syscall.SIGCONT)
}

// process is a process that descends from this one.
type process struct{ pid, group int }

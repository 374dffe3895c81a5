package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/child"
	"github.com/go-rlock/rlock/cmd/rlock/internal/deploy"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// runFlags are the flags of run.
type runFlags struct {
	wait       string
	ttl, grace time.Duration
	fair       bool
	permits    int
	limited    bool // permits was given
	onLost     string
	conflict   int
	atLeast    time.Duration
	anonymous  bool
	quiet      bool
}

func (a *app) run() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run NAME -- COMMAND [ARGUMENT...]", Short: "Run a program while a lock is held",
		Long: `run runs a program while it holds the lock NAME, so that on all machines together it runs once at a time, or at most --permits times.

The program is run directly, without a shell, with the environment's RLOCK_NAME and, unless --permits is given, RLOCK_TOKEN: a number
that is greater than that of every earlier holder, with which a database can refuse a late write. Its input and output are those of
rlock. On a terminal, Ctrl-C, Ctrl-Z, fg and bg work as if rlock were not there. Without one, the program has a process group of its own,
to which rlock passes signals on. The lock is released when the program has exited and, on Linux, so have the processes that it left in
its group. If rlock is killed with SIGKILL, Linux kills the program too, but neither the processes that it has started nor a program
that runs as another user (sudo). While rlock is stopped with SIGSTOP, nothing renews the lock.

With --at-least, the lock stays taken for so long, so that of several machines with the same crontab one runs the program, even if that
fails, or is done before another machine's clock strikes. Choose a time that is longer than the clocks differ, and at most nine tenths of the interval.

The lease is renewed while the program runs. If Redis cannot be reached for --ttl, or somebody else deletes the lock, the lock is
lost: the program gets SIGTERM, and after --grace SIGKILL. Until it has exited, another one may run. With --on-lost kill, it is
killed at once.

The exit code is that of the program, or 128 and the number of the signal that ended it. Those of rlock are:
  75   another owner has held the lock for all of --wait (-E changes this code, and --quiet drops the message)
  69   Redis is unavailable, so nobody knows who has the lock; the program has not run
  76   the lock was lost while the program ran, whatever the program's own code is
  126  the program cannot be executed     127  there is no such program
  64   wrong arguments                    70   another error; the program has not run`,
		Example: `  rlock run nightly-report --wait 0 -- /usr/local/bin/report --all
  rlock run deploy --wait 10m --fair -- ./deploy.sh
  rlock run thumbnails --permits 3 -- convert in.png out.jpg
  */5 * * * * rlock run sync --wait 0 --quiet -E 0 --at-least 4m -- /usr/local/bin/sync   # in the crontab of each machine`,
		Args: takes("NAME", "COMMAND", more),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 {
				return usage(errors.New("the program comes after NAME and --, as in: rlock run NAME -- COMMAND"))
			}
			f.limited = cmd.Flags().Changed("permits")
			switch {
			case f.limited && f.fair:
				return exclude("fair", "permits")
			case f.limited && cmd.Flags().Changed("at-least"):
				return exclude("at-least", "permits")
			}
			return a.runProgram(args[0], args[1:], &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.wait, "wait", "10s", "how long to wait for the lock: a duration, 0 for a single attempt, or forever")
	fs.DurationVar(&f.ttl, "ttl", 10*time.Second, "the lease: if rlock dies, or cannot reach Redis for so long, the lock is free")
	fs.DurationVar(&f.grace, "grace", 10*time.Second, "after a loss, time from SIGTERM to SIGKILL")
	fs.BoolVar(&f.fair, "fair", false, "serve those who wait in the order in which they came; all users of NAME must say so")
	fs.DurationVar(&f.atLeast, "at-least", 0, "keep the lock for so long from its acquisition, even if the program ends before")
	fs.IntVar(&f.permits, "permits", 0, "let `n` programs run at a time: NAME is a semaphore with n permits, which the first one sets up")
	fs.StringVar(&f.onLost, "on-lost", "term", "what to do when the lock is lost: term, kill, or keep the program running")
	fs.IntVarP(&f.conflict, "conflict-exit-code", "E", exitNotAcquired, "exit code if another owner has the lock, as of flock")
	fs.BoolVar(&f.anonymous, "anonymous", false, "do not write into Redis which program, host and process it is that holds the lock")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "do not say that another owner has the lock; failures are told nevertheless")
	completes(cmd, "on-lost", "term", "kill", "keep")
	return cmd
}

// job is a program that is to be run.
type job struct {
	name    string
	program child.Program
	wait    []rlock.AcquireOption // none to wait forever
	signals chan os.Signal
}

// check makes a job of the arguments, before anything is sent.
func (a *app) check(name string, args []string, f *runFlags) (*job, error) {
	path, err := exec.LookPath(args[0])
	_, there := os.Stat(args[0])
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // the user's PATH has the current directory
	case errors.Is(err, os.ErrPermission), filepath.Base(args[0]) != args[0] && there == nil:
		return nil, &exit{code: exitNotRunnable, err: fmt.Errorf("cannot execute %s", shown(args[0]))}
	default:
		return nil, &exit{code: exitNotFound, err: fmt.Errorf("cannot find %s", shown(args[0]))}
	}
	j := &job{name: name, signals: make(chan os.Signal, 16)}
	if f.wait != "forever" {
		wait, err := time.ParseDuration(f.wait)
		if err != nil || wait < 0 {
			return nil, usage(fmt.Errorf("--wait is %q, neither a duration such as 10s nor forever", f.wait))
		}
		j.wait = append(j.wait, rlock.Wait(wait))
	}
	onLost := child.OnLost(f.onLost)
	switch {
	case onLost != child.Term && onLost != child.Kill && onLost != child.Keep:
		return nil, usage(fmt.Errorf("--on-lost is %q, none of term, kill and keep", f.onLost))
	case f.grace < 0:
		return nil, usage(fmt.Errorf("--grace is %v, less than 0", f.grace))
	case f.conflict < 0 || f.conflict > 255:
		return nil, usage(fmt.Errorf("-E is %d, not from 0 to 255", f.conflict))
	}
	if err := f.bounds(); err != nil {
		return nil, usage(err)
	}
	j.program = child.Program{
		Path: path, Args: args, Env: append(outerEnv(), "RLOCK_NAME="+name), Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		OnLost: onLost, Grace: f.grace,
	}
	return j, nil
}

// The bounds of the library: see [rlock.RenewedLease] and [rlock.AtLeast].
const (
	minTTL     = 100 * time.Millisecond
	minAtLeast = time.Millisecond
	maxTime    = 100 * 365 * 24 * time.Hour
)

// bounds returns what is wrong with the numbers that the library would refuse, in words of the flags.
func (f *runFlags) bounds() error {
	switch {
	case f.ttl < minTTL:
		return fmt.Errorf("--ttl is %v, less than %v", f.ttl, minTTL)
	case f.ttl > maxTime:
		return fmt.Errorf("--ttl is %v, more than 100 years", f.ttl)
	case f.atLeast != 0 && f.atLeast < minAtLeast:
		return fmt.Errorf("--at-least is %v, less than %v", f.atLeast, minAtLeast)
	case f.atLeast > maxTime:
		return fmt.Errorf("--at-least is %v, more than 100 years", f.atLeast)
	case f.limited && f.permits < 1:
		return fmt.Errorf("--permits is %d, less than 1", f.permits)
	case f.permits > wire.MaxPermits:
		return fmt.Errorf("--permits is %d, more than %d", f.permits, wire.MaxPermits)
	}
	return nil
}

// outerEnv returns the environment without what another run has put there, around this one.
func outerEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(value string) bool {
		return strings.HasPrefix(value, "RLOCK_NAME=") || strings.HasPrefix(value, "RLOCK_TOKEN=")
	})
}

func (a *app) runProgram(name string, args []string, f *runFlags) error {
	j, err := a.check(name, args, f)
	if err != nil {
		return err
	}
	var opts []rlock.Option
	if !f.anonymous {
		id := rlock.AutoIdentity()
		id.Service = filepath.Base(args[0])
		opts = append(opts, rlock.WithIdentity(id))
	}
	rdb, locks, where, finish, err := a.open(opts...)
	if err != nil {
		return err
	}
	defer finish()
	_, away := a.config.Check(context.Background(), rdb, where)
	if errors.Is(away, deploy.ErrConfig) {
		return away
	}
	lock := locks.NewLock(name, rlock.Fenced())
	if f.fair {
		lock = locks.NewFairLock(name, rlock.Fenced())
	}
	do := lock.Do
	if f.permits > 0 {
		do = locks.NewSemaphore(name, rlock.Total(f.permits)).Do
	}
	for _, s := range forwarded {
		if !signal.Ignored(s) { // such as SIGHUP by nohup
			signal.Notify(j.signals, s)
		}
	}
	defer signal.Stop(j.signals)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // nobody may read the warnings, but they must not end the program
	defer signal.Stop(broken)
	terms := append(j.wait, rlock.RenewedLease(f.ttl))
	if f.atLeast > 0 {
		terms = append(terms, rlock.AtLeast(f.atLeast))
	}
	code, err := j.under(do, lock, terms)
	if err != nil {
		return a.notRun(j, f, where, err, away)
	}
	if code != 0 {
		return &exit{code: code, interrupted: code == exitSignal+int(syscall.SIGINT) && child.Terminal()}
	}
	return nil
}

// notRun returns what to say if the program was not run, or if its lock was not held until its end. away is why Redis could not be asked
// before, or nil.
func (a *app) notRun(j *job, f *runFlags, where string, err, away error) error {
	what, part := lockNamed(j.name), lockNamed(j.name)
	if f.limited {
		what = "all permits of semaphore " + fault.Quote(j.name)
		part = "a permit of semaphore " + fault.Quote(j.name)
	}
	var known *exit
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, rlock.ErrLost):
		why := strings.TrimPrefix(reason(err), reason(rlock.ErrLost))
		return &exit{code: exitLost, err: fmt.Errorf("%s was lost while the program ran%s", part, why)}
	case errors.Is(err, rlock.ErrNotAcquired) && f.quiet:
		return &exit{code: f.conflict}
	case errors.Is(err, rlock.ErrNotAcquired):
		was := "is taken"
		if f.limited {
			was = "are taken"
		}
		if len(j.wait) > 0 && f.wait != "0" {
			was = strings.Replace(strings.Replace(was, "is", "was", 1), "are", "were", 1) + " for all of --wait " + f.wait
		}
		return &exit{code: f.conflict, err: fmt.Errorf("%s %s, so the program has not run", what, was)}
	case code(err) == exitUsage: // which is not about Redis
		return usage(errors.New(reason(err)))
	case away != nil && errors.Is(err, rlock.ErrUnavailable):
		err = away // which says more
	}
	return a.asked("take "+part, where, err)
}

// doing is the Do of a lock or of a semaphore.
type doing func(ctx context.Context, fn func(context.Context) error, opts ...rlock.AcquireOption) error

// under runs the program under a lock or with a permit, and returns its exit code. The program gets the token of the lock if that is held.
func (j *job) under(do doing, lock *rlock.Lock, opts []rlock.AcquireOption) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var interrupted atomic.Int32
	held, waited := make(chan struct{}), make(chan struct{})
	go func() { // until the lock is held, a signal ends the wait
		defer close(waited)
		select {
		case s := <-j.signals:
			number, _ := s.(syscall.Signal)
			interrupted.Store(int32(number))
			cancel()
		case <-held:
		case <-ctx.Done():
		}
	}()
	var notRun error
	ran := false
	err = do(ctx, func(ctx context.Context) error {
		close(held)
		<-waited
		if ctx.Err() != nil { // lost, or interrupted, before it began
			return context.Cause(ctx)
		}
		hold, _ := rlock.HoldFrom(ctx, lock)
		if token := hold.Token(); token != 0 {
			j.program.Env = append(j.program.Env, "RLOCK_TOKEN="+strconv.FormatUint(uint64(token), 10))
		}
		j.program.Signals = j.signals
		code, notRun = child.Run(ctx, j.program)
		ran = notRun == nil
		return nil
	}, opts...)
	switch number := interrupted.Load(); {
	case number != 0:
		return exitSignal + int(number), nil
	case errors.Is(err, rlock.ErrLost):
		return 0, err
	case notRun != nil:
		return 0, &exit{code: exitNotRunnable, err: notRun}
	case ran: // and if its lock could not be released then, that has been logged
		return code, nil
	}
	return 0, err
}

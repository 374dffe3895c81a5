// Command freeze runs a command on a machine that stands still now and then: it stops all processes of the command at once, for 50 to
// 500 ms every 3 s, as a virtual machine that gets no CPU does. It exits with the code of the command. It is for developers of rlock: see
// `make freeze`.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	every := flag.Duration("every", 3*time.Second, "how much time lies between the beginnings of two freezes")
	shortest := flag.Duration("shortest", 50*time.Millisecond, "the shortest freeze")
	longest := flag.Duration("longest", 500*time.Millisecond, "the longest freeze")
	flag.Parse()
	if flag.NArg() == 0 || *shortest <= 0 || *longest < *shortest || *every < *longest {
		fmt.Fprintln(os.Stderr, "usage: freeze [-every 3s] [-shortest 50ms] [-longest 500ms] command [argument ...]")
		os.Exit(2)
	}
	code, err := run(flag.Args(), func() (pause, frozen time.Duration) {
		frozen = *shortest + rand.N(*longest-*shortest+1)
		return *every - frozen, frozen
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "freeze:", err)
	}
	os.Exit(code)
}

// run runs a command until it ends. For ever again it waits for a pause, and then freezes the command for a while. It returns the code with
// which the command exits.
func run(args []string, next func() (pause, frozen time.Duration)) (int, error) {
	if err := adopt(); err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM) // which would leave stopped processes behind
	defer signal.Stop(signals)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan syscall.WaitStatus)
	go func() { ended <- await(cmd.Process.Pid) }()
	times, total := 0, time.Duration(0)
	for {
		pause, frozen := next()
		select {
		case status := <-ended:
			fmt.Fprintf(os.Stderr, "freeze: %d times, for %v in all\n", times, total.Round(time.Millisecond))
			if status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return status.ExitStatus(), nil
		case s := <-signals:
			_ = cmd.Process.Signal(s)
			continue
		case <-time.After(pause):
		}
		start := time.Now()
		stopped := stop(os.Getpid())
		time.Sleep(frozen)
		resume(stopped)
		times, total = times+1, total+time.Since(start)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// childFlag makes the process a child. The next argument is its cell.
const childFlag = "-cell"

// lab runs cells in child processes, on the servers that it owns.
type lab struct {
	self    string // the program of the children
	env     []string
	tb      testing.TB
	single  *servers
	cluster *servers          // nil until it is needed, because six idle servers disturb
	away    map[string]string // by server: the address of its proxy
	cpus    string            // the permitted processors; empty means that there is no taskset
}

// newLab starts a server.
func newLab(ctx context.Context, tb testing.TB) (*lab, error) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	server := startServer(tb)
	l := &lab{self: self, tb: tb, single: newServers([]string{server}), away: map[string]string{}}
	tb.Cleanup(l.single.close)
	l.cpus = affinity(ctx)
	return l, nil
}

var (
	affinityList = regexp.MustCompile(`list: (\S+)`)
	firstCPU     = regexp.MustCompile(`^\d+`)
)

// affinity returns the processors that this process may run on, or an empty string without taskset.
func affinity(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "taskset", "-cp", fmt.Sprint(os.Getpid())).Output()
	if m := affinityList.FindStringSubmatch(string(out)); err == nil && m != nil {
		return m[1]
	}
	return ""
}

var processID = regexp.MustCompile(`process_id:(\d+)`)

// pin binds the single server to the first processor, or to all if pinned is false. It returns the command that starts a
// client in the same way. A wake-up across two cores costs more than all the work of Redis.
func (l *lab) pin(ctx context.Context, pinned bool) ([]string, error) {
	if l.cpus == "" {
		return nil, nil
	}
	cpus := l.cpus
	if pinned {
		cpus = firstCPU.FindString(cpus)
	}
	info, err := l.single.nodes[0].Info(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	m := processID.FindStringSubmatch(info)
	if m == nil {
		return nil, errors.New("the server does not report its process id")
	}
	if err := exec.CommandContext(ctx, "taskset", "-acp", cpus, m[1]).Run(); err != nil {
		return nil, err
	}
	return []string{"taskset", "-c", cpus}, nil
}

// on returns the servers of a scenario.
func (l *lab) on(sc scenario) *servers {
	if !sc.cluster {
		return l.single
	}
	if l.cluster == nil {
		// The first three nodes are the masters. The statistics of replicas only repeat those of the masters.
		l.cluster = newServers(startCluster(l.tb)[:3])
		l.tb.Cleanup(l.cluster.close)
	}
	return l.cluster
}

// far returns the address of a proxy before a server.
func (l *lab) far(server string, roundTrip time.Duration) string {
	if l.away[server] == "" {
		l.away[server] = startFar(context.Background(), l.tb, server, roundTrip) // which outlives the cell
	}
	return l.away[server]
}

// measure empties the servers and runs one cell.
func (l *lab) measure(ctx context.Context, sc scenario, c Cell) (Metrics, error) {
	s := l.on(sc)
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	prefix, err := l.pin(ctx, sc.pinned)
	if err != nil {
		return nil, err
	}
	c.Scenario = sc.id
	c.Processes = max(1, c.Processes)
	for _, node := range s.nodes {
		addr := node.Options().Addr
		if c.RoundTrip > 0 {
			addr = l.far(addr, c.RoundTrip)
		}
		c.Addrs = append(c.Addrs, addr)
	}
	if c.Library == floor && (c.Names == 1 || c.Permits > 0) { // it has no waiters
		c.Processes, c.Goroutines = 1, 1
	}
	limit := 10*time.Second + time.Duration(c.Locks)*time.Millisecond // the time that a lock takes
	ctx, cancel := context.WithTimeout(ctx, c.Warmup+c.Measure+c.opening()+limit)
	defer cancel()
	if c.Goroutines == 0 || sc.id == "S1" || sc.id == "S13" || sc.id == "S15" {
		outcomes, err := l.children(ctx, prefix, c, nil)
		if err != nil {
			return nil, err
		}
		return outcomes[0].Metrics, nil
	}
	if c.Fault != "" {
		return l.faulty(ctx, prefix, s, c)
	}
	return l.phased(ctx, prefix, s, c)
}

// crew is the running processes of a cell.
type crew struct {
	cmds   []*exec.Cmd
	killed map[int]bool
}

// signal sends a signal to a process.
func (c *crew) signal(process int, sig os.Signal) error { return c.cmds[process].Process.Signal(sig) }

// kill ends a process, which then needs no outcome.
func (c *crew) kill(process int) error {
	c.killed[process] = true
	return c.cmds[process].Process.Kill()
}

// children runs the processes of a cell, and calls conduct while they run.
func (l *lab) children(ctx context.Context, prefix []string, c Cell, conduct func(*crew) error) ([]Outcome, error) {
	outs, errOuts := make([]bytes.Buffer, c.Processes), make([]bytes.Buffer, c.Processes)
	crew := &crew{killed: map[int]bool{}}
	defer func() {
		for _, cmd := range crew.cmds {
			_ = cmd.Process.Kill() // does nothing if the process has ended
		}
	}()
	for i := range c.Processes {
		c.Process = i
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		args := append(append([]string{}, prefix...), l.self, childFlag, string(text))
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = &outs[i], &errOuts[i]
		cmd.Env = append(os.Environ(), l.env...)
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		crew.cmds = append(crew.cmds, cmd)
	}
	var conducted error
	if conduct != nil {
		conducted = conduct(crew)
	}
	outcomes := make([]Outcome, c.Processes)
	errs := []error{conducted}
	for i, cmd := range crew.cmds {
		err := cmd.Wait()
		if crew.killed[i] {
			continue
		}
		if ctx.Err() != nil {
			err = errors.New("did not end in time")
		} else if err == nil {
			err = readOutcome(&outs[i], &outcomes[i])
		} else {
			err = fmt.Errorf("%w: %s", err, firstLine(errOuts[i].String()))
		}
		errs = append(errs, err)
	}
	return outcomes, errors.Join(errs...)
}

func readOutcome(from io.Reader, o *Outcome) error {
	if err := json.NewDecoder(from).Decode(o); err != nil {
		return err
	}
	if o.Error != "" {
		return errors.New(firstLine(o.Error))
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

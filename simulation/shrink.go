package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/scene"
)

// shrinker looks for a smaller scene of a seed in which the same promise breaks.
type shrinker struct {
	*binary

	seed    uint64
	budget  time.Duration // of CPU
	cpu     time.Duration
	promise string        // see promise
	least   scene.Smaller // the smallest that broke it
	at      time.Duration // when it broke there
}

// schedules is how many runs of a smaller scene are tried: what is left out changes the order of all else.
const schedules = 6

// smallest returns the smallest scene that was found within a budget of CPU, and how much of it was used.
func (b *binary) smallest(res scene.Result, m scene.Smaller, budget time.Duration) (scene.Smaller, time.Duration) {
	s := &shrinker{binary: b, seed: res.Seed, budget: budget, least: m}
	s.promise, s.at = promise(res)
	if s.at == 0 {
		return m, 0 // the process ended
	}
	s.cut()
	for again := true; again && s.cpu < s.budget; {
		again = s.round()
	}
	return s.least, s.cpu
}

// promise names the first promise that was broken, and the moment.
func promise(res scene.Result) (string, time.Duration) {
	if len(res.Broken) == 0 {
		return "", 0
	}
	first, rest, _ := strings.Cut(res.Broken[0], " ")
	at, err := time.ParseDuration(first)
	if err != nil {
		return res.Broken[0], 0
	}
	what, _, _ := strings.Cut(rest, ":")
	return what, at
}

// round tries each way to make the scene smaller, and reports whether one did.
func (s *shrinker) round() (smaller bool) {
	for _, part := range s.scene().Parts() {
		m := s.least
		m.Without = strings.TrimPrefix(m.Without+","+part, ",")
		smaller = s.fails(m) || smaller
	}
	for n := 2; n < s.scene().Processes; n++ {
		m := s.least
		if m.Processes = n; s.fails(m) {
			smaller = true
			break
		}
	}
	for n := 1; n < s.scene().Workers; n++ {
		m := s.least
		if m.Workers = n; s.fails(m) {
			smaller = true
			break
		}
	}
	for _, part := range []time.Duration{4, 2} {
		m := s.least
		if m.Until = min(s.at, s.scene().Duration) / part; m.Until > time.Second && s.fails(m) {
			smaller = true
			break
		}
	}
	return smaller
}

// scene is the smallest one so far.
func (s *shrinker) scene() *scene.Scene {
	of, _, err := s.least.Of(scene.Swarm(s.seed), s.seed)
	if err != nil {
		panic(err) // it was played
	}
	return &of
}

// fails reports whether a scene breaks the promise, and keeps the scene then.
func (s *shrinker) fails(m scene.Smaller) bool {
	for i := range uint64(schedules) {
		if s.cpu >= s.budget {
			return false
		}
		try := m
		if i > 0 {
			try.Schedule = s.least.Schedule + i
		}
		if what, at := promise(s.play(s.seed, &try, &s.cpu)); what == s.promise {
			s.least, s.at = try, at
			s.cut()
			return true
		}
	}
	return false
}

// cut ends the run soon after the promise broke. Until then nothing changes.
func (s *shrinker) cut() {
	m := s.least
	m.Until = (s.at + 100*time.Millisecond).Truncate(100 * time.Millisecond)
	if m.Until >= s.scene().Duration {
		return
	}
	if what, at := promise(s.play(s.seed, &m, &s.cpu)); what == s.promise {
		s.least, s.at = m, at
	}
}

// play plays a seed, and adds what it takes to cpu.
func (b *binary) play(seed uint64, m *scene.Smaller, cpu *time.Duration) scene.Result {
	cmd, file := b.command(seed, m.Args()...)
	out, err := cmd.CombinedOutput()
	*cpu += spent(cmd.ProcessState)
	return result(seed, file, err, out)
}

// spent is the CPU time of an ended process.
func spent(s *os.ProcessState) time.Duration { return s.UserTime() + s.SystemTime() }

// storyLines is how many events a report has.
const storyLines = 20

// story returns the last events that led to the first broken promise.
func (b *binary) story(seed uint64, m *scene.Smaller) string {
	cmd, file := b.command(seed, append(m.Args(), "-story", fmt.Sprint(storyLines))...)
	out, err := output(cmd)
	_ = result(seed, file, err, out)
	return string(out)
}

// output returns what the test wrote, without the verdict of the test.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	return []byte(strings.TrimSuffix(string(out), "PASS\n")), err
}

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/scene"
)

// total is what came of several seeds.
type total struct {
	first    *scene.Result // the first that broke a promise
	seeds    int
	virtual  time.Duration
	cpu      time.Duration
	most     int64 // KiB of memory that a process took
	commands int
	got      int
}

// String is the last line of a run.
func (t *total) String() string {
	verdict := "nothing broken"
	if t.first != nil {
		verdict = fmt.Sprintf("seed %d broke a promise", t.first.Seed)
	}
	return fmt.Sprintf("%.1f virtual hours, %d seeds, %v of CPU, %d commands, %d acquisitions, at most %d MiB: %s",
		t.virtual.Hours(), t.seeds, t.cpu.Round(100*time.Millisecond), t.commands, t.got, t.most>>10, verdict)
}

// draw plays seeds from the first one on, several at a time, until they have taken the duration of CPU, or one has broken a promise.
func (b *binary) draw(first uint64, duration time.Duration, jobs int) *total {
	var mu sync.Mutex
	var wg sync.WaitGroup
	t, next := &total{}, first
	for range max(jobs, 1) {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				over := t.first != nil || t.cpu >= duration
				mu.Unlock()
				if over {
					return
				}
				cmd, file := b.command(seed)
				out, err := cmd.CombinedOutput()
				res := result(seed, file, err, out)
				mu.Lock()
				t.add(&res, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), memory(cmd.ProcessState))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return t
}

func (t *total) add(res *scene.Result, cpu time.Duration, memory int64) {
	t.seeds++
	t.virtual += res.Virtual
	t.cpu += cpu
	t.most = max(t.most, memory)
	t.commands += res.Commands
	t.got += res.Got
	if len(res.Broken) > 0 && (t.first == nil || res.Seed < t.first.Seed) {
		t.first = res
	}
}

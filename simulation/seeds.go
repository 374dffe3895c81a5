package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/scene"
)

// draws says how seeds are drawn.
type draws struct {
	first    uint64                  // this seed and the ones after it; zero draws them
	seeds    int                     // how many; zero means as many as the times allow
	duration time.Duration           // how much CPU they may take
	wall     time.Duration           // how long they may take; zero means no limit
	jobs     int                     // how many run at a time
	fits     func(*scene.Scene) bool // of which scenes; nil means of all
	all      bool                    // go on after one that broke a promise
	cover    bool                    // see coverage
	smaller  scene.Smaller           // how all scenes are made smaller
	shrink   time.Duration           // how much CPU the search for a smaller failure may take
	stop     <-chan struct{}         // is closed when the user ends the command
}

func (d *draws) stopped() bool {
	select {
	case <-d.stop:
		return true
	default:
		return false
	}
}

// total is what came of several seeds.
type total struct {
	broken   []scene.Result // those that broke a promise
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
	if n := len(t.broken); n > 0 {
		verdict = fmt.Sprintf("%d seeds broke a promise", n)
	}
	return fmt.Sprintf("%.1f virtual hours, %d seeds, %v of CPU, %d commands, %d acquisitions, at most %d MiB: %s",
		t.virtual.Hours(), t.seeds, t.cpu.Round(100*time.Millisecond), t.commands, t.got, t.most>>10, verdict)
}

// draw plays seeds, each in a process of its own, until they have taken the duration of CPU.
func (b *binary) draw(d draws) *total {
	var mu sync.Mutex
	var wg sync.WaitGroup
	t, drawn, began := &total{}, 0, time.Now()
	for range max(d.jobs, 1) {
		wg.Go(func() {
			for {
				mu.Lock()
				over := d.stopped() || len(t.broken) > 0 && !d.all || t.cpu >= d.duration ||
					d.wall > 0 && time.Since(began) >= d.wall || d.seeds > 0 && drawn >= d.seeds
				number := drawn
				drawn++
				mu.Unlock()
				if over {
					return
				}
				seed := d.seed(number)
				cmd, file := b.command(seed, d.smaller.Args()...)
				out, err := cmd.CombinedOutput()
				res := result(seed, file, err, out)
				if d.stopped() { // what ends this process may have ended the seed's, too
					return
				}
				mu.Lock()
				t.add(res, spent(cmd.ProcessState), memory(cmd.ProcessState))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return t
}

// seed is the seed with a number: one that is drawn, or of those that begin with the first one.
func (d *draws) seed(number int) uint64 {
	for d.first == 0 {
		seed := 1 + rand.Uint64N(1e9)
		if s := scene.Swarm(seed); d.fits == nil || d.fits(&s) {
			return seed
		}
	}
	return d.first + uint64(number)
}

func (t *total) add(res scene.Result, cpu time.Duration, memory int64) {
	t.seeds++
	t.virtual += res.Virtual
	t.cpu += cpu
	t.most = max(t.most, memory)
	t.commands += res.Commands
	t.got += res.Got
	if len(res.Broken) > 0 {
		t.broken = append(t.broken, res)
	}
}

// report says how to replay a failing seed, and what led to it, in a scene as small as can be found. with has more parameters of `make sim`.
func (b *binary) report(res scene.Result, d draws, with string) {
	fmt.Printf("seed %d broke a promise: %s\nin %s\nreplay it with: make sim SEED=%d%s%v\n", res.Seed, res.Broken[0], res.Scene, res.Seed, with, &d.smaller)
	if d.shrink == 0 {
		return
	}
	least, cpu := b.smallest(res, d.smaller, d.shrink)
	fmt.Printf("the smallest that was found in %v of CPU: make sim SEED=%d%s%v\n%s\n", cpu.Round(100*time.Millisecond), res.Seed, with, &least, b.story(res.Seed, &least))
}

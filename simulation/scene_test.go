package simulation

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

var (
	only   = flag.String("scene", "quiet", "")
	first  = flag.Uint64("seed", 1, "")
	count  = flag.Int("seeds", 1, "")
	repeat = flag.Int("repeat", 1, "")
	length = flag.Duration("virtual", 0, "")
	until  = flag.Bool("until", false, "stop at the first broken promise")
	dump   = flag.String("dumptrace", "", "")
	warm   = flag.Int("warm", 0, "")
	budget = flag.Duration("budget", 0, "of CPU")
	show   = flag.Int("show", 3, "")
	gc     = flag.Bool("gc", false, "")
)

const ms = time.Millisecond

var never = rlock.WithPollInterval(time.Hour)

var scenes = []Scene{
	{Name: "quiet", Clients: 3, Workers: 4, Duration: time.Hour, Faults: simnet.Faults{Latency: ms}, Mix: []string{"lock:a"},
		Rest: 3 * time.Second, Hold: 2 * time.Second, WakeUp: time.Second, Options: []rlock.Option{never}},
	{Name: "mixed", Clients: 3, Workers: 6, Duration: 10 * time.Minute, Faults: simnet.Faults{Latency: ms}, Overtake: 300 * ms,
		Mix:  []string{"lock:a,b", "fenced", "fair", "rw", "spin", "semaphore", "plainsemaphore"},
		Rest: 500 * ms, Hold: 300 * ms, WakeUp: time.Second, Options: []rlock.Option{never}},
	{Name: "faulty", Clients: 3, Workers: 6, Duration: 10 * time.Minute,
		Faults: simnet.Faults{Latency: ms, Slow: 0.05, SlowMax: 300 * ms, LostReply: 0.01, LostSend: 0.005, Silent: 0.002, Late: 0.005, LateMax: 9 * time.Second},
		Mix:    []string{"lock:a,b", "fenced", "fair", "rw", "semaphore"},
		Rest:   500 * ms, Hold: 300 * ms, WakeUp: 12 * time.Second, Options: []rlock.Option{never},
		Nemeses: []string{"break", "deaf", "cut", "hang", "flush", "restart", "kill", "killwaiter"}, Pause: 20 * time.Second},
	{Name: "deaf", Clients: 3, Workers: 4, Duration: 10 * time.Minute, Faults: simnet.Faults{Latency: ms}, Mix: []string{"lock:a", "fair"},
		Rest: 500 * ms, Hold: 300 * ms, WakeUp: 10 * time.Second, Options: []rlock.Option{never}, Nemeses: []string{"break", "deaf"}, Pause: 3 * time.Second},
	{Name: "fleet", Clients: 6, Workers: 2, Duration: 10 * time.Minute, Faults: simnet.Faults{Latency: ms}, Mix: []string{"lock:a", "fenced"},
		Rest: 200 * ms, Hold: 100 * ms, WakeUp: time.Second, Options: []rlock.Option{never}},
	{Name: "java", Clients: 3, Workers: 2, Duration: 10 * time.Minute, Faults: simnet.Faults{Latency: ms}, Mix: []string{"lock:a"}, Foreign: 2,
		Rest: 500 * ms, Hold: 300 * ms, WakeUp: time.Second, Options: []rlock.Option{never}},
	{Name: "struck", Clients: 5, Workers: 2, Duration: 10 * time.Minute, Faults: simnet.Faults{Latency: ms}, Mix: []string{"lock:a", "fair"},
		Rest: 300 * ms, Hold: 200 * ms, WakeUp: time.Second, Options: []rlock.Option{never}, Nemeses: []string{"killwaiter"}, Pause: 3 * time.Second},
	{Name: "late", Clients: 3, Workers: 4, Duration: 10 * time.Minute,
		Faults: simnet.Faults{Latency: ms, Slow: 0.1, SlowMax: 2 * time.Second, LostReply: 0.03, Late: 0.03, LateMax: 12 * time.Second},
		Mix:    []string{"lock:a", "fenced", "fair", "semaphore"},
		Rest:   500 * ms, Hold: 300 * ms, WakeUp: 12 * time.Second, Options: []rlock.Option{never}},
	{Name: "gap", Clients: 2, Workers: 1, Duration: time.Hour, Faults: simnet.Faults{Latency: 5 * ms}, Mix: []string{"lock:a"},
		Rest: 2500 * ms, Hold: 800 * ms, WakeUp: 1200 * ms, Options: []rlock.Option{never}, Nemeses: []string{"break"}, Pause: 700 * ms},
	{Name: "sparse", Clients: 3, Workers: 1, Duration: time.Hour, Faults: simnet.Faults{Latency: 5 * ms}, Mix: []string{"lock:a"},
		Rest: 4 * time.Second, Hold: 20 * ms, WakeUp: time.Second, Options: []rlock.Option{never}},
	{Name: "idle", Clients: 3, Workers: 2, Duration: 24 * time.Hour, Faults: simnet.Faults{Latency: ms}, Mix: []string{"lock:a,b,c,d,e,f,g,h"},
		Rest: 10 * time.Minute, Hold: 3 * time.Minute, WakeUp: time.Second, Options: []rlock.Option{never}},
	{Name: "unsafe", Clients: 3, Workers: 6, Duration: 10 * time.Minute, Unsafe: true,
		Faults: simnet.Faults{Latency: ms, Slow: 0.05, SlowMax: 300 * ms, LostReply: 0.01},
		Mix:    []string{"lock:a,b", "fenced", "fair", "rw"},
		Rest:   500 * ms, Hold: 300 * ms, WakeUp: 12 * time.Second, Options: []rlock.Option{never},
		Nemeses: []string{"amnesia", "failover", "clock", "break"}, Pause: 30 * time.Second},
}

// swarm draws everything about a scene from its seed.
func swarm(seed uint64) Scene {
	r := rand.New(rand.NewPCG(seed, 31))
	log := func(least, most time.Duration) time.Duration {
		return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), r.Float64()))
	}
	s := Scene{Name: "swarm", Clients: 2 + r.IntN(4), Workers: 1 + r.IntN(4)*r.IntN(2), Duration: 10 * time.Minute, WakeUp: 2 * time.Second, Options: []rlock.Option{never}}
	s.Faults.Latency = log(200*time.Microsecond, 30*ms)
	s.Rest, s.Hold = log(20*ms, 8*time.Second), log(ms, 3*time.Second)
	kinds := []string{"lock:a", "lock:b", "fenced", "fair", "rw", "semaphore", "plainsemaphore", "spin"}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	s.Mix = kinds[:1+r.IntN(3)*r.IntN(2)]
	var plain bool
	for _, k := range s.Mix {
		if k == "plainsemaphore" {
			plain = true
		}
		if k == "fair" {
			s.Overtake = 300*ms + 4*s.Faults.Latency
		}
	}
	if r.IntN(3) == 0 { // faults of single commands
		s.Faults.Slow, s.Faults.SlowMax = 0.1*r.Float64(), log(10*ms, 3*time.Second)
		s.Faults.LostReply, s.Faults.LostSend = 0.05*r.Float64(), 0.02*r.Float64()
		s.Faults.Silent, s.Faults.Late, s.Faults.LateMax = 0.01*r.Float64(), 0.03*r.Float64(), 12*time.Second
		s.WakeUp, s.Overtake = 15*time.Second, 0
	}
	if r.IntN(2) == 0 {
		all := []string{"break", "deaf", "cut", "hang", "flush", "restart", "kill", "killwaiter"}
		if plain {
			all = all[:6]
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		s.Nemeses, s.Pause = all[:1+r.IntN(3)], log(time.Second, time.Minute)
		s.WakeUp, s.Overtake = max(s.WakeUp, 10*time.Second), 0
	}
	if r.IntN(6) == 0 && (s.Mix[0] == "lock:a" || s.Mix[0] == "fenced") {
		s.Foreign = 1 + r.IntN(2)
	}
	return s
}

func sceneOf(t *testing.T) Scene {
	for _, s := range append(scenes, swarm(*first)) {
		if s.Name == *only {
			if *length > 0 {
				s.Duration = *length
			}
			return s
		}
	}
	t.Fatal("no such scene")
	return Scene{}
}

func TestScene(t *testing.T) {
	s := sceneOf(t)
	if !*gc {
		debug.SetGCPercent(-1)
	}
	for range *warm { // what is made once in a process
		w := s
		w.Duration = time.Minute
		synctest.Test(t, func(*testing.T) { Play(w, 12345, false) })
	}
	began, before := time.Now(), cpu()
	var virtual time.Duration
	commands, got, broken, seeds := 0, 0, 0, 0
	kinds := map[string]int{}
	short := 0
	for seed := *first; seed < *first+uint64(*count); seed++ {
		if *budget > 0 && cpu()-before > *budget {
			break
		}
		seeds++
		if *only == "swarm" {
			s = swarm(seed)
			if *length > 0 {
				s.Duration = *length
			}
		}
		hashes := map[uint64]int{}
		var traces []*Result
		for range *repeat {
			synctest.Test(t, func(t *testing.T) {
				res := Play(s, seed, *repeat > 1 || *dump != "")
				hashes[res.Hash]++
				traces = append(traces, res)
				virtual += res.Virtual
				commands += res.Commands
				got += res.Got
				short += res.Short
			})
			if res := traces[len(traces)-1]; len(res.Broken) > 0 {
				broken++
				if broken <= *show {
					t.Errorf("seed %d: %d promises broken (%d clients x %d, %v, rest %v, hold %v, nemeses %v each %v, faults %+v)\n%s", seed, len(res.Broken), s.Clients, s.Workers, s.Mix, s.Rest, s.Hold, s.Nemeses, s.Pause, s.Faults, strings.Join(res.Broken[:min(len(res.Broken), 5)], "\n"))
				} else {
					t.Fail()
				}
				for _, b := range res.Broken {
					_, what, _ := strings.Cut(b, " ")
					what, _, _ = strings.Cut(what, ":")
					kinds[what]++
				}
			}
			if !*gc {
				runtime.GC()
			}
		}
		r := traces[0]
		if *count <= 5 {
			t.Logf("seed %d: hash %x, got %d, refused %d, failed %d, lost %d, nemeses %d, commands %d, messages %d, virtual %v", seed, r.Hash, r.Got, r.Refused, r.Failed, r.Lost, r.Nemeses, r.Commands, r.Messages, r.Virtual)
		}
		if *repeat > 1 {
			var diverge []string
			for _, o := range traces[1:] {
				if o.Hash == r.Hash {
					continue
				}
				for i := range o.Trace {
					if i >= len(r.Trace) || o.Trace[i] != r.Trace[i] {
						diverge = append(diverge, fmt.Sprint(i))
						if len(diverge) == 1 {
							t.Logf("first divergence at %d of %d:\n%.300s\n%.300s", i, len(r.Trace), r.Trace[min(i, len(r.Trace)-1)], o.Trace[i])
						}
						break
					}
				}
			}
			t.Logf("seed %d: %d runs, %d different traces; diverge at %v", seed, *repeat, len(hashes), diverge)
		}
		if *dump != "" {
			_ = os.WriteFile(*dump, []byte(strings.Join(r.Trace, "\n")+"\n"+strings.Join(r.Log, "\n")), 0o600)
		}
		if t.Failed() && *until {
			t.Logf("found after %d seeds, %v of CPU", seed-*first+1, cpu()-before)
			return
		}
	}
	used := cpu() - before
	t.Logf("GOMAXPROCS=%d scene %s: %d seeds: %v virtual in %v CPU (%v wall): %.0f virtual hours per CPU minute, %d commands (%v each), %d acquisitions, %d short, %d seeds broken: %v",
		runtime.GOMAXPROCS(0), s.Name, seeds, virtual, used.Round(ms), time.Since(began).Round(ms), virtual.Hours()/used.Minutes(), commands, (used / time.Duration(max(commands, 1))), got, short, broken, kinds)
}

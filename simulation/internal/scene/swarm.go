package scene

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/tune"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// wants are the sets of locks that belong together. A scene has one to three of them.
var wants = [][]Lock{
	{{kindLock, "a"}},
	{{kindLock, "b"}, {kindLock, "{b}"}}, // Redisson derives the same keys and channels from both
	{{kindFenced, "fenced"}},
	{{kindFenced, "f"}, {kindFenced, "{f}"}},
	{{kindFair, "fair"}},
	{{kindFair, "q"}, {kindFair, "{q}"}},
	{{kindFencedFair, "fenced-fair"}},
	{{kindRW, "rw"}},
	{{kindRW, "r"}, {kindRW, "{r}"}},
	{{kindFencedRW, "fenced-rw"}},
	{{kindYieldingRW, "yielding"}},
	{{kindYieldingRW, "y"}, {kindRW, "{y}"}},
	{{kindSpin, "spin"}},
	{{kindSemaphore, "semaphore"}},
	{{kindSemaphore, "permits"}},
	{{kindPlain, "plain"}},
	{{kindMulti, "a c"}, {kindLock, "a"}},
	{{kindMulti, "{a} a"}, {kindMulti, "a d"}},
	{{kindMulti, "a c e"}, {kindLock, "c"}, {kindLock, "e"}},
	{{kindMulti, "fenced-m fair-m rw-m"}, {kindFenced, "fenced-m"}, {kindFair, "fair-m"}, {kindRW, "rw-m"}},
	{{kindElection, "election"}},
	{{kindLatch, "latch"}, {kindLock, "a"}},
}

// granted are the kinds of locks that a release grants to the first waiter. Waiters for others are woken, and ask, so these are free meanwhile.
var granted = []string{kindLock, kindFenced, kindFair, kindFencedFair, kindElection}

// peersWant are the sets of locks that Redisson shares with rlock.
var peersWant = [][]Lock{
	{{kindLock, "a"}}, {{kindFenced, "fenced"}}, {{kindLock, "b"}, {kindLock, "{b}"}}, {{kindLock, "a"}, {kindFenced, "fenced"}}, {{kindLock, "a"}, {kindFair, "fair"}}, {{kindMulti, "a c"}, {kindLock, "a"}},
}

// logarithmic draws a duration such that each order of magnitude is as likely as another.
func logarithmic(r *rand.Rand, least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), r.Float64()))
}

// Swarm draws everything about a scene from its seed. Such scenes differ more than scenes made by hand do, and find more.
func Swarm(seed uint64) Scene {
	const ms = time.Millisecond
	r := rand.New(rand.NewPCG(seed, 31))
	s := Scene{
		Servers: 1, Processes: 2 + r.IntN(4), Workers: 1 + r.IntN(4)*r.IntN(2), Duration: 5 * time.Minute,
		Rest: logarithmic(r, 20*ms, 8*time.Second), Hold: logarithmic(r, ms, 3*time.Second),
		Options: []rlock.Option{tune.PollInterval(time.Hour)}, // a wake-up that is missed stays missed
	}
	s.Faults.Latency = logarithmic(r, 200*time.Microsecond, 30*ms)
	s.drawTopology(rand.New(rand.NewPCG(seed, 32)))
	for _, i := range r.Perm(len(wants))[:1+r.IntN(3)*r.IntN(2)] {
		for _, l := range wants[i] {
			if !slices.Contains(s.Locks, l) {
				s.Locks = append(s.Locks, l)
			}
		}
	}
	if r.IntN(12) == 0 && s.Topology == "" {
		s.Servers, s.Locks = 3, []Lock{{kindRed, "red"}, {kindRed, "{red}"}}[:1+r.IntN(2)]
	}
	crowded := r.IntN(16) == 0 && s.Servers == 1
	if crowded {
		s.crowd(r)
	}
	peers := r.IntN(5) == 0 && s.Servers == 1 && s.Topology == "" && !crowded
	if peers {
		s.Locks = slices.Clone(peersWant[r.IntN(len(peersWant))])
	}
	told := s.Topology == "" && !crowded && !peers && !slices.ContainsFunc(s.Locks, func(l Lock) bool { return !slices.Contains(granted, l.Kind) })
	lonely := r.IntN(4) == 0 && !crowded
	switch {
	case lonely:
		s.isolate(r)
	case r.IntN(4) == 0 && !crowded:
		s.prolong(r)
	}
	if s.WakeUp = 2 * time.Second; told {
		s.WakeUp = 200*ms + 10*s.Faults.Latency
	}
	if s.wants(kindFair) || s.wants(kindFencedFair) {
		s.Overtake = 300*ms + 4*s.Faults.Latency
	}
	if r.IntN(3) == 0 && (!lonely || r.IntN(3) == 0) {
		s.drawFaults(r)
	}
	if r.IntN(2) == 0 || s.Topology != "" && r.IntN(2) == 0 {
		s.drawNemeses(r)
		if lonely {
			s.Nemeses, s.Beat = s.Nemeses[:1], max(s.Beat, 2*s.WakeUp)
		}
	}
	if peers {
		s.Peers = 1 + r.IntN(2)
	}
	s.shorten()
	s.drawApplication(r)
	s.drawOptions(r)
	s.drawLeans(rand.New(rand.NewPCG(seed, 33)))
	s.besiege(rand.New(rand.NewPCG(seed, 34)))
	return s
}

// shorten has a scene take less time whose commands are many.
func (s *Scene) shorten() {
	if s.Servers > 1 {
		s.Duration = min(s.Duration, 3*time.Minute)
	}
	if s.Peers > 0 && s.Beat > 0 {
		s.Duration = min(s.Duration, 5*time.Minute) // peers know no beat, and come all the time
	}
	if s.Topology != "" && s.Beat == 0 {
		s.Duration = min(s.Duration, 4*time.Minute) // each write goes to the replicas, too
		if s.Hold+s.Rest < time.Second {
			s.Duration /= 2
		}
	}
	turn := max((s.Hold/2+2*s.Faults.Latency)/time.Duration(len(s.Locks)), s.Rest/2/time.Duration(s.Processes*s.Workers))
	if s.Beat == 0 {
		s.Duration = min(s.Duration, 10_000*turn) // each is several commands, and remembered for the checkers
	}
}

// drawOptions draws how releases and calls are sent. A waiter that a late command takes out of a fair queue stays missing, as a wake-up does. If
// those before it die, it asks only when its wait says.
func (s *Scene) drawOptions(r *rand.Rand) {
	if s.Faults.Late > 0 && (s.wants(kindFair) || s.wants(kindFencedFair)) && !s.Broadcast && s.Peers+len(s.Nemeses) == 0 {
		s.FairWait = time.Hour
		s.Options = append(s.Options, tune.FairWait(s.FairWait))
	}
	switch r.IntN(8) {
	case 0:
		s.Options, s.Gathers = append(s.Options, tune.Crowd(0)), true
	case 2:
		s.Options = append(s.Options, tune.HandOver(0, 0))
	case 3: // by default, a turn may take as long as hand-overs may go on
		s.HandsOver = true
		s.Options = append(s.Options, tune.HandOver(32, 2*time.Second))
	}
}

// isolate makes a scene in which few meet, for long: what wakes only the one waiter that there is shows itself at once.
func (s *Scene) isolate(r *rand.Rand) {
	s.Processes, s.Workers, s.Duration, s.Locks = 2+r.IntN(2), 1, 20*time.Minute, s.Locks[:1]
	s.Faults.Latency = logarithmic(r, 2*time.Millisecond, 30*time.Millisecond)
	s.Rest, s.Hold = logarithmic(r, 500*time.Millisecond, 4*time.Second), time.Duration(1+r.IntN(8))*s.Faults.Latency
	if r.IntN(3) > 0 {
		s.Rest, s.Beat, s.Duration = time.Millisecond, logarithmic(r, 5*time.Second, 40*time.Second), 40*time.Minute
	}
	if r.IntN(3) == 0 {
		s.Hold = logarithmic(r, 100*time.Millisecond, 10*time.Second)
	}
}

// crowd makes a scene in which each process has more calls under way than connections, so that these are gathered, or wait.
func (s *Scene) crowd(r *rand.Rand) {
	s.Processes, s.Workers, s.Duration = 1+r.IntN(3), 16+r.IntN(16), 20*time.Second
	s.Locks = []Lock{{kindSpin, "spin"}, {kindSemaphore, "semaphore"}, {kindRW, "rw"}, {kindMulti, "a c"}}[:1+r.IntN(4)]
	for i := range 12 {
		s.Locks = append(s.Locks, Lock{kindLock, fmt.Sprintf("crowd-%d", i)})
	}
	s.Faults.Latency, s.Faults.Pool = logarithmic(r, time.Millisecond, 20*time.Millisecond), 3+r.IntN(6)
	s.Rest, s.Hold = logarithmic(r, 10*time.Millisecond, 50*time.Millisecond), logarithmic(r, time.Millisecond, 50*time.Millisecond)
	s.Options = append(s.Options, tune.Crowd(r.IntN(3)))
}

// besiege draws whether the server refuses everything now and then, and makes a scene in which nothing else goes wrong, so that whoever is not
// told of its turn soon after shows itself. Half of these scenes have many channels, each of which may be refused by itself.
func (s *Scene) besiege(r *rand.Rand) {
	if r.IntN(16) > 0 || s.Servers > 1 || s.Topology != "" || s.Unsafe || s.Peers > 0 {
		return
	}
	s.Faults = simnet.Faults{Latency: s.Faults.Latency, Pool: s.Faults.Pool}
	s.Nemeses, s.Pause, s.WakeUp, s.Overtake = []string{nemesisBusy}, logarithmic(r, 5*time.Second, time.Minute), 2*time.Second, 0
	if r.IntN(2) == 0 {
		return
	}
	s.Processes, s.Workers, s.Duration, s.Locks, s.Faults.Pool, s.Beat = 2+r.IntN(2), 16, 4*time.Minute, nil, 0, 0
	for i := range 24 {
		s.Locks = append(s.Locks, Lock{kindLock, fmt.Sprintf("besieged-%d", i)})
	}
	s.Rest, s.Hold = logarithmic(r, 200*time.Millisecond, 2*time.Second), logarithmic(r, 100*time.Millisecond, time.Second)
}

// prolong makes a scene in which locks are held for so long that they are renewed.
func (s *Scene) prolong(r *rand.Rand) {
	s.Duration, s.Hold = 40*time.Minute, logarithmic(r, 10*time.Second, 2*time.Minute)
}

// drawApplication draws what the application does that uses rlock.
func (s *Scene) drawApplication(r *rand.Rand) {
	s.Total, s.Monitor = r.IntN(3) == 0, r.IntN(6) == 0 && s.Topology == ""
	if r.IntN(4) == 0 {
		s.Options, s.Identity = append(s.Options, rlock.WithIdentity(rlock.Identity{Service: "simulation"})), true
	}
	if r.IntN(12) == 0 {
		s.MaxHold = logarithmic(r, 2*time.Second, time.Minute)
		s.Options = append(s.Options, rlock.WithMaxHold(s.MaxHold))
	}
	s.Panics = r.IntN(10) == 0
}

// wants reports whether a scene has a kind of lock.
func (s *Scene) wants(kind string) bool {
	return slices.ContainsFunc(s.Locks, func(l Lock) bool { return l.Kind == kind })
}

// drawFaults has single commands fail.
func (s *Scene) drawFaults(r *rand.Rand) {
	f := &s.Faults
	f.Slow, f.SlowMax = 0.1*r.Float64(), logarithmic(r, 10*time.Millisecond, 3*time.Second)
	f.LostReply, f.LostSend, f.Repeated = 0.03*r.Float64(), 0.02*r.Float64(), 0.02*r.Float64()
	f.Silent, f.Late, f.LateMax = 0.01*r.Float64(), 0.03*r.Float64(), 12*time.Second
	s.WakeUp, s.Overtake = 15*time.Second, 0
	if r.IntN(4) == 0 && f.Pool == 0 { // each command is carried out once, but another one may overtake it
		*f = simnet.Faults{Latency: f.Latency, Slow: 3 * f.Slow, SlowMax: f.SlowMax}
	}
}

func (s *Scene) drawNemeses(r *rand.Rand) {
	all := slices.Clone(safeNemeses)
	if r.IntN(4) == 0 && s.Servers == 1 {
		all, s.Unsafe = append(slices.Clone(unsafeNemeses), nemesisBreak, nemesisWaiter), true
	}
	switch {
	case s.Topology == "":
	case s.Unsafe:
		all = append(slices.DeleteFunc(all, func(n string) bool { return n == nemesisRestore || n == nemesisAmnesia }), groupNemeses...)
	default:
		all = append(all, groupNemeses...)
	}
	if s.Topology != topologyCluster {
		all = slices.DeleteFunc(all, func(n string) bool { return n == nemesisSlot })
	}
	if s.wants(kindPlain) { // the permits of the dead are gone
		all = slices.DeleteFunc(all, func(n string) bool {
			return n == nemesisKill || n == nemesisWaiter || n == nemesisClose || n == nemesisShutdown
		})
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s.favor(all, r)
	s.Nemeses, s.Pause = all[:1+r.IntN(3)], logarithmic(r, time.Second, time.Minute)
	if r.IntN(5) == 0 && !s.Unsafe && s.Topology == "" { // so that all else is checked
		s.Nemeses = []string{nemesisClog}
	}
	if s.Duration > 20*time.Minute {
		s.Pause *= 5
	}
	s.WakeUp, s.Overtake = max(s.WakeUp, 10*time.Second), 0
}

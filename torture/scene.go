package torture

import "time"

// Scene describes a run: the topology, the workload, the faults, and the promises that must hold.
type Scene struct {
	Name     string
	Topology string
	Seed     uint64
	Duration time.Duration
	Workers  int // per site in this process; a child process has two thirds of them
	Keepers  int // locks that each site holds all the time
	Mix      []Share
	Nemeses  []string
	Rest     time.Duration // average pause between two nemeses
	Acks     int           // replicas that must acknowledge each acquisition
	Fleet    int           // child processes that all want the same names; zero means a few processes that want many names

	Safe    bool          // no fault of the scene may let two owners in, or lose a renewed lock
	Long    bool          // not in the short program
	Played  bool          // the simulation plays the like, so -brief leaves it out
	Ordered bool          // fair locks must be granted in the order of arrival
	WakeUp  time.Duration // how long a lock with waiters may stay free; zero means that it is not checked
}

// Regressions are runs that found a bug in rlock or in the torture itself. `make torture SCENE=regressions` repeats them.
var Regressions = []struct {
	Scene string
	Seed  uint64
	Bug   string
}{
	{"acks", 1, "rlock: after a failover waiters listened at the old master for 10 s (TestASubscriptionAtTheOldMasterIsReplaced)"},
	{"safe", 101, "torture: an unlock that failed may nevertheless have freed the lock"},
	{"safe", 202, "torture: a waiting reader queues behind the writers of its process"},
	{"safe", 858529, "rlock: when a busy Redis refused many subscriptions, messages behind that were heard seconds later (TestRefusalsHoldUpNoMessage)"},
	{"safe", 643884, "torture: a wait that was refused may have had the lock"},
	{"safe", 176207, "torture: a machine that does not run the caller makes a reply late"},
	{"unsafe", 105641, "torture: a Redis that was started again with older data keeps a lock that was released since"},
	{"quiet", 203, "torture: an unlock may return after the next owner has the lock"},
	{"swarm", 631028625, "torture: a process that was killed after an adoption may have unlocked"},
	{"unsafe", 849495, "rlock: a multi lock reported an outage if the end of its wait cut off a question (TestAMemberThatIsTriedAtTheEndOfTheWaitIsNoOutage)"},
}

// Scenes returns all scenes. The seed of each is derived from the given one.
func Scenes(seed uint64) []Scene {
	scenes := []Scene{
		{
			Name: "quiet", Topology: topologySingle, Duration: 10 * time.Second, Safe: true, Ordered: true, WakeUp: time.Second, Played: true,
		},
		{
			Name: "deaf", Topology: topologySingle, Duration: 10 * time.Second, Safe: true, WakeUp: 2 * time.Second, Played: true,
			Nemeses: []string{n8KillPubSub}, Rest: 10 * time.Millisecond,
		},
		{
			Name: "late", Topology: topologySingle, Duration: 16 * time.Second, Safe: true, Rest: 1800 * time.Millisecond, Played: true,
			Nemeses: []string{n4Hold, n4HoldPassing},
		},
		{
			Name: "safe", Topology: topologySingle, Duration: 38 * time.Second, Safe: true, Rest: 700 * time.Millisecond,
			Nemeses: []string{
				n1Close, n2Drop, n3Swallow, n4Delay, n4Hold, n5BlackHole, n6Split, n7Flush, n8KillAll, n9Pause, n10Busy, n11Stop,
				n13StopChild, n13KillChild, n13KillChild, n17OOM, n20ACL, n21Starve, n22Replicas, n22MaxClients,
			},
		},
		{
			Name: "unsafe", Topology: topologySingle, Duration: 18 * time.Second, Rest: 800 * time.Millisecond,
			Nemeses: []string{n12Restart, n13StopChild, n17Evict, n19FlushAll, n19Delete, n19Force, n19Steal, n2Drop, n27Restore},
		},
		{
			Name: "sentinel", Topology: topologySentinel, Duration: 35 * time.Second, Rest: time.Second,
			Nemeses: []string{n14Failover, n14Die, n14Hang, n15Lossy, n3Swallow},
		},
		{
			Name: "cluster", Topology: topologyCluster, Duration: 35 * time.Second, Rest: time.Second,
			Nemeses: []string{n14Failover, n14Die, n14Hang, n15Lossy, n16Move, n2Drop, n7Flush},
		},
		{
			Name: "acks", Topology: topologySentinel, Duration: 45 * time.Second, Rest: 2 * time.Second, Acks: 1, Long: true,
			Nemeses: []string{n15Lossy},
		},
		{
			Name: "lossy", Topology: topologySentinel, Duration: 45 * time.Second, Rest: 2 * time.Second, Long: true,
			Nemeses: []string{n15Lossy},
		},
		{
			Name: "amnesia", Topology: topologyRed, Duration: 20 * time.Second, Rest: 500 * time.Millisecond, Long: true,
			Nemeses: []string{n12Minority},
		},
		{
			Name: "red", Topology: topologyRed, Duration: 16 * time.Second, Rest: 500 * time.Millisecond, Safe: true, Played: true,
			Nemeses: []string{n1Close, n2Drop, n3Swallow, n4Delay, n4Hold, n5BlackHole, n9Pause, n11Stop, n13StopChild, n13KillChild},
		},
		{
			Name: "clock", Topology: topologySingle, Duration: 20 * time.Second, Rest: time.Second, Long: true,
			Nemeses: []string{n18Clock},
		},
		{
			Name: "deploy", Topology: topologySingle, Duration: 14 * time.Second, Safe: true, Rest: 300 * time.Millisecond,
			Nemeses: []string{n2Drop, n23Deploy, n23Deploy, n23Hurry},
		},
	}
	return staffed(append(append(scenes, fleets...), narrowScenes...), seed)
}

// narrowScenes are the scenes with few kinds. They come last, so that the others keep their seeds.
var narrowScenes = []Scene{
	{
		Name: "counts", Topology: topologySingle, Duration: 12 * time.Second, Safe: true, Rest: 200 * time.Millisecond, Mix: counts, Played: true,
		Nemeses: []string{n2Drop, n3Swallow, n4Delay, n4Hold},
	},
	{
		Name: "readers", Topology: topologySingle, Duration: 8 * time.Second, Safe: true, Played: true,
		Mix: []Share{{kindYieldingRead, 6, []string{yielded}}, {kindWrite, 1, []string{yielded}}},
	},
}

// fleets are the scenes in which many processes contend for few names.
var fleets = []Scene{
	{
		Name: "fleet", Topology: topologySingle, Fleet: 10, Duration: 8 * time.Second, Safe: true, Ordered: true, Played: true,
	},
	{
		Name: "struck", Topology: topologySingle, Fleet: 8, Duration: 12 * time.Second, Safe: true, Played: true, Rest: 500 * time.Millisecond,
		Nemeses: []string{n24Cut, n25KillWaiter, n26StopWaiter, n24Cut, n25KillWaiter},
	},
	{
		Name: "swarm", Topology: topologySingle, Fleet: 8, Duration: 20 * time.Second, Safe: true, Rest: 300 * time.Millisecond,
		Nemeses: []string{
			n1Close, n2Drop, n3Swallow, n4Delay, n4Hold, n5BlackHole, n6Split, n7Flush, n8KillAll, n9Pause, n10Busy, n11Stop,
			n13StopChild, n13KillChild, n17OOM, n20ACL, n21Starve, n22Replicas, n22MaxClients, n24Cut, n25KillWaiter, n26StopWaiter,
		},
	},
}

// staffed gives each scene its seed, its workers and their locks.
func staffed(scenes []Scene, seed uint64) []Scene {
	for i := range scenes {
		s := &scenes[i]
		s.Seed = seed*100 + uint64(i)
		s.Workers, s.Keepers = 12, 100
		if s.Mix == nil {
			s.Mix = mix()
		}
		if s.Fleet > 0 {
			s.Workers, s.Keepers, s.Mix = len(fleetMix()), 0, fleetMix()
		}
		if s.Topology == topologyRed {
			s.Mix = []Share{{kindRed, 1, []string{"r0", "r1", "r2"}}}
			s.Keepers = 20
		}
	}
	return scenes
}

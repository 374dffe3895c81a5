package torture

import "time"

const (
	topologySingle   = "single"
	topologySentinel = "sentinel"
	topologyCluster  = "cluster"
)

// Scene describes a run: the topology and the faults. Everything that the simulation plays as well has no scene here.
type Scene struct {
	Name     string
	Topology string
	Seed     uint64
	Duration time.Duration // each nemesis strikes at least once, however long that takes
	Nemeses  []string
	Rest     time.Duration // average pause between two nemeses
	Safe     bool          // Redis keeps its data, so no fault of the scene may let two owners in
}

// Scenes returns all scenes, those that take longest first. The seed of each is derived from the given one. A failover may forget writes, also one that no nemesis asked
// for: a slow machine is enough. So only a single server is safe.
func Scenes(seed uint64) []Scene {
	scenes := []Scene{
		{
			Name: "sentinel", Topology: topologySentinel, Duration: 90 * time.Second, Rest: time.Second / 2,
			Nemeses: []string{failedOver, died, hung, lossy, killedProcess, swallowed},
		},
		{
			Name: "cluster", Topology: topologyCluster, Duration: 90 * time.Second, Rest: time.Second / 2,
			Nemeses: []string{failedOver, died, hung, lossy, movedSlot, movedSlot, killedProcess, dropped, flushed},
		},
		{
			Name: "safe", Topology: topologySingle, Duration: 90 * time.Second, Safe: true, Rest: 300 * time.Millisecond,
			Nemeses: []string{
				closed, dropped, swallowed, blackHoled, splitUp, flushed, killedClients, cutSubscriptions, paused, busied, stoppedServer,
				stoppedProcess, killedProcess, killedProcess, outOfMemory, noRights, busyPool, noReplicas, tooManyClients,
			},
		},
		{
			Name: "unsafe", Topology: topologySingle, Duration: 60 * time.Second, Rest: 500 * time.Millisecond,
			Nemeses: []string{restarted, restored, evicted, stoppedProcess, killedProcess, dropped},
		},
	}
	for i := range scenes {
		scenes[i].Seed = seed*100 + uint64(i)
	}
	return scenes
}

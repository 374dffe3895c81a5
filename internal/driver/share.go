package driver

// maxBatches is how many pipelines of gathered calls are enough: see the transport's batchSize. Both figures are measured.
const maxBatches = 4

// Share divides the connections to a node among renewals, pipelines of gathered calls and single calls. A small pool is divided
// equally between pipelines and single calls. A pool of one connection leaves none for renewals. pipelines is how many connections
// pipelines have in a pool of their own; zero means that they have no such pool.
func Share(cfg Config, connections, pipelines int) Info {
	info := Info{Connections: connections}
	if cfg.Batches {
		info.Batches = min((connections-1)/2, maxBatches)
		if pipelines > 0 {
			info.Batches = min(info.Batches, pipelines-1)
		}
		if cfg.Acks { // acquisitions are not gathered
			info.Batches = min(info.Batches, 1)
		}
	}
	info.Slots = max(connections-1-info.Batches, 1) // one connection is left for renewals
	switch {
	case info.Batches == 0:
	case pipelines > 0:
		info.Spare = min(info.Slots, pipelines-1-info.Batches)
	default:
		info.Spare = info.Slots
	}
	return info
}

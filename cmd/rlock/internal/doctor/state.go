package doctor

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-rlock/rlock/cmd/rlock/internal/deploy"
)

// parse returns a number, or 0 for anything else.
func parse(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// reach reports the nodes that did not reply.
func reach(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.silent {
		if n.master {
			all = append(all, found(n, Problem,
				"The master does not reply (%s): nobody acquires a lock of its slots until a replica takes over. Bring it back.", why(n.err)))
		} else {
			all = append(all, found(n, Warning,
				"The replica does not reply (%s): it cannot take over, nor acknowledge locks. Bring it back.", why(n.err)))
		}
	}
	return all
}

// role reports a single server that is a replica, or none by itself. A Sentinel has no role in INFO.
func role(_ context.Context, d *deployment) (all []Finding) {
	if d.cluster {
		return nil
	}
	for _, n := range d.nodes {
		switch mode, is := deploy.Mode(n.info["redis_mode"]), n.info["role"]; {
		case mode == deploy.ClusterMode:
			all = append(all, found(n, Problem,
				"This is a node of a cluster, and the client takes it for a single server: locks of other nodes' slots fail (MOVED). Let the services use a cluster client, and check again with --cluster."))
		case mode == deploy.SentinelMode:
			all = append(all, found(n, Problem,
				"This is a Sentinel, which has no locks, and the client takes it for a server. Let the services ask it for the master, and check again with --sentinel-master."))
		case is == "slave":
			all = append(all, found(n, Problem,
				"This server is a replica, which takes no locks (READONLY). Connect to the master, or through Sentinel."))
		case is == "":
			all = append(all, found(n, Unknown, "Whether this is a master: %s.", why(n.infoErr)))
		}
	}
	return all
}

// version compares with what the documents promise and with what was tried.
func version(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.nodes {
		number := n.info["redis_version"]
		major, minor, ok := release(number)
		switch other := n.foreign(); {
		case !ok:
			all = append(all, found(n, Unknown, "The version: %s.", why(n.infoErr)))
		case other != "":
			all = append(all, found(n, Warning,
				"This is %s, with which rlock was never tried. Run rlock's tests on it, or use Redis or Valkey.", other).
				at("docs/servers.md#servers-that-we-have-not-tried"))
		case n.info["valkey_version"] != "": // which calls itself Redis 7.2.4
		case major < 6 || major == 6 && minor < 2:
			all = append(all, found(n, Problem,
				"Redis %s is older than 6.2, and rlock needs commands that it lacks. Upgrade to Redis 7 or newer.", number).at(installPage))
		case major == 6:
			all = append(all, found(n, Note,
				"Redis %s has no sharded pub/sub, and CI does not run it, although rlock's tests passed on 6.2. Redis 7 or newer is better.", number).
				at(serversPage))
		}
	}
	return all
}

// foreign returns the name of a server that is neither Redis nor Valkey, or nothing.
func (n *node) foreign() string {
	for field, name := range map[string]string{
		"dragonfly_version": "Dragonfly", "kvrocks_version": "Kvrocks", "garnet_version": "Garnet",
	} {
		if n.info[field] != "" {
			return name
		}
	}
	return ""
}

// release returns the first two numbers of a version.
func release(version string) (major, minor int64, ok bool) {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return 0, 0, false
	}
	return parse(parts[0]), parse(parts[1]), parse(parts[0]) > 0
}

// eviction reports policies that drop locks. A replica does not evict, but it does after a failover.
func eviction(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.nodes {
		policy, ok := n.setting("maxmemory-policy", "maxmemory_policy")
		limit, limited := n.setting("maxmemory", "maxmemory")
		switch {
		case !ok:
			all = append(all, found(n, Unknown, "The eviction policy: %s.", why(n.infoErr)))
		case policy == "noeviction":
		case limited && parse(limit) == 0:
			all = append(all, found(n, Note,
				"maxmemory-policy is %s, but maxmemory is not set, so nothing is evicted yet. Set noeviction before somebody sets a limit.", policy))
		default:
			all = append(all, found(n, Problem,
				"maxmemory-policy is %s: when memory is short, Redis drops held locks, which have a TTL, and lets other owners in. Set noeviction, or use a server for locks alone.",
				policy))
		}
	}
	return all
}

// full is the share of the memory from which on a warning is due: time is needed to react, and memory in use grows in leaps.
const full = 90

// memory reports masters that soon refuse new locks. Where Redis evicts, that is a finding of eviction.
func memory(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.masters() {
		text, ok := n.setting("maxmemory", "maxmemory")
		limit, used := parse(text), n.number("used_memory")-n.number("mem_not_counted_for_evict")
		if policy, _ := n.setting("maxmemory-policy", "maxmemory_policy"); policy != "noeviction" && policy != "" {
			continue
		}
		switch {
		case !ok || limit > 0 && n.info["used_memory"] == "":
			all = append(all, found(n, Unknown, "The memory in use: %s.", why(n.infoErr)))
		case limit == 0:
		case used > limit:
			all = append(all, found(n, Problem,
				"Redis is out of memory: it refuses new locks (OOM), and keeps those that are held. Free memory, or raise maxmemory."))
		case used/full > limit/100:
			all = append(all, found(n, Warning,
				"Redis uses more than %d %% of maxmemory: when it is full, it refuses new locks (OOM). Free memory, or raise maxmemory.", full))
		}
	}
	return all
}

// writes reports servers that refuse all writes after a save that failed. They say so in reply to PING, too.
func writes(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.nodes {
		switch {
		case n.pingErr == nil:
		case !unsaved(n.pingErr):
			all = append(all, found(n, Unknown, "Whether a failed save makes it refuse writes: %s.", why(n.pingErr)))
		case n.master:
			all = append(all, found(n, Problem,
				"Redis cannot save its data, and refuses all writes (MISCONF): nobody acquires, renews or frees a lock. Look at its log, and at its disk, or set stop-writes-on-bgsave-error no."))
		default:
			all = append(all, found(n, Warning,
				"The replica cannot save its data: after a failover to it, it refuses all writes (MISCONF), and nobody acquires a lock. Look at its log, and at its disk."))
		}
	}
	return all
}

package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// replica is what a master says about one of its replicas.
type replica struct {
	addr   string
	online bool
	silent time.Duration // since its last acknowledgement, which comes every second, by a clock of whole seconds
}

// usualSilence is how long a replica is silent between two acknowledgements.
const usualSilence = time.Second

// isSilent reports whether a replica has surely been silent for longer than that, and for longer than usual. The difference of two whole
// seconds may be a second too large.
func (r replica) isSilent(longer time.Duration) bool {
	return r.silent-time.Second > max(longer, usualSilence)
}

// replicas returns what a master says about its replicas.
func (n *node) replicas() (all []replica) {
	for i := range n.number("connected_slaves") {
		var ip, port string
		r := replica{}
		for part := range strings.SplitSeq(n.info[fmt.Sprintf("slave%d", i)], ",") {
			name, value, _ := strings.Cut(part, "=")
			switch name {
			case "ip":
				ip = value
			case "port":
				port = value
			case "state":
				r.online = value == "online"
			case "lag":
				r.silent = time.Duration(parse(value)) * time.Second
			}
		}
		r.addr = ip + ":" + port
		all = append(all, r)
	}
	return all
}

// ackTime is how long replicas have to acknowledge. Only the connection that asks waits, and Redis does not.
const ackTime = 500 * time.Millisecond

// acks looks whether acquisitions get the acknowledgements that they wait for, by waiting for the same without having written.
func acks(ctx context.Context, d *deployment) (all []Finding) {
	if d.opts.Acks == 0 {
		if d.most() > 0 {
			return []Finding{found(nil, Note,
				"The services do not wait for replicas: a failover may lose a lock that was just acquired. WithReplicaAcks(AllReplicas) waits for those that are connected.")}
		}
		return []Finding{found(nil, OK, "The services do not wait for replicas.")}
	}
	for _, n := range d.masters() {
		wanted, every := int(d.opts.Acks), d.opts.Acks == rlock.AllReplicas
		if every {
			wanted = n.online()
		}
		if wanted == 0 && n.infoErr == nil {
			all = append(all, found(n, Note, "No replica is connected, so acquisitions with AllReplicas wait for none."))
			continue
		}
		// Client.Wait has a timeout of its own, because that of the client may be shorter than ackTime.
		have, err := n.rdb.Wait(ctx, wanted, ackTime).Result()
		var reply redis.Error
		switch {
		case every && n.infoErr != nil && denied(n.infoErr):
			all = append(all, found(n, Problem,
				"The user may not ask for INFO replication, so every acquisition with AllReplicas fails: grant +info (%s).", why(n.infoErr)).at(rightsPage))
		case err == nil && every && have < int64(wanted):
			all = append(all, found(n, Warning,
				"%d of the %d replicas that are connected acknowledged in %v. Acquisitions with AllReplicas fail (ErrNotReplicated) until all do. Look at their logs.",
				have, wanted, ackTime))
		case err == nil && have < int64(wanted):
			all = append(all, found(n, Problem,
				"%d replicas acknowledged in %v, and WithReplicaAcks(%d) waits for more: acquisitions fail (ErrNotReplicated). Add replicas, or wait for fewer.",
				have, ackTime, d.opts.Acks))
		case err == nil:
		case denied(err):
			all = append(all, found(n, Problem,
				"The user may not WAIT, so every acquisition WithReplicaAcks fails: grant +wait (%s).", why(err)).at(rightsPage))
		case asRedis(err, &reply):
			all = append(all, found(n, Problem,
				"The server cannot WAIT, so every acquisition WithReplicaAcks fails (%s). Leave the option out.", why(err)))
		default:
			all = append(all, found(n, Unknown, "Whether replicas acknowledge: %s.", why(err)))
		}
	}
	return all
}

// online returns how many replicas of a master can acknowledge.
func (n *node) online() (online int) {
	for _, r := range n.replicas() {
		if r.online {
			online++
		}
	}
	return online
}

// most returns how many replicas a master has at most.
func (d *deployment) most() (most int) {
	for _, n := range d.masters() {
		most = max(most, n.online())
	}
	return most
}

// demotion looks at min-replicas-to-write, by which a master that was replaced without noticing it stops accepting renewals, and one
// that never had replicas accepts nothing.
func demotion(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.masters() {
		good, set := n.info["min_slaves_good_slaves"]
		least, lag := parse(n.settings["min-replicas-to-write"]), time.Duration(parse(n.settings["min-replicas-max-lag"]))*time.Second
		switch {
		case n.infoErr != nil:
			all = append(all, found(n, Unknown, "min-replicas-to-write: %s.", why(n.infoErr)))
		case set && parse(good) < max(least, 1):
			all = append(all, found(n, Problem,
				"The master has %s good replicas, and min-replicas-to-write asks for more: it refuses all locks (NOREPLICAS). Bring replicas back, or set it to 0 where there are none.", good).
				at(failurePage))
		case set && lag >= d.opts.Lease:
			all = append(all, found(n, Warning,
				"min-replicas-max-lag is %v, which is not below the lease of %v: a master that was demoted accepts renewals while another owner has the lock. Lower it.",
				lag, d.opts.Lease))
		case !set && n.number("connected_slaves") > 0:
			all = append(all, found(n, Warning,
				"min-replicas-to-write is not set: a master that was demoted and does not know it still accepts renewals, while another owner has the lock. Set it to 1, and min-replicas-max-lag below the lease of %v.",
				d.opts.Lease))
		}
	}
	return all
}

// replicas reports what a failover would lose. When a replica had not heard from its master for half a lease, the failovers that were
// measured lost no lock; at one and a half leases they lost each.
func replicas(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.nodes {
		switch {
		case n.info["role"] == "":
			all = append(all, found(n, Unknown, "The replicas: %s.", why(n.infoErr)))
		case !n.master && n.info["master_link_status"] == "down":
			all = append(all, found(n, Warning,
				"The replica has no connection to its master: after a failover to it, locks are lost. Look at its log."))
		case n.info["role"] == "master" && n.number("connected_slaves") == 0:
			all = append(all, found(n, Note,
				"The master has no replica: while it is down, nobody acquires its locks, and if it restarts empty, they are lost. Add a replica if that matters.").
				at(promisePage))
		}
		if !n.master {
			continue
		}
		for _, r := range n.replicas() {
			if !r.online || r.isSilent(d.opts.Lease/2) {
				all = append(all, found(n, Warning,
					"The replica %s is behind (online: %t, silent for %v): a failover to it loses locks. Look at its log, and at the network.",
					r.addr, r.online, r.silent))
			}
		}
	}
	return all
}

// persistence looks whether a member of red locks remembers them when it restarts.
func persistence(_ context.Context, d *deployment) (all []Finding) {
	for _, n := range d.masters() {
		appends, ok := n.settings["appendonly"]
		switch when := n.settings["appendfsync"]; {
		case !ok:
			all = append(all, found(n, Unknown, "appendfsync: the user may not read the settings (CONFIG GET)."))
		case appends != "yes" || when != "always":
			all = append(all, found(n, Warning,
				"Redis does not persist every write (appendonly %s, appendfsync %s): after a restart, this member may grant a red lock that is held. Set appendfsync always, or keep it down for longer than a lease of %v.",
				appends, when, d.opts.Lease))
		}
	}
	return all
}

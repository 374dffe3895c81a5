package simredis

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-rlock/rlock/internal/wire"
)

// clusterCommands are those of the nodes of a cluster.
var clusterCommands = map[string]talk{
	"CLUSTER|MYID":             inCluster(func(n *node, _ []string) any { return n.id }),
	"CLUSTER|INFO":             inCluster(clusterInfo),
	"CLUSTER|NODES":            inCluster(clusterNodes),
	"CLUSTER|SLOTS":            inCluster(clusterSlots),
	"CLUSTER|SHARDS":           inCluster(clusterShards),
	"CLUSTER|KEYSLOT":          inCluster(func(_ *node, a []string) any { return int64(wire.Slot(a[2])) }),
	"CLUSTER|COUNTKEYSINSLOT":  inCluster(clusterCount),
	"CLUSTER|GETKEYSINSLOT":    inCluster(clusterKeys),
	"CLUSTER|ADDSLOTS":         inCluster(func(n *node, a []string) any { return n.assign(a[2:], false, true) }),
	"CLUSTER|ADDSLOTSRANGE":    inCluster(func(n *node, a []string) any { return n.assign(a[2:], true, true) }),
	"CLUSTER|DELSLOTS":         inCluster(func(n *node, a []string) any { return n.assign(a[2:], false, false) }),
	"CLUSTER|DELSLOTSRANGE":    inCluster(func(n *node, a []string) any { return n.assign(a[2:], true, false) }),
	"CLUSTER|SETSLOT":          inCluster(clusterSetSlot),
	"CLUSTER|SET-CONFIG-EPOCH": inCluster(clusterSetEpoch),
	"CLUSTER|MEET":             inCluster(clusterMeet),
	"CLUSTER|REPLICATE":        inCluster(clusterReplicate),
	"CLUSTER|FAILOVER":         inCluster(clusterFailover),
	"ASKING":                   func(c *Conn, _ []string) any { return c.mark(&c.asking, true) },
	"READONLY":                 func(c *Conn, _ []string) any { return c.mark(&c.readOnly, true) },
	"READWRITE":                func(c *Conn, _ []string) any { return c.mark(&c.readOnly, false) },
}

const (
	errNoCluster = Err("ERR This instance has cluster support disabled")
	errSlot      = Err("ERR Invalid or out of range slot")
)

func inCluster(f func(n *node, a []string) any) talk {
	return func(c *Conn, a []string) any {
		if c.server.node == nil {
			return errNoCluster
		}
		return f(c.server.node, a)
	}
}

// mark notes what the client has said about the connection.
func (c *Conn) mark(what *bool, is bool) any {
	if c.server.node == nil {
		return errNoCluster
	}
	*what = is
	return Status("OK")
}

func clusterInfo(n *node, _ []string) any {
	state, assigned, masters := "fail", 0, 0
	if n.cluster.isUp() {
		state = "ok"
	}
	for _, owner := range n.cluster.owner {
		assigned += int(truth(owner != nil))
	}
	epoch := int64(0)
	for _, other := range n.cluster.nodes {
		masters += int(truth(other.owns > 0))
		epoch = max(epoch, other.epoch)
	}
	return lines("cluster_state", state, "cluster_slots_assigned", assigned, "cluster_slots_ok", assigned, "cluster_slots_pfail", 0,
		"cluster_slots_fail", 0, "cluster_known_nodes", len(n.cluster.nodes), "cluster_size", max(1, masters),
		"cluster_current_epoch", epoch, "cluster_my_epoch", n.epoch)
}

func clusterNodes(n *node, _ []string) any {
	var all strings.Builder
	for _, other := range n.cluster.nodes {
		all.WriteString(other.line(n) + "\n")
	}
	return all.String()
}

func clusterSlots(n *node, _ []string) any {
	all := []any{}
	describe := func(n *node) any { return []any{n.host, n.announced(), n.id, []any{}} }
	n.cluster.ranges(func(from, to int, owner *node) {
		one := []any{int64(from), int64(to), describe(owner)}
		for _, replica := range n.cluster.replicasOf(owner) {
			if !replica.down {
				one = append(one, describe(replica))
			}
		}
		all = append(all, one)
	})
	return all
}

func clusterShards(n *node, _ []string) any {
	all := []any{}
	describe := func(n *node, role string) any {
		health := "online"
		if n.down {
			health = "fail"
		}
		return []any{
			"id", n.id, "port", n.announced(), "ip", n.host, "endpoint", n.host, "role", role, "replication-offset", n.server.offset, "health", health,
		}
	}
	for _, master := range n.cluster.nodes {
		if master.master != nil {
			continue
		}
		ranges := []any{}
		n.cluster.ranges(func(from, to int, owner *node) {
			if owner == master {
				ranges = append(ranges, int64(from), int64(to))
			}
		})
		nodes := []any{describe(master, "master")}
		for _, replica := range n.cluster.replicasOf(master) {
			nodes = append(nodes, describe(replica, "replica"))
		}
		all = append(all, []any{"slots", ranges, "nodes", nodes})
	}
	return all
}

func parseSlot(text string) (int, bool) {
	n, ok := parseInt(text)
	return int(n), ok && n >= 0 && n < slots
}

// keysIn returns the keys in a slot, in alphabetical order.
func (n *node) keysIn(slot int) []string {
	return slices.DeleteFunc(n.server.Keys(), func(key string) bool { return int(wire.Slot(key)) != slot })
}

func clusterCount(n *node, a []string) any {
	slot, ok := parseSlot(a[2])
	if !ok {
		return Err("ERR Invalid slot")
	}
	return int64(len(n.keysIn(slot)))
}

func clusterKeys(n *node, a []string) any {
	slot, ok := parseSlot(a[2])
	most, ok2 := parseInt(a[3])
	if !ok || !ok2 || most < 0 {
		return Err("ERR Invalid slot or number of keys")
	}
	keys := n.keysIn(slot)
	return texts(keys[:min(int64(len(keys)), most)])
}

// assign takes slots that nobody has, or gives slots up.
func (n *node) assign(texts []string, ranges, take bool) any {
	var which []int
	for i := 0; i < len(texts); i++ {
		from, ok := parseSlot(texts[i])
		to := from
		if ranges && i+1 < len(texts) {
			i++
			var ok2 bool
			to, ok2 = parseSlot(texts[i])
			ok = ok && ok2
		}
		if !ok {
			return errSlot
		}
		for slot := from; slot <= to; slot++ {
			name := "ERR Slot " + strconv.Itoa(slot)
			switch owned := n.cluster.owner[slot] != nil; {
			case take && owned:
				return Err(name + " is already busy")
			case !take && !owned:
				return Err(name + " is already unassigned")
			case slices.Contains(which, slot) && !ranges:
				return Err(name + " specified multiple times")
			}
			which = append(which, slot)
		}
	}
	for _, slot := range which {
		var to *node
		if take {
			to = n
		}
		n.cluster.give(slot, to)
	}
	return Status("OK")
}

func clusterSetSlot(n *node, a []string) any {
	const bad = Err("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP")
	slot, ok := parseSlot(a[2])
	if !ok {
		return errSlot
	}
	if len(a) == 4 && same(a[3], "STABLE") {
		delete(n.migrating, slot)
		delete(n.importing, slot)
		return Status("OK")
	}
	if len(a) != 5 {
		return bad
	}
	owner, other := n.cluster.owner[slot], n.cluster.byID(a[4])
	unknown := Err(clean("ERR I don't know about node " + a[4]))
	switch action := strings.ToUpper(a[3]); {
	case action == "MIGRATING" && owner != n:
		return Err("ERR I'm not the owner of hash slot " + strconv.Itoa(slot))
	case action == "IMPORTING" && owner == n:
		return Err("ERR I'm already the owner of hash slot " + strconv.Itoa(slot))
	case action != "MIGRATING" && action != "IMPORTING" && action != "NODE":
		return bad
	case other == nil && action == "NODE":
		return Err(clean("ERR Unknown node " + a[4]))
	case other == nil:
		return unknown
	case action == "MIGRATING":
		n.migrating[slot] = other
	case action == "IMPORTING":
		n.importing[slot] = other
	default:
		if owner == n && other != n && len(n.keysIn(slot)) > 0 {
			return Err("ERR Can't assign hashslot " + strconv.Itoa(slot) + " to a different node while I still hold keys for this hash slot.")
		}
		delete(n.migrating, slot)
		delete(n.importing, slot)
		n.cluster.give(slot, other)
	}
	return Status("OK")
}

func clusterSetEpoch(n *node, a []string) any {
	epoch, ok := parseInt(a[2])
	switch {
	case !ok:
		return errNotInt
	case epoch < 0:
		return Err("ERR Invalid config epoch specified: " + a[2])
	case len(n.cluster.nodes) > 1:
		return Err("ERR The user can assign a config epoch only when the node does not know any other node.")
	case n.epoch != 0:
		return Err("ERR Node config epoch is already non-zero")
	}
	n.epoch = epoch
	return Status("OK")
}

// clusterMeet makes one cluster of two.
func clusterMeet(n *node, a []string) any {
	port, _ := parseInt(a[3])
	if n.server.Resolve == nil {
		return errNotSimulated("the network")
	}
	other := n.server.Resolve(a[2], port)
	if other == nil || other.node == nil || other.node.cluster == n.cluster {
		return Status("OK") // a real one goes on trying
	}
	for _, joins := range other.node.cluster.nodes {
		joins.owns = 0
		for slot, owner := range joins.cluster.owner {
			if owner == joins {
				n.cluster.give(slot, joins)
			}
		}
		n.cluster.nodes = append(n.cluster.nodes, joins)
	}
	for _, joins := range n.cluster.nodes {
		joins.cluster = n.cluster
	}
	return Status("OK")
}

func clusterReplicate(n *node, a []string) any {
	of := n.cluster.byID(a[2])
	switch {
	case of == nil:
		return Err(clean("ERR Unknown node " + a[2]))
	case of == n:
		return Err("ERR Can't replicate myself")
	case of.master != nil:
		return Err("ERR I can only replicate a master, not a replica.")
	case n.master == nil && (n.owns > 0 || len(n.server.db.keys) > 0):
		return Err("ERR To set a master the node must be empty and without assigned slots.")
	}
	n.follow(of)
	return Status("OK")
}

// follow makes the node a replica of another one.
func (n *node) follow(of *node) {
	n.master, n.successor = of, nil
	n.server.Follow(of.server, n.host, n.port, of.host, of.port).AtOnce = !of.server.Lags
}

// clusterFailover makes the replica the master, and its master the replica.
func clusterFailover(n *node, _ []string) any {
	old := n.master
	if old == nil {
		return Err("ERR You should send CLUSTER FAILOVER to a replica")
	}
	n.takeOver()
	if !old.down {
		old.follow(n)
	}
	return Status("OK")
}

// takeOver makes the replica a master with the slots of its own, which it and the other replicas leave.
func (n *node) takeOver() {
	old := n.master
	for _, other := range n.cluster.nodes {
		n.epoch = max(n.epoch, other.epoch+1)
	}
	n.server.leaveMaster()
	n.master, old.successor = nil, n
	for slot, owner := range n.cluster.owner {
		if owner == old {
			n.cluster.give(slot, n)
		}
	}
	for _, other := range n.cluster.replicasOf(old) {
		if !other.down {
			other.follow(n)
		}
	}
}

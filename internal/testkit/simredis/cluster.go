package simredis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-rlock/rlock/internal/wire"
)

const slots = 16384

// cluster is what all of its nodes know. A change is known to all of them at once, where a real one takes a moment to spread it.
type cluster struct {
	nodes []*node
	owner [slots]*node // nil of a slot that nobody serves
}

// node is a server as part of a cluster.
type node struct {
	server    *Server
	id        string
	host      string
	port      int64
	epoch     int64
	owns      int           // how many slots
	master    *node         // of a replica
	successor *node         // that took over
	down      bool          // the others take it for failed
	migrating map[int]*node // slots that it is giving to another one
	importing map[int]*node // slots that it is getting from another one
	cluster   *cluster
}

// EnableCluster makes the server a node of a cluster, of which it is the only one until CLUSTER MEET. It has an address, which
// redirections name. Resolve has to be set for MEET, REPLICATE and MIGRATE.
func (s *Server) EnableCluster(host string, port int64) {
	id := Digest(fmt.Sprint(host, ":", port, " ", s.Seed))
	s.node = &node{server: s, id: id, host: host, port: port, migrating: map[int]*node{}, importing: map[int]*node{}}
	s.node.cluster = &cluster{nodes: []*node{s.node}}
}

// SetDown makes the other nodes see the server as failed, so that they elect one of its replicas, or as alive again. It does nothing to
// a server outside a cluster.
func (s *Server) SetDown(down bool) {
	n := s.node
	if n == nil || n.down == down {
		return
	}
	n.down = down
	replicas := n.cluster.replicasOf(n)
	at := slices.IndexFunc(replicas, func(replica *node) bool { return !replica.down })
	switch {
	case down && at >= 0:
		replicas[at].takeOver()
	case !down && n.successor != nil:
		n.follow(n.successor)
	case !down && n.master != nil:
		n.follow(n.master)
	}
}

// Deposed reports whether another node has taken over from this one, which has not learned of that yet.
func (s *Server) Deposed() bool { return s.node.successor != nil }

// Rejoin has a node that was restarted follow the master that it has now, or its replicas follow it again.
func (s *Server) Rejoin() {
	n := s.node
	n.down = false
	switch {
	case n.successor != nil:
		n.follow(n.successor)
	case n.master != nil:
		n.follow(n.master)
	default:
		for _, replica := range n.cluster.replicasOf(n) {
			replica.follow(n)
		}
	}
}

// Owner returns the master that has the slot of a key, or nil.
func (s *Server) Owner(key string) *Server {
	if n := s.node.cluster.owner[wire.Slot(key)]; n != nil {
		return n.server
	}
	return nil
}

// announced returns the port that clients are told of.
func (n *node) announced() int64 { return cmp.Or(n.server.number("cluster-announce-port"), n.port) }

func (n *node) addr() string { return n.host + ":" + strconv.FormatInt(n.announced(), 10) }

// isUp reports whether the cluster serves anything: each slot has a node that is not taken for failed.
func (c *cluster) isUp() bool {
	served := 0
	for _, n := range c.nodes {
		if !n.down {
			served += n.owns
		}
	}
	return served == slots
}

// byID returns a node, or nil.
func (c *cluster) byID(id string) *node {
	if i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.id == id }); i >= 0 {
		return c.nodes[i]
	}
	return nil
}

// The errors of a node that does not serve a command.
const (
	errCrossSlot = Err("CROSSSLOT Keys in request don't hash to the same slot")
	errTryAgain  = Err("TRYAGAIN Multiple keys request during rehashing of slot")
	errUnserved  = Err("CLUSTERDOWN Hash slot not served")
	errDown      = Err("CLUSTERDOWN The cluster is down")
)

// routed is a command whose keys have to be in one slot.
type routed struct {
	cmd  *command
	args []string
}

// redirect returns the error by which the node redirects or refuses a command, or an empty one. For EXEC, all commands of the transaction
// count.
func (n *node) redirect(c *Conn, cmd *command, args []string) Err {
	all := []routed{{cmd, args}}
	if cmd.name == "exec" {
		if all = nil; !c.open {
			return ""
		}
		for _, q := range c.queue {
			all = append(all, routed(q))
		}
	}
	return n.serve(cmd, all, c.asking, c.readOnly)
}

// serve is redirect for a command, or the commands that EXEC runs, of a connection that has said ASKING or READONLY, or has not.
func (n *node) serve(cmd *command, all []routed, asking, readOnly bool) Err {
	slot, first, several, keys, missing, changes := -1, "", false, 0, 0, false
	sharded := shardedCommands[cmd.name]
	for _, r := range all {
		changes = changes || r.cmd.is(writes)
		for _, key := range r.cmd.keysOf(r.args) {
			of := int(wire.Slot(key))
			if slot == -1 && n.cluster.owner[of] == nil {
				return errUnserved
			} else if slot != -1 && of != slot {
				return errCrossSlot
			}
			if slot == -1 {
				slot, first = of, key
			}
			several = several || key != first
			keys++
			missing += int(truth(n.server.get(key) == nil))
		}
	}
	if slot == -1 {
		return ""
	}
	owner := n.cluster.owner[slot]
	switch to, from := n.migrating[slot], n.importing[slot]; {
	case !n.cluster.isUp() && !sharded:
		return errDown
	case cmd.name == "migrate" && (to != nil || from != nil):
		return ""
	case to != nil && owner == n && missing > 0 && !sharded:
		if missing < keys {
			return errTryAgain
		}
		return Err(fmt.Sprintf("ASK %d %s", slot, to.addr()))
	case from != nil && asking:
		if several && missing > 0 && !sharded {
			return errTryAgain
		}
		return ""
	case (readOnly || sharded) && !changes && n.master != nil && n.master == owner:
		return ""
	case owner != n:
		return Err(fmt.Sprintf("MOVED %d %s", slot, owner.addr()))
	}
	return ""
}

// serveCall is serve for a command that a script calls.
func (n *node) serveCall(c *Conn, cmd *command, args []string) Err {
	refused := n.serve(cmd, []routed{{cmd, args}}, c.asking, c.readOnly)
	if refused == "" {
		return ""
	}
	if refused == errDown {
		return "ERR Script attempted to execute a command while the cluster is down"
	}
	return "ERR Script attempted to access a non local key in a cluster node"
}

// give makes a node the owner of a slot. Who listens to a sharded channel of the slot at the old one is told that this is over.
func (c *cluster) give(slot int, to *node) {
	from := c.owner[slot]
	c.owner[slot] = to
	if to != nil {
		to.owns++
	}
	if from != nil {
		from.owns--
	}
	if from == nil || from == to {
		return
	}
	for _, n := range c.nodes {
		if n == from || n.master == from {
			n.server.endShards(slot)
		}
	}
}

// endShards ends all subscriptions to the sharded channels of a slot.
func (s *Server) endShards(slot int) {
	for _, conn := range s.sortedConns() {
		for _, channel := range slices.Clone(conn.shards) {
			if int(wire.Slot(channel)) != slot {
				continue
			}
			conn.shards = slices.DeleteFunc(conn.shards, func(other string) bool { return other == channel })
			s.Unsubscribe(channel, conn.sharded, true)
			if conn.send != nil {
				conn.send([]any{"sunsubscribe", channel, int64(len(conn.shards))})
			}
		}
	}
}

// ranges calls a function for each range of slots that one node has, in order.
func (c *cluster) ranges(f func(from, to int, n *node)) {
	for from := 0; from < slots; {
		to := from
		for to+1 < slots && c.owner[to+1] == c.owner[from] {
			to++
		}
		if c.owner[from] != nil {
			f(from, to, c.owner[from])
		}
		from = to + 1
	}
}

// slotsOf returns the ranges of a node, as CLUSTER NODES lists them.
func (c *cluster) slotsOf(n *node) (all []string) {
	c.ranges(func(from, to int, of *node) {
		switch {
		case of != n:
		case from == to:
			all = append(all, strconv.Itoa(from))
		default:
			all = append(all, fmt.Sprintf("%d-%d", from, to))
		}
	})
	return all
}

// line returns the node as CLUSTER NODES of another one lists it.
func (n *node) line(by *node) string {
	flags, master := "master", "-"
	if n.master != nil {
		flags, master = "slave", n.master.id
	}
	if n == by {
		flags = "myself," + flags
	}
	if n.down && n != by {
		flags += ",fail"
	}
	words := []string{
		n.id, fmt.Sprintf("%s@%d", n.addr(), n.port+10000), flags, master, "0", "0", strconv.FormatInt(n.epoch, 10), "connected",
	}
	words = append(words, n.cluster.slotsOf(n)...)
	if n == by {
		for slot := range slots {
			if to := n.migrating[slot]; to != nil {
				words = append(words, fmt.Sprintf("[%d->-%s]", slot, to.id))
			}
			if from := n.importing[slot]; from != nil {
				words = append(words, fmt.Sprintf("[%d-<-%s]", slot, from.id))
			}
		}
	}
	return strings.Join(words, " ")
}

// replicasOf returns the replicas of a node.
func (c *cluster) replicasOf(n *node) (all []*node) {
	for _, other := range c.nodes {
		if other.master == n {
			all = append(all, other)
		}
	}
	return all
}

package simredis

import (
	"slices"
	"strconv"
)

// Replica is a server that follows another one. What its master writes arrives when [Replica.Apply] says so, and the master knows of it
// when [Replica.Acknowledge] says so: so a replica lags behind, or loses the last writes, as its owner decides.
type Replica struct {
	*Server
	// AtOnce has it apply and acknowledge each write at once.
	AtOnce bool

	of           *Server
	addr         string
	sent         [][]string // by the master, and not yet applied
	acknowledged int64      // how many of them the master knows of
	up           bool
}

// replication is what a master knows about its replicas.
type replication struct {
	offset   int64 // how many writes there were
	history  int64 // counts the failovers before: each begins a new history of writes
	replicas []*Replica
}

// AddReplica adds a replica with the clock of its master. See [Server.Follow].
func (s *Server) AddReplica(host string, port int64, masterHost string, masterPort int64) *Replica {
	replica := New(s.Clock)
	replica.Seed = s.Seed
	return replica.Follow(s, host, port, masterHost, masterPort)
}

// Follow makes the server a replica of another one, which begins with a copy of the data. The addresses are those that INFO and ROLE
// reply of each other.
func (s *Server) Follow(of *Server, host string, port int64, masterHost string, masterPort int64) *Replica {
	s.leaveMaster()
	s.replica = &Replica{Server: s, of: of, addr: host + ":" + strconv.FormatInt(port, 10)}
	s.master = &master{host: masterHost, port: masterPort}
	of.replicas = append(of.replicas, s.replica)
	s.replica.Sync()
	return s.replica
}

// leaveMaster ends being a replica.
func (s *Server) leaveMaster() {
	if r := s.replica; r != nil {
		r.of.replicas = slices.DeleteFunc(r.of.replicas, func(other *Replica) bool { return other == r })
	}
	s.replica, s.master = nil, nil
}

// Sync has the replica connect to its master and get a copy of all data, as after a cut.
func (r *Replica) Sync() {
	r.sent, r.master.applied, r.acknowledged = nil, r.of.offset, r.of.offset
	r.db = r.of.db.Clone()
	r.up, r.master.up = true, true
}

// Cut ends the connection between the replica and its master: what the master has sent and the replica has not applied is lost.
func (r *Replica) Cut() {
	r.sent = nil
	r.up = false
	if r.master != nil {
		r.master.up = false
	}
}

// Behind returns how many writes the master has sent that the replica has not applied.
func (r *Replica) Behind() int { return len(r.sent) }

// Apply has the replica execute the next writes of its master, at most so many.
func (r *Replica) Apply(most int) {
	n := min(most, len(r.sent))
	if n == 0 {
		return
	}
	for _, args := range r.sent[:n] {
		cmd, err := lookUp(args)
		if err != "" {
			panic("simredis: a replica got " + string(err))
		}
		r.applies = true
		r.perform(r.own, cmd, args)
		r.applies = false
	}
	r.sent = slices.Clone(r.sent[n:])
	r.master.applied += int64(n)
}

// Acknowledge tells the master which writes the replica has.
func (r *Replica) Acknowledge() {
	if r.up {
		r.acknowledged = r.master.applied
	}
}

// Promote makes the replica a master of its own, as a failover does. What it has not applied is lost. Its old master forgets it.
func (r *Replica) Promote() *Server {
	r.Cut()
	r.offset, r.history = r.master.applied, r.of.history+1
	r.leaveMaster()
	return r.Server
}

// Demote has the server refuse writes from now on, as a master does that has learned of a failover.
func (s *Server) Demote(masterHost string, masterPort int64) {
	s.master = &master{host: masterHost, port: masterPort, up: true}
}

// propagate sends what changes data, or is a message, to all replicas. As in Redis, a master that has none counts no writes.
func (s *Server) propagate(args []string) {
	if len(s.replicas) == 0 {
		return
	}
	s.offset++
	for _, r := range s.replicas {
		if r.up {
			r.sent = append(r.sent, args)
		}
		if r.AtOnce {
			r.Apply(len(r.sent))
			r.Acknowledge()
		}
	}
}

// absolute returns a command that has the same effect at any time as the one that has just been run.
func (s *Server) absolute(cmd *command, args []string) []string {
	switch cmd.name {
	case "set":
		v := s.db.keys[args[1]]
		if v == nil || v.kind() != "string" { // it has set nothing
			return nil
		}
		same := []string{"SET", args[1], v.text}
		if v.expire != 0 {
			same = append(same, "PXAT", strconv.FormatInt(v.expire, 10))
		}
		return same
	case "restore":
		v := s.db.keys[args[1]]
		return []string{"RESTORE", args[1], strconv.FormatInt(v.expire, 10), args[3], "ABSTTL", "REPLACE"}
	case "migrate":
		return append([]string{"DEL"}, movableKeys("migrate", args)...)
	case "pexpire", "expire", "pexpireat", "expireat":
		v := s.db.keys[args[1]]
		switch {
		case v == nil:
			return []string{"DEL", args[1]}
		case v.expire == 0:
			return nil
		}
		return []string{"PEXPIREAT", args[1], strconv.FormatInt(v.expire, 10)}
	}
	return args
}

// Replicas returns the servers that follow this one.
func (s *Server) Replicas() []*Replica { return s.replicas }

// Following returns the server as a replica, or nil for a master.
func (s *Server) Following() *Replica { return s.replica }

// Offset returns how many writes the server has sent to its replicas.
func (s *Server) Offset() int64 { return s.offset }

// AcknowledgedAt returns how many replicas have all writes up to one, as far as the server knows.
func (s *Server) AcknowledgedAt(offset int64) (n int64) {
	for _, r := range s.replicas {
		n += truth(r.up && r.acknowledged >= offset)
	}
	return n
}

// goodReplicas returns how many replicas are connected.
func (s *Server) goodReplicas() (n int64) {
	for _, r := range s.replicas {
		n += truth(r.up)
	}
	return n
}

// Acknowledged returns how many replicas have all that the connection has written, as far as the master knows.
func (c *Conn) Acknowledged() int64 { return c.server.AcknowledgedAt(c.written) }

package simredis

import (
	"cmp"
	"slices"
	"strings"
)

// limits are the settings of a server, and the states in which it refuses commands.
type limits struct {
	settings map[string]string

	maxMemory   uint64 // the settings that each command asks for
	minReplicas int64
	serveStale  bool

	full     bool    // Redis has no memory for the command that runs
	master   *master // of a replica
	loading  bool
	busy     bool // a script runs for too long
	unsaved  bool // the last snapshot could not be written
	failSave bool

	received, evicted int64
}

// master is that of a replica.
type master struct {
	host    string
	port    int64
	up      bool  // the replica has it
	applied int64 // how many of its writes the replica has
}

func newLimits() limits {
	l := limits{settings: map[string]string{}}
	for name, p := range settings {
		l.settings[name] = p.initial
	}
	l.learnSettings()
	return l
}

// learnSettings takes over settings that have changed.
func (l *limits) learnSettings() {
	l.maxMemory, _ = parseMemory(l.settings["maxmemory"])
	l.minReplicas, _ = parseInt(l.settings["min-replicas-to-write"])
	l.serveStale = l.settings["replica-serve-stale-data"] == "yes"
}

func (s *Server) isReplica() bool { return s.master != nil }

// The errors of a server that cannot serve a command.
const (
	errOOM        = Err("OOM command not allowed when used memory > 'maxmemory'.")
	errReadOnly   = Err("READONLY You can't write against a read only replica.")
	errNoReplicas = Err("NOREPLICAS Not enough good replicas to write.")
	errMasterDown = Err("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
	errLoading    = Err("LOADING Redis is loading the dataset in memory")
	errBusy       = Err("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
	errUnsaved    = Err("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may " +
		"modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails " +
		"(stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.")
)

// refuse returns the error by which a state of the server refuses a command, or an empty one.
func (s *Server) refuse(c *Conn, cmd *command) Err {
	if s.maxMemory != 0 {
		s.full = !s.isReplica() && s.used() > s.maxMemory && !s.evict()
		if s.full && (c.needs(cmd, grows) || c.open && !endsTransaction[cmd.name]) {
			return errOOM
		}
	}
	change := c.needs(cmd, writes)
	switch {
	case s.cannotSave() && (change || cmd.name == "ping"):
		return errUnsaved
	case change && s.lacksReplicas():
		return errNoReplicas
	case change && s.isReplica():
		return errReadOnly
	}
	return ""
}

// refuseState is refuse for the states that concern commands that read, too.
func (s *Server) refuseState(c *Conn, cmd *command) Err {
	switch {
	case s.isStale() && c.lacks(cmd, stale):
		return errMasterDown
	case s.loading && c.lacks(cmd, loads):
		return errLoading
	case s.busy && !cmd.is(allowBusy) && !strings.HasPrefix(cmd.name, "script|kill"):
		return errBusy
	}
	return ""
}

// isStale reports whether the server is a replica that has lost its master, and must not serve what it has.
func (s *Server) isStale() bool { return s.isReplica() && !s.master.up && !s.serveStale }

// needs reports whether a command, or for EXEC one of the transaction's, has a flag.
func (c *Conn) needs(cmd *command, f flags) bool {
	return cmd.is(f) || cmd.name == "exec" && slices.ContainsFunc(c.queue, func(q queued) bool { return q.cmd.is(f) })
}

// lacks reports whether a command, or for EXEC one of the transaction's, lacks a flag.
func (c *Conn) lacks(cmd *command, f flags) bool {
	return !cmd.is(f) || cmd.name == "exec" && slices.ContainsFunc(c.queue, func(q queued) bool { return !q.cmd.is(f) })
}

// cannotSave reports whether writes are refused because a snapshot failed.
func (s *Server) cannotSave() bool {
	return s.unsaved && s.settings["save"] != "" && s.settings["stop-writes-on-bgsave-error"] == "yes"
}

// lacksReplicas reports whether writes are refused because a master has too few replicas.
func (s *Server) lacksReplicas() bool { return !s.isReplica() && s.minReplicas > s.goodReplicas() }

// mayWrite returns the error for a command that a script calls, and that would be its first to change something.
func (s *Server) mayWrite(cmd *command) Err {
	switch {
	case !cmd.is(writes):
		return ""
	case s.isReplica():
		return errReadOnly
	case s.cannotSave():
		return errUnsaved
	case s.lacksReplicas():
		return errNoReplicas
	}
	return ""
}

// The memory of a server without data, and what a key and an element need besides their texts. They are near to what Redis needs.
const (
	emptyServer = 1_000_000
	perKey      = 80
	perElement  = 16
)

// used returns how many bytes of memory are in use.
func (s *Server) used() uint64 {
	n := uint64(emptyServer)
	for key, v := range s.db.keys {
		n += v.size() + uint64(len(key)) + perKey
	}
	return n
}

// size returns about how many bytes a value needs.
func (v *value) size() uint64 {
	n := uint64(len(v.text))
	switch {
	case v.hash != nil:
		for name, text := range v.hash.values {
			n += uint64(len(name)+len(text)) + perElement
		}
	case v.list != nil:
		for _, text := range v.list.all {
			n += uint64(len(text)) + perElement
		}
	case v.zset != nil:
		for _, e := range v.zset.order {
			n += uint64(len(e.member)) + perElement
		}
	}
	return n
}

// evict removes keys as the policy says, and reports whether enough memory is free then. Where Redis goes by the use of keys, any key
// is as good as another.
func (s *Server) evict() bool {
	scope, how, _ := strings.Cut(s.settings["maxmemory-policy"], "-")
	if how == "" {
		return false
	}
	var keys []string
	for _, key := range s.shuffle(s.Keys()) {
		if scope == "allkeys" || s.db.keys[key].expire != 0 {
			keys = append(keys, key)
		}
	}
	if how == "ttl" {
		slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(s.db.keys[a].expire, s.db.keys[b].expire) })
	}
	for _, key := range keys {
		s.remove(key)
		s.evicted++
		if s.used() <= s.maxMemory {
			return true
		}
	}
	return false
}

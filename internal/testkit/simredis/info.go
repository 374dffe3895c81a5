package simredis

import (
	"fmt"
	"strconv"
	"strings"
)

// version is that of the redis-server whose replies these are.
const version = "7.0.15"

// calls counts those of a command.
type calls struct{ all, rejected, failed int64 }

// serverCommands are about the whole server.
var serverCommands = map[string]talk{
	"CONFIG|SET": cmdConfigSet, "CONFIG|GET": cmdConfigGet, "CONFIG|RESETSTAT": cmdResetStat,
	"INFO": cmdInfo, "ROLE": cmdRole, "WAIT": cmdWait, "REPLICAOF": cmdReplicaOf, "SLAVEOF": cmdReplicaOf,
	"SAVE": cmdSave, "BGSAVE": cmdSave, "COMMAND": cmdCommand, "COMMAND|COUNT": cmdCommandCount,
}

func cmdResetStat(c *Conn, _ []string) any {
	s := c.server
	s.received, s.evicted = 0, 0
	clear(s.calls)
	return Status("OK")
}

// sections are those of INFO, in their order.
var sections = []struct {
	name string
	text func(s *Server) string
}{
	{"server", (*Server).infoServer},
	{"clients", (*Server).infoClients},
	{"memory", (*Server).infoMemory},
	{"persistence", (*Server).infoPersistence},
	{"stats", (*Server).infoStats},
	{"replication", (*Server).infoReplication},
	{"commandstats", (*Server).infoCommands},
	{"cluster", (*Server).infoCluster},
	{"keyspace", (*Server).infoKeyspace},
}

func cmdInfo(c *Conn, a []string) any {
	wanted := map[string]bool{}
	for _, name := range a[1:] {
		wanted[strings.ToLower(name)] = true
	}
	usual := len(wanted) == 0 || wanted["default"]
	all := wanted["all"] || wanted["everything"]
	var text []string
	for _, section := range sections {
		if all || wanted[section.name] || usual && section.name != "commandstats" {
			title := strings.ToUpper(section.name[:1]) + section.name[1:]
			text = append(text, "# "+title+"\r\n"+section.text(c.server))
		}
	}
	return strings.Join(text, "\r\n")
}

// lines returns names and values as INFO does.
func lines(pairs ...any) string {
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&text, "%v:%v\r\n", pairs[i], pairs[i+1])
	}
	return text.String()
}

func (s *Server) infoServer() string {
	return lines("redis_version", version, "redis_mode", s.mode(), "os", "simredis", "tcp_port", 6379, "uptime_in_seconds", 1)
}

func (s *Server) mode() string {
	if s.node != nil {
		return "cluster"
	}
	return "standalone"
}

func (s *Server) infoClients() string {
	return lines("connected_clients", len(s.conns), "maxclients", s.number("maxclients"), "blocked_clients", 0)
}

func (s *Server) infoMemory() string {
	return lines("used_memory", s.used(), "maxmemory", s.maxMemory, "maxmemory_policy", s.settings["maxmemory-policy"],
		"number_of_cached_scripts", len(s.scripts))
}

func (s *Server) infoPersistence() string {
	status := "ok"
	if s.unsaved {
		status = "err"
	}
	return lines("loading", truth(s.loading), "rdb_bgsave_in_progress", 0, "rdb_last_bgsave_status", status)
}

func (s *Server) infoStats() string {
	all := int64(0)
	for _, n := range s.calls {
		all += n.all
	}
	return lines("total_connections_received", s.received, "total_commands_processed", all, "evicted_keys", s.evicted,
		"pubsub_channels", len(s.plain), "pubsub_patterns", len(s.patterns), "pubsubshard_channels", len(s.sharded))
}

func (s *Server) infoReplication() string {
	if s.isReplica() {
		link := "down"
		if s.master.up {
			link = "up"
		}
		return lines("role", "slave", "master_host", s.master.host, "master_port", s.master.port, "master_link_status", link,
			"connected_slaves", s.goodReplicas())
	}
	var text strings.Builder
	text.WriteString(lines("role", "master", "connected_slaves", s.goodReplicas()))
	for i, r := range s.replicas {
		host, port, _ := strings.Cut(r.addr, ":")
		state := map[bool]string{true: "online", false: "wait_bgsave"}[r.up]
		fmt.Fprintf(&text, "slave%d:ip=%s,port=%s,state=%s,offset=%d,lag=0\r\n", i, host, port, state, r.acknowledged)
	}
	return text.String() + lines("master_replid", fmt.Sprintf("%040x", s.history), "master_repl_offset", s.offset)
}

func (s *Server) infoCommands() string {
	var text strings.Builder
	for _, c := range everyCommand {
		if n := s.calls[c.id]; n != (calls{}) {
			fmt.Fprintf(&text, "cmdstat_%s:calls=%d,usec=%d,usec_per_call=1.00,rejected_calls=%d,failed_calls=%d\r\n",
				c.name, n.all, n.all, n.rejected, n.failed)
		}
	}
	return text.String()
}

func (s *Server) infoCluster() string { return lines("cluster_enabled", truth(s.node != nil)) }

func (s *Server) infoKeyspace() string {
	keys, leases := s.Keys(), 0
	if len(keys) == 0 {
		return ""
	}
	for _, key := range keys {
		leases += int(truth(s.db.keys[key].expire != 0))
	}
	return fmt.Sprintf("db0:keys=%d,expires=%d,avg_ttl=0\r\n", len(keys), leases)
}

func cmdCommandCount(*Conn, []string) any { return int64(len(table)) }

// cmdCommand replies the table, by which clients find the keys of commands.
func cmdCommand(*Conn, []string) any {
	all := []any{}
	for _, c := range everyCommand {
		if !strings.Contains(c.name, "|") {
			all = append(all, c.describe())
		}
	}
	return all
}

func (c *command) describe() []any {
	names := []any{}
	for _, name := range c.flagNames {
		if name != "-" {
			names = append(names, Status(name))
		}
	}
	categories := []any{}
	for _, name := range c.categories {
		categories = append(categories, Status("@"+name))
	}
	subs := []any{}
	for _, sub := range everyCommand {
		if strings.HasPrefix(sub.name, c.name+"|") {
			subs = append(subs, sub.describe())
		}
	}
	return []any{
		c.name, int64(c.arity), names, int64(c.first), int64(c.last), int64(c.step), categories, []any{}, []any{}, subs,
	}
}

// cmdSave takes a snapshot. It is for the caller of the server to keep one: [DB.Clone].
func cmdSave(c *Conn, a []string) any {
	c.server.unsaved = c.server.failSave
	switch {
	case same(a[0], "BGSAVE"):
		return Status("Background saving started")
	case c.server.failSave:
		return Err("ERR")
	}
	return Status("OK")
}

func cmdRole(c *Conn, _ []string) any {
	if m := c.server.master; m != nil {
		state, offset := "connect", int64(-1)
		if m.up {
			state, offset = "connected", m.applied
		}
		return []any{"slave", m.host, m.port, state, offset}
	}
	replicas := []any{}
	for _, r := range c.server.replicas {
		host, port, _ := strings.Cut(r.addr, ":")
		if r.up {
			replicas = append(replicas, []any{host, port, strconv.FormatInt(r.acknowledged, 10)})
		}
	}
	return []any{"master", c.server.offset, replicas}
}

// cmdReplicaOf makes the server a master, or a replica, which reaches its master only if Resolve finds it.
func cmdReplicaOf(c *Conn, a []string) any {
	s := c.server
	if s.node != nil {
		return Err("ERR REPLICAOF not allowed in cluster mode.")
	}
	if same(a[1], "no") && same(a[2], "one") {
		s.leaveMaster()
		return Status("OK")
	}
	port, ok := parseInt(a[2])
	if !ok || port < 0 || port > 65535 {
		return Err("ERR Invalid master port")
	}
	if m := s.master; m != nil && m.host == a[1] && m.port == port {
		return Status("OK Already connected to specified master")
	}
	s.leaveMaster()
	s.master = &master{host: a[1], port: port}
	s.Reconnect()
	return Status("OK")
}

// Reconnect has a replica that has no connection to its master look for it again. The replica of a cluster does so by itself.
func (s *Server) Reconnect() {
	if s.Resolve == nil || s.node != nil || !s.isReplica() || s.master.up {
		return
	}
	m := *s.master
	if of := s.Resolve(m.host, m.port); of != nil && of != s {
		s.Follow(of, "127.0.0.1", 0, m.host, m.port).AtOnce = true
	}
}

// cmdWait replies at once how many replicas have what was written. Redis waits for as long as the caller says, if these are too few.
func cmdWait(c *Conn, a []string) any {
	_, ok := parseInt(a[1])
	timeout, ok2 := parseInt(a[2])
	switch {
	case c.server.isReplica():
		return Err("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured " +
			"to be writable (which is not the default) writes to replicas are just local and are not propagated.")
	case !ok:
		return errNotInt
	case !ok2:
		return Err("ERR timeout is not an integer or out of range")
	case timeout < 0:
		return Err("ERR timeout is negative")
	}
	return c.Acknowledged()
}

// FailSaves has every snapshot that SAVE and BGSAVE ask for fail from now on, or succeed.
func (s *Server) FailSaves(fail bool) { s.failSave = fail }

// SetLoading has the server say that it loads its data, or that it has done so.
func (s *Server) SetLoading(loading bool) { s.loading = loading }

// SetBusy has the server say that a script runs for too long, until it is killed or over.
func (s *Server) SetBusy(busy bool) { s.busy = busy }

package simserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// count counts a command for the statistics.
func (s *Server) count(args []string) {
	name := strings.ToLower(args[0])
	if len(args) > 1 && slices.Contains([]string{"client", "config", "script", "pubsub"}, name) {
		name += "|" + strings.ToLower(args[1])
	}
	s.calls[name]++
}

// hello replies to HELLO, which sets the protocol.
func (p *peer) hello(args []string) any {
	for i, arg := range args {
		if i == 1 {
			if arg != "2" && arg != "3" {
				return simredis.Err("NOPROTO unsupported protocol version")
			}
			p.out.protocol, _ = strconv.Atoi(arg)
		}
		if strings.EqualFold(arg, "SETNAME") && i+1 < len(args) {
			p.name = args[i+1]
		}
	}
	return pairs{
		"server", "redis", "version", version, "proto", int64(p.out.protocol), "id", p.id, "mode", "standalone", "role", "master", "modules", []any{},
	}
}

// client replies to CLIENT.
func (p *peer) client(args []string) any {
	sub := ""
	if len(args) > 1 {
		sub = strings.ToUpper(args[1])
	}
	switch sub {
	case "ID":
		return p.id
	case "SETNAME":
		p.name = args[2]
		return simredis.Status("OK")
	case "GETNAME":
		return p.name
	case "KILL":
		return p.kill(args[2:])
	}
	return simredis.Err("ERR unknown subcommand '" + strings.Join(args[1:min(2, len(args))], "") + "'. Try CLIENT HELP.")
}

// kill closes the other connections, or only those of one type.
func (p *peer) kill(filter []string) any {
	n := int64(0)
	for _, other := range p.server.peers {
		pubsub := other.subscribed()+int64(len(other.shards)) > 0
		switch {
		case other == p, len(filter) == 2 && strings.EqualFold(filter[0], "TYPE") && strings.EqualFold(filter[1], "pubsub") != pubsub:
		default:
			_ = other.conn.Close()
			n++
		}
	}
	return n
}

// version is that of the server that simredis imitates.
const version = "7.0.15"

// info replies to INFO, with all sections or the given ones.
func (s *Server) info(sections []string) any {
	all := []struct{ name, text string }{
		{"Server", "redis_version:" + version + "\r\nredis_mode:standalone\r\n"},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\n", len(s.peers))},
		{"Stats", fmt.Sprintf("total_connections_received:%d\r\n", s.opened)},
		{"Replication", "role:master\r\nconnected_slaves:0\r\n"},
		{"Commandstats", ""},
	}
	for _, name := range slices.Sorted(maps.Keys(s.calls)) {
		all[len(all)-1].text += fmt.Sprintf("cmdstat_%s:calls=%d,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0\r\n", name, s.calls[name])
	}
	var b strings.Builder
	for _, section := range all {
		if len(sections) == 0 || slices.ContainsFunc(sections, func(name string) bool { return strings.EqualFold(name, section.name) }) {
			fmt.Fprintf(&b, "# %s\r\n%s\r\n", section.name, section.text)
		}
	}
	return b.String()
}

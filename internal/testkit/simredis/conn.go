package simredis

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Conn is one connection to a server. It is not safe for concurrent use, not even beside others of its server.
type Conn struct {
	server           *Server
	id               int64
	addr             string
	name             string
	protocol         int64 // 2 or 3, of RESP
	began            int64 // Unix ms
	send             func(message []any)
	ended            func()
	closed           bool
	user             *user
	loggedIn         bool
	asking, readOnly bool     // in a cluster
	written          int64    // how many writes there were after its last one
	noEvict          bool     // its client has said so, which changes nothing
	last             *command // that it ran

	transaction
	subscribed
}

// Connect adds a connection, whose client has an address. The connection gets messages by send, in order, each while the command runs
// that publishes it: ["message", channel, payload], "smessage" likewise, or ["pmessage", pattern, channel, payload]. When the server
// ends the connection, it calls ended. If a command of the connection itself is the reason, that is before the command has returned:
// its reply is still to be sent. Both functions may be nil, and must not call the server.
//
// The error is the reply to a connection that is one too many.
func (s *Server) Connect(addr string, send func(message []any), ended func()) (*Conn, error) {
	s.received++
	if int64(len(s.conns)) >= s.number("maxclients") {
		return nil, Err("ERR max number of clients reached")
	}
	s.last++
	c := &Conn{server: s, id: s.last, addr: addr, protocol: 2, began: s.now(), send: send, ended: ended, user: s.users[defaultUser]}
	c.loggedIn = c.user.open()
	s.conns[c.id] = c
	return c, nil
}

// Close ends the connection, as when its client has gone.
func (c *Conn) Close() { c.leave() }

// Closed reports whether the connection has ended.
func (c *Conn) Closed() bool { return c.closed }

// ID returns the number of the connection, as CLIENT ID does.
func (c *Conn) ID() int64 { return c.id }

// Protocol returns the version of RESP that the client has asked for: 2 or 3. The replies are the same: where RESP 3 has a map, they are
// a list of names and values.
func (c *Conn) Protocol() int { return int(c.protocol) }

// leave forgets everything about the connection.
func (c *Conn) leave() {
	c.closed = true
	delete(c.server.conns, c.id)
	c.discard()
	c.dropSubscriptions()
}

// end is leave for a connection that the server ends.
func (c *Conn) end() {
	if c.closed {
		return
	}
	if c.leave(); c.ended != nil {
		c.ended()
	}
}

// sortedConns returns the connections by their ids.
func (s *Server) sortedConns() []*Conn {
	return slices.SortedFunc(maps.Values(s.conns), func(a, b *Conn) int { return cmp.Compare(a.id, b.id) })
}

// Several are the replies to a command that has one for each of its arguments: SUBSCRIBE and its relatives.
type Several []any

// Do runs a command, given its name and its arguments. The reply is nil, an int64, a string, a [Status], an [Err], a [Several], or a
// []any of these.
func (c *Conn) Do(args ...string) any {
	switch {
	case len(args) == 0:
		return Err("ERR unknown command")
	case c.closed:
		return Err("ERR the connection has ended")
	case isLong(args) && c.needsLogin():
		c.end()
		return Err("ERR Protocol error: unauthenticated multibulk length")
	}
	cmd, err := lookUp(args)
	c.last = cmd
	defer c.forgetAsking(cmd)
	if err == "" {
		err = c.refuse(cmd, args)
	}
	if err != "" {
		return c.reject(cmd, err)
	}
	if c.open && !aboutTransaction[cmd.name] {
		if !c.spoiled && !c.changed { // otherwise it will not run
			c.queue = append(c.queue, queued{cmd, args})
		}
		return Status("QUEUED")
	}
	return c.server.perform(c, cmd, args)
}

// needsLogin reports whether the connection has to log in first.
func (c *Conn) needsLogin() bool { return !c.loggedIn && !c.server.users[defaultUser].open() }

// isLong reports whether a command has more arguments than one before a login may have.
func isLong(args []string) bool { return len(args) > 10 }

// refuse returns the error by which Redis refuses a command before it runs, or an empty one. The order of its reasons is that of Redis.
func (c *Conn) refuse(cmd *command, args []string) Err {
	s := c.server
	switch {
	case !cmd.is(noAuth) && c.needsLogin():
		return "NOAUTH Authentication required."
	case c.open && cmd.is(noMulti):
		return "ERR Command not allowed inside a transaction"
	}
	if !c.user.mayAll {
		if err := s.mayRun(c, cmd, args); err != "" {
			return err
		}
	}
	if s.node != nil {
		if err := s.node.redirect(c, cmd, args); err != "" {
			return err
		}
	}
	if err := s.refuse(c, cmd); err != "" {
		return err
	}
	if c.listens() && !whileSubscribed[cmd.name] {
		return Err("ERR Can't execute '" + cmd.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return s.refuseState(c, cmd)
}

// whileSubscribed are the commands that a connection with subscriptions may send.
var whileSubscribed = map[string]bool{
	"ping": true, "subscribe": true, "ssubscribe": true, "psubscribe": true, "unsubscribe": true, "sunsubscribe": true,
	"punsubscribe": true, "quit": true, "reset": true,
}

// reject replies an error to a command that does not run.
func (c *Conn) reject(cmd *command, err Err) Err {
	if cmd != nil {
		c.server.calls[cmd.id].rejected++
		if cmd.name == "exec" && c.server.node != nil && isRedirection(err) {
			c.discard()
			return err
		} else if cmd.name == "exec" {
			c.discard()
			return "EXECABORT Transaction discarded because of: " + Err(strings.TrimPrefix(string(err), "ERR "))
		}
	}
	c.spoiled = c.open
	return err
}

// forgetAsking ends ASKING, which is for the next command or transaction.
func (c *Conn) forgetAsking(cmd *command) {
	if c.asking && !c.open && (cmd == nil || cmd.name != "asking") {
		c.asking = false
	}
}

// isRedirection reports whether an error is that of a node of a cluster that does not serve the keys.
func isRedirection(err Err) bool {
	code, _, _ := strings.Cut(string(err), " ")
	return slices.Contains([]string{"MOVED", "ASK", "CROSSSLOT", "TRYAGAIN", "CLUSTERDOWN"}, code)
}

// perform runs a command of a connection, or of a script that the connection runs.
func (s *Server) perform(c *Conn, cmd *command, args []string) any {
	var reply any
	switch {
	case cmd.run != nil:
		reply = cmd.run(s, args)
	case cmd.talk != nil:
		reply = cmd.talk(c, args)
	default:
		reply = errNotSimulated("the command " + strings.ToUpper(cmd.name))
	}
	n := &s.calls[cmd.id]
	n.all++
	if hasFailed(reply, cmd.is(at)) {
		n.failed++
	} else if cmd.is(writes) {
		s.wrote(c, cmd, args)
	} else if cmd.run != nil && publishes[cmd.name] && s.node == nil { // the nodes of a cluster tell each other
		s.propagate(args)
	}
	return reply
}

// hasFailed reports whether a reply is an error, or for a script whether it contains one.
func hasFailed(reply any, inside bool) bool {
	switch r := reply.(type) {
	case Err:
		return true
	case []any:
		return inside && slices.ContainsFunc(r, func(element any) bool { return hasFailed(element, true) })
	}
	return false
}

// publishes are the commands that go to replicas although they change no data.
var publishes = map[string]bool{"publish": true, "spublish": true}

// wrote is told of each command that may have changed data.
func (s *Server) wrote(c *Conn, cmd *command, args []string) {
	for _, watcher := range s.watchers {
		watcher.look()
	}
	if len(s.replicas) > 0 {
		if args = s.absolute(cmd, args); args != nil {
			s.propagate(args)
		}
		c.written = s.offset
	}
}

// transaction is the state of a connection between MULTI and EXEC, and what it watches.
type transaction struct {
	open    bool
	spoiled bool // a command was refused
	queue   []queued
	watched map[string]*value // what each key had; nil for a key that was not there
	changed bool              // one of these has changed
}

type queued struct {
	cmd  *command
	args []string
}

// aboutTransaction are the commands that no transaction queues.
var aboutTransaction = map[string]bool{"exec": true, "discard": true, "multi": true, "watch": true, "quit": true, "reset": true}

// endsTransaction are those of them that run without memory.
var endsTransaction = map[string]bool{"exec": true, "discard": true, "quit": true, "reset": true}

func (c *Conn) discard() {
	c.unwatch()
	c.transaction = transaction{}
}

func (c *Conn) unwatch() {
	c.watched, c.changed = nil, false
	c.server.watchers = slices.DeleteFunc(c.server.watchers, func(o *Conn) bool { return o == c })
}

// look notices whether a watched key has changed.
func (c *Conn) look() {
	for key, before := range c.watched {
		c.changed = c.changed || !before.equal(c.server.get(key))
	}
}

func cmdMulti(c *Conn, _ []string) any {
	if c.open {
		return Err("ERR MULTI calls can not be nested")
	}
	c.open = true
	return Status("OK")
}

func cmdDiscard(c *Conn, _ []string) any {
	if !c.open {
		return Err("ERR DISCARD without MULTI")
	}
	c.discard()
	return Status("OK")
}

func cmdWatch(c *Conn, a []string) any {
	if c.open {
		return Err("ERR WATCH inside MULTI is not allowed")
	}
	if c.watched == nil {
		c.watched = map[string]*value{}
		c.server.watchers = append(c.server.watchers, c)
	}
	for _, key := range a[1:] {
		if _, ok := c.watched[key]; !ok {
			c.watched[key] = nil
			if v := c.server.get(key); v != nil {
				c.watched[key] = v.clone()
			}
		}
	}
	return Status("OK")
}

func cmdUnwatch(c *Conn, _ []string) any {
	c.unwatch()
	return Status("OK")
}

func cmdExec(c *Conn, _ []string) any {
	if !c.open {
		return Err("ERR EXEC without MULTI")
	}
	c.look()
	defer c.discard()
	switch {
	case c.spoiled:
		return Err("EXECABORT Transaction discarded because of previous errors.")
	case c.changed:
		return nil
	}
	all := []any{}
	c.unwatch()
	owed := int64(0) // Redis counts the denial of a command as a failure of what it runs next
	for _, q := range c.queue {
		if err := c.server.mayStillRun(c, q); err != "" {
			all, owed = append(all, err), 1
			continue
		}
		before := c.server.calls[q.cmd.id].failed
		reply := c.server.perform(c, q.cmd, q.args)
		if n := &c.server.calls[q.cmd.id]; n.failed == before {
			n.failed += owed
		}
		owed = 0
		if several, ok := reply.(Several); ok {
			all = append(all, several...) // as Redis does, though the number of replies is then wrong
			continue
		}
		all = append(all, reply)
	}
	c.server.calls[table["EXEC"].id].failed += owed
	return all
}

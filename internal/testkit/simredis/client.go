package simredis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// connCommands are about the connection.
var connCommands = map[string]talk{
	"PING": cmdPing, "ECHO": func(_ *Conn, a []string) any { return a[1] }, "SELECT": cmdSelect, "QUIT": cmdQuit, "RESET": cmdReset,
	"MULTI": cmdMulti, "EXEC": cmdExec, "DISCARD": cmdDiscard, "WATCH": cmdWatch, "UNWATCH": cmdUnwatch,
	"SUBSCRIBE": cmdSubscribe, "PSUBSCRIBE": cmdSubscribe, "SSUBSCRIBE": cmdSubscribe,
	"UNSUBSCRIBE": cmdUnsubscribe, "PUNSUBSCRIBE": cmdUnsubscribe, "SUNSUBSCRIBE": cmdUnsubscribe,
	"CLIENT|ID":       func(c *Conn, _ []string) any { return c.id },
	"CLIENT|INFO":     func(c *Conn, _ []string) any { return c.describe() + "\n" },
	"CLIENT|GETNAME":  cmdGetName,
	"CLIENT|SETNAME":  cmdSetName,
	"CLIENT|LIST":     cmdClientList,
	"CLIENT|KILL":     cmdClientKill,
	"CLIENT|NO-EVICT": cmdNoEvict,
	"CLIENT|TRACKING": func(_ *Conn, a []string) any { return onOrOff(a) }, // nobody is told of changed keys
}

// onOrOff is a command that only checks its argument.
func onOrOff(a []string) any {
	if !same(a[2], "on") && !same(a[2], "off") {
		return errSyntax
	}
	return Status("OK")
}

func cmdNoEvict(c *Conn, a []string) any {
	reply := onOrOff(a)
	if reply == Status("OK") {
		c.noEvict = same(a[2], "on")
	}
	return reply
}

func cmdSelect(c *Conn, a []string) any {
	switch n, ok := parseInt(a[1]); {
	case !ok:
		return errNotInt
	case n < 0 || n >= c.server.number("databases"):
		return Err("ERR DB index is out of range")
	case n > 0 && c.server.node != nil:
		return Err("ERR SELECT is not allowed in cluster mode")
	case n > 0:
		return errNotSimulated("databases but the first")
	}
	return Status("OK")
}

func cmdQuit(c *Conn, _ []string) any {
	c.end()
	return Status("OK")
}

func cmdReset(c *Conn, _ []string) any {
	c.discard()
	c.dropSubscriptions()
	c.asking, c.readOnly = false, false
	c.name, c.protocol, c.user = "", 2, c.server.users[defaultUser]
	c.loggedIn = c.user.open()
	return Status("RESET")
}

const errName = Err("ERR Client names cannot contain spaces, newlines or special characters.")

// isName reports whether a connection may have a name.
func isName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' })
}

func cmdGetName(c *Conn, _ []string) any {
	if c.name == "" {
		return nil
	}
	return c.name
}

func cmdSetName(c *Conn, a []string) any {
	if !isName(a[2]) {
		return errName
	}
	c.name = a[2]
	return Status("OK")
}

// describe returns the connection as CLIENT LIST does. What has no meaning in a simulation is zero.
func (c *Conn) describe() string {
	mode, queued, age := "", -1, (c.server.now()-c.began)/1000
	for _, flag := range []struct {
		name string
		is   bool
	}{{"P", c.subscriptions() > 0}, {"x", c.open}, {"d", c.changed}, {"e", c.noEvict}} {
		if flag.is {
			mode += flag.name
		}
	}
	if mode == "" {
		mode = "N"
	}
	if c.open {
		queued = len(c.queue)
	}
	return fmt.Sprintf("id=%d addr=%s laddr=127.0.0.1:6379 fd=8 name=%s age=%d idle=0 flags=%s db=0 sub=%d psub=%d ssub=%d multi=%d qbuf=0 "+
		"qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=%s user=%s redir=-1 resp=%d",
		c.id, c.addr, c.name, age, mode, len(c.channels), len(c.patterns), len(c.shards), queued, c.command(), c.user.name, c.protocol)
}

// command returns the name of the command that the connection ran last.
func (c *Conn) command() string {
	if c.last == nil {
		return "NULL"
	}
	return c.last.name
}

// kind returns its type, as CLIENT KILL means it.
func (c *Conn) kind() string {
	if c.subscriptions() > 0 {
		return "pubsub"
	}
	return "normal"
}

func cmdClientList(c *Conn, a []string) any {
	kind, ids := "", []int64(nil)
	switch {
	case len(a) == 4 && same(a[2], "TYPE"):
		if kind = strings.ToLower(a[3]); !isClientType(kind) {
			return errClientType(a[3])
		}
	case len(a) > 3 && same(a[2], "ID"):
		for _, text := range a[3:] {
			id, ok := parseInt(text)
			if !ok {
				return Err("ERR Invalid client ID")
			}
			ids = append(ids, id)
		}
	case len(a) > 2:
		return errSyntax
	}
	var all strings.Builder
	for _, o := range c.server.sortedConns() {
		if (kind == "" || o.kind() == kind) && (ids == nil || slices.Contains(ids, o.id)) {
			all.WriteString(o.describe() + "\n")
		}
	}
	return all.String()
}

func isClientType(text string) bool {
	return slices.Contains([]string{"normal", "slave", "replica", "pubsub", "master"}, strings.ToLower(text))
}

func errClientType(text string) Err { return Err(clean("ERR Unknown client type " + inQuotes(text))) }

// doomed is which connections CLIENT KILL ends.
type doomed struct {
	id               int64
	addr, kind, user string
	others           bool // but not the one that says so
}

func cmdClientKill(c *Conn, a []string) any {
	if len(a) == 3 {
		for _, o := range c.server.sortedConns() {
			if o.addr == a[2] {
				o.end()
				return Status("OK")
			}
		}
		return Err("ERR No such client")
	}
	which, err := c.doomed(a[2:])
	if err != "" {
		return err
	}
	n := int64(0)
	for _, o := range c.server.sortedConns() {
		switch {
		case which.id != 0 && o.id != which.id, which.addr != "" && o.addr != which.addr, which.kind != "" && o.kind() != which.kind,
			which.user != "" && o.user.name != which.user, which.others && o == c:
			continue
		}
		o.end()
		n++
	}
	return n
}

func (c *Conn) doomed(a []string) (which doomed, err Err) {
	which.others = true
	if len(a)%2 != 0 {
		return which, errSyntax
	}
	for i := 0; i < len(a); i += 2 {
		switch text := a[i+1]; {
		case same(a[i], "ID"):
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil || id < 1 {
				return which, "ERR client-id should be greater than 0"
			}
			which.id = id
		case same(a[i], "TYPE"):
			if which.kind = strings.ToLower(text); !isClientType(text) {
				return which, errClientType(text)
			}
		case same(a[i], "ADDR"):
			which.addr = text
		case same(a[i], "USER"):
			if which.user = text; c.server.users[text] == nil {
				return which, Err(clean("ERR No such user " + inQuotes(text)))
			}
		case same(a[i], "SKIPME") && (same(text, "yes") || same(text, "no")):
			which.others = same(text, "yes")
		default:
			return which, errSyntax
		}
	}
	return which, ""
}

package simredis

import (
	"slices"
	"strconv"
	"strings"
)

// userCommands are about users and logins.
var userCommands = map[string]talk{
	"AUTH":        cmdAuth,
	"HELLO":       cmdHello,
	"ACL|SETUSER": cmdSetUser,
	"ACL|DELUSER": cmdDelUser,
	"ACL|USERS":   func(c *Conn, _ []string) any { return texts(c.server.userNames()) },
	"ACL|WHOAMI":  func(c *Conn, _ []string) any { return c.user.name },
	"ACL|LOG":     cmdACLLog,
	"ACL|DRYRUN":  cmdDryRun,
	"ACL|CAT":     cmdCategories,
}

// denial is an entry of ACL LOG.
type denial struct {
	count                         int64
	why                           refusal
	context, object, user, client string
	at                            int64 // Unix ms
}

// deny logs what a connection was refused.
func (s *Server) deny(c *Conn, why refusal, object string) { s.denyAs(c, why, object, c.user.name) }

func (s *Server) denyAs(c *Conn, why refusal, object, user string) {
	d := &denial{count: 1, why: why, context: "toplevel", object: object, user: user, client: c.describe(), at: s.now()}
	switch {
	case s.frozen != 0:
		d.context = "lua"
	case c.open:
		d.context = "multi"
	}
	const soon, most = 60_000, 128 // as in Redis
	i := slices.IndexFunc(s.log, func(o *denial) bool {
		return o.why == why && o.context == d.context && o.object == object && o.user == user && d.at-o.at <= soon
	})
	if i >= 0 {
		d.count += s.log[i].count
		s.log = slices.Delete(s.log, i, i+1)
	}
	s.log = slices.Insert(s.log, 0, d)
	s.log = s.log[:min(len(s.log), most)]
}

func cmdACLLog(c *Conn, a []string) any {
	s, most := c.server, int64(10)
	if len(a) > 3 {
		return errSyntax
	}
	if len(a) == 3 {
		if same(a[2], "RESET") {
			s.log = nil
			return Status("OK")
		}
		n, ok := parseInt(a[2])
		if !ok {
			return errNotInt
		}
		most = max(n, 0)
	}
	all := []any{}
	for _, d := range s.log[:min(int64(len(s.log)), most)] {
		why := map[refusal]string{refusedCommand: "command", refusedKey: "key", refusedChannel: "channel", refusedLogin: "auth"}[d.why]
		age := strconv.FormatFloat(float64(s.now()-d.at)/1000, 'g', 17, 64)
		all = append(all, []any{
			"count", d.count, "reason", why, "context", d.context, "object", d.object, "username", d.user, "age-seconds", age,
			"client-info", d.client,
		})
	}
	return all
}

func cmdSetUser(c *Conn, a []string) any {
	s, name := c.server, a[2]
	if strings.ContainsAny(name, " \x00") {
		return Err("ERR Usernames can't contain spaces or null characters")
	}
	u := newUser(name)
	if old := s.users[name]; old != nil {
		u = old.clone()
	}
	for _, rule := range a[3:] {
		if len(rule) > 0 && strings.ContainsRune("%(", rune(rule[0])) || rule == "clearselectors" {
			return errNotSimulated("the rule " + rule)
		}
		if wrong := u.apply(rule); wrong != "" {
			return Err(clean("ERR Error in ACL SETUSER modifier " + inQuotes(rule) + ": " + wrong))
		}
	}
	s.setUser(u)
	return Status("OK")
}

// setUser gives a user its new rights. Connections with subscriptions that it lacks the right to now end, as in Redis.
func (s *Server) setUser(u *user) {
	old := s.users[u.name]
	if old == nil {
		s.users[u.name] = u
		return
	}
	*old = *u
	if old.allChannels {
		return
	}
	for _, c := range s.sortedConns() {
		if c.user != old {
			continue
		}
		for _, listens := range []struct {
			by   string
			list []string
		}{{"psubscribe", c.patterns}, {"subscribe", c.channels}, {"ssubscribe", c.shards}} {
			may := &user{may: old.may, allKeys: true, channels: old.channels}
			cmd := table[strings.ToUpper(listens.by)]
			cmd = &command{id: cmd.id, name: cmd.name, flags: cmd.flags | noAuth}
			if why, _ := may.judge(cmd, append([]string{listens.by}, listens.list...)); why == refusedChannel {
				c.end()
			}
		}
	}
}

func cmdDelUser(c *Conn, a []string) any {
	s, n := c.server, int64(0)
	for _, name := range a[2:] {
		if name == defaultUser {
			return Err("ERR The 'default' user cannot be removed")
		}
		u := s.users[name]
		if u == nil {
			continue
		}
		delete(s.users, name)
		n++
		for _, o := range s.sortedConns() {
			if o.user == u {
				o.end()
			}
		}
	}
	return n
}

func cmdDryRun(c *Conn, a []string) any {
	u := c.server.users[a[2]]
	if u == nil {
		return Err("ERR User '" + a[2] + "' not found")
	}
	args := a[3:]
	cmd, err := lookUp(args)
	switch {
	case cmd == nil:
		return Err("ERR Command '" + args[0] + "' not found")
	case err != "":
		return err
	}
	switch why, what := u.judge(cmd, args); why {
	case refusedCommand:
		return "This user has no permissions to run the '" + cmd.name + "' command"
	case refusedKey:
		return "This user has no permissions to access the '" + what + "' key"
	case refusedChannel:
		return "This user has no permissions to access the '" + what + "' channel"
	case permitted, refusedLogin:
	}
	return Status("OK")
}

func cmdCategories(_ *Conn, a []string) any {
	if len(a) != 3 {
		return errNotSimulated("this form of ACL CAT")
	}
	category, all := strings.ToLower(a[2]), []any{}
	for _, c := range everyCommand {
		if slices.Contains(c.categories, category) {
			all = append(all, c.name)
		}
	}
	if len(all) == 0 {
		return Err(clean("ERR Unknown category " + inQuotes(a[2])))
	}
	return all
}

// logIn makes, by a command, the connection that of a user.
func (c *Conn) logIn(by, name, password string) Err {
	u := c.server.users[name]
	if u == nil || !u.accepts(password) {
		c.server.denyAs(c, refusedLogin, by, name)
		return "WRONGPASS invalid username-password pair or user is disabled."
	}
	c.user, c.loggedIn = u, true
	return ""
}

func cmdAuth(c *Conn, a []string) any {
	name, password := defaultUser, a[1]
	switch {
	case len(a) > 3:
		return errSyntax
	case len(a) == 3:
		name, password = a[1], a[2]
	case c.server.users[defaultUser].noPass:
		return Err("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	if err := c.logIn(a[0], name, password); err != "" {
		return err
	}
	return Status("OK")
}

func cmdHello(c *Conn, a []string) any {
	protocol := c.protocol
	if len(a) > 1 {
		n, ok := parseInt(a[1])
		switch {
		case !ok:
			return Err("ERR Protocol version is not an integer or out of range")
		case n != 2 && n != 3:
			return Err("NOPROTO unsupported protocol version")
		}
		protocol = n
	}
	name := c.name
	for i := 2; i < len(a); {
		switch left := len(a) - 1 - i; {
		case same(a[i], "AUTH") && left >= 2:
			if err := c.logIn(a[0], a[i+1], a[i+2]); err != "" {
				return err
			}
			i += 3
		case same(a[i], "SETNAME") && left >= 1:
			if name = a[i+1]; !isName(name) {
				return errName
			}
			i += 2
		default:
			return Err("ERR Syntax error in HELLO option '" + a[i] + "'")
		}
	}
	if !c.loggedIn {
		return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> " +
			"option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	c.name, c.protocol = name, protocol
	role := "master"
	if c.server.isReplica() {
		role = "replica"
	}
	return []any{
		"server", "redis", "version", version, "proto", protocol, "id", c.id, "mode", c.server.mode(), "role", role, "modules", []any{},
	}
}

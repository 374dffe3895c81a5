package simredis

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

const defaultUser = "default"

// user is a user with its rights.
type user struct {
	name        string
	on, noPass  bool
	passwords   []string // SHA-256, in hex
	may         []bool   // by the ids of commands
	allCommands bool
	keys        []string // patterns
	allKeys     bool
	channels    []string // patterns
	allChannels bool
	mayAll      bool // all of the three
}

func newUser(name string) *user { return &user{name: name, may: make([]bool, len(everyCommand))} }

func newDefaultUser() *user {
	u := newUser(defaultUser)
	for _, rule := range []string{"on", "nopass", "+@all", "~*", "&*"} {
		u.apply(rule)
	}
	return u
}

func (u *user) clone() *user {
	c := *u
	c.passwords, c.may, c.keys, c.channels = slices.Clone(u.passwords), slices.Clone(u.may), slices.Clone(u.keys), slices.Clone(u.channels)
	return &c
}

// open reports whether a new connection is this user without a login.
func (u *user) open() bool { return u.on && u.noPass }

// accepts reports whether a password is right.
func (u *user) accepts(password string) bool {
	return u.on && (u.noPass || slices.Contains(u.passwords, hashed(password)))
}

func hashed(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// The errors about a rule of ACL SETUSER.
const (
	badSyntax   = "Syntax error"
	badCommand  = "Unknown command or category name in ACL"
	badPassword = "The password you are trying to remove from the user does not exist"
	badHash     = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
	badKey      = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. " +
		"Try 'resetkeys' to start with an empty list of patterns"
	badChannel = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. " +
		"Try 'resetchannels' to start with an empty list of channels"
	badFirstArg = "Allowing first-arg of a subcommand is not supported"
)

// apply changes the user by a rule, and returns what is wrong with the rule.
func (u *user) apply(rule string) (wrong string) {
	defer func() { u.mayAll = u.allCommands && u.allKeys && u.allChannels }()
	switch strings.ToLower(rule) {
	case "on":
		u.on = true
	case "off":
		u.on = false
	case "nopass":
		u.noPass, u.passwords = true, nil
	case "resetpass":
		u.noPass, u.passwords = false, nil
	case "allkeys", "~*":
		u.allKeys, u.keys = true, nil
	case "resetkeys":
		u.allKeys, u.keys = false, nil
	case "allchannels", "&*":
		u.allChannels, u.channels = true, nil
	case "resetchannels":
		u.allChannels, u.channels = false, nil
	case "allcommands", "+@all":
		u.set(true, everyCommand...)
		u.allCommands = true
	case "nocommands", "-@all":
		u.set(false, everyCommand...)
	case "reset":
		*u = *newUser(u.name)
	case "sanitize-payload", "skip-sanitize-payload", "":
	default:
		return u.applyTo(rule[0], rule[1:])
	}
	return ""
}

// applyTo changes the user by a rule about something, such as a password or a command.
func (u *user) applyTo(sign byte, what string) (wrong string) {
	switch sign {
	case '>', '#':
		if sign == '>' {
			what = hashed(what)
		} else if !isHash(what) {
			return badHash
		}
		if !slices.Contains(u.passwords, what) {
			u.passwords = append(u.passwords, what)
		}
		u.noPass = false
	case '<', '!':
		if sign == '<' {
			what = hashed(what)
		} else if !isHash(what) {
			return badHash
		}
		i := slices.Index(u.passwords, what)
		if i < 0 {
			return badPassword
		}
		u.passwords = slices.Delete(u.passwords, i, i+1)
	case '~':
		if u.allKeys {
			return badKey
		} else if !slices.Contains(u.keys, what) {
			u.keys = append(u.keys, what)
		}
	case '&':
		if u.allChannels {
			return badChannel
		} else if !slices.Contains(u.channels, what) {
			u.channels = append(u.channels, what)
		}
	case '+', '-':
		return u.applyCommand(sign == '+', what)
	default:
		return badSyntax
	}
	return ""
}

func isHash(text string) bool {
	return len(text) == 2*sha256.Size && strings.Trim(text, "0123456789abcdef") == ""
}

// applyCommand gives or takes a right to a category, a command or a subcommand.
func (u *user) applyCommand(give bool, what string) (wrong string) {
	if category, ok := strings.CutPrefix(what, "@"); ok {
		category = strings.ToLower(category)
		found := slices.DeleteFunc(slices.Clone(everyCommand), func(c *command) bool { return !slices.Contains(c.categories, category) })
		if len(found) == 0 {
			return badCommand
		}
		for _, c := range found {
			u.set(give, c)
		}
		return ""
	}
	name, sub, isSub := strings.Cut(strings.ToUpper(what), "|")
	c, ok := table[name]
	switch {
	case !ok:
		return badCommand
	case !isSub:
		u.set(give, c)
		return ""
	case strings.Contains(sub, "|"):
		return badFirstArg
	case c.subs[sub] == nil:
		return badCommand
	}
	u.set(give, c.subs[sub])
	return ""
}

// set gives or takes the rights to commands, with all of their subcommands.
func (u *user) set(give bool, commands ...*command) {
	for _, c := range commands {
		u.may[c.id] = give
		for _, sub := range c.subs {
			u.may[sub.id] = give
		}
	}
	u.allCommands = u.allCommands && give
}

// refusal is why a user may not do something.
type refusal int

const (
	permitted refusal = iota
	refusedCommand
	refusedKey
	refusedChannel
	refusedLogin
)

// judge returns whether the user may run a command, and the argument that is refused.
func (u *user) judge(cmd *command, args []string) (refusal, string) {
	if !u.may[cmd.id] && !cmd.is(noAuth) {
		return refusedCommand, cmd.name
	}
	if !u.allKeys && !shardedCommands[cmd.name] {
		for _, key := range cmd.keysOf(args) {
			if !slices.ContainsFunc(u.keys, func(pattern string) bool { return matches(pattern, key) }) {
				return refusedKey, key
			}
		}
	}
	if u.allChannels {
		return permitted, ""
	}
	channels := channelsOf(cmd.name, args)
	for _, channel := range channels {
		if !slices.ContainsFunc(u.channels, func(pattern string) bool {
			return pattern == channel || cmd.name != "psubscribe" && matches(pattern, channel)
		}) {
			return refusedChannel, channel
		}
	}
	return permitted, ""
}

// shardedCommands have channels where others have keys.
var shardedCommands = map[string]bool{"ssubscribe": true, "sunsubscribe": true, "spublish": true}

func channelsOf(name string, args []string) []string {
	switch name {
	case "publish", "spublish":
		return args[1:2]
	case "subscribe", "ssubscribe", "psubscribe":
		return args[1:]
	}
	return nil
}

// mayRun returns the error for a command that the user of a connection may not run, and logs it.
func (s *Server) mayRun(c *Conn, cmd *command, args []string) Err {
	why, what := c.user.judge(cmd, args)
	switch why {
	case refusedCommand:
		s.deny(c, why, what)
		return Err("NOPERM this user has no permissions to run the '" + cmd.name + "' command")
	case refusedKey:
		s.deny(c, why, what)
		return "NOPERM this user has no permissions to access one of the keys used as arguments"
	case refusedChannel:
		s.deny(c, why, what)
		return "NOPERM this user has no permissions to access one of the channels used as arguments"
	case permitted, refusedLogin:
	}
	return ""
}

// mayStillRun is mayRun when a transaction runs what it queued.
func (s *Server) mayStillRun(c *Conn, q queued) Err {
	const changed = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
		"This command is no longer allowed for the following reason: "
	if c.user.mayAll {
		return ""
	}
	why, what := c.user.judge(q.cmd, q.args)
	if why == permitted {
		return ""
	}
	s.deny(c, why, what)
	return changed + map[refusal]Err{
		refusedCommand: "no permission to execute the command or subcommand",
		refusedKey:     "no permission to touch the specified keys",
		refusedChannel: "no permission to access one of the channels used as arguments",
	}[why]
}

// mayCall is mayRun for a command that a script calls.
func (s *Server) mayCall(c *Conn, cmd *command, args []string) Err {
	if c.user.mayAll {
		return ""
	}
	why, what := c.user.judge(cmd, args)
	if why == permitted {
		return ""
	}
	s.deny(c, why, what)
	return map[refusal]Err{
		refusedCommand: "ERR The user executing the script can't run this command or subcommand",
		refusedKey:     "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
		refusedChannel: "ERR The user executing the script can't publish to the channel mentioned in the command",
	}[why]
}

// userNames returns the names of all users, in alphabetical order.
func (s *Server) userNames() []string { return slices.Sorted(maps.Keys(s.users)) }

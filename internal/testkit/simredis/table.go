package simredis

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// commandsText has a line for each command and each subcommand of redis-server 7.0, as COMMAND replies them: the name, the arity, the
// flags, the places of the first and the last key with the step between keys, and the categories of rights.
//
//go:embed commands.txt
var commandsText string

// command is a command of Redis, or a subcommand.
type command struct {
	id         int    // its place in commands.txt
	name       string // in small letters; a subcommand's is "container|name"
	arity      int    // with the name, as in Redis: a negative number means at least so many
	flags      flags
	flagNames  []string
	first      int // place of the first key, 0 if there is none
	last, step int
	categories []string
	run        run
	talk       talk
	subs       map[string]*command // of a container
}

// run runs a command that is about the data. talk runs one that is about the connection, or about the whole server. Both get the name, too.
type (
	run  func(s *Server, args []string) any
	talk func(c *Conn, args []string) any
)

// flags are the flags of a command that say where Redis refuses it.
type flags uint16

const (
	writes    flags = 1 << iota // it changes data
	grows                       // it needs memory
	noScript                    // no script may call it
	stale                       // it runs on a replica that has lost its master
	loads                       // it runs while the server loads its data
	noAuth                      // it needs no login
	noMulti                     // no transaction may contain it
	allowBusy                   // it runs while a script runs for too long
	at                          // it has keys at any places
)

var flagsByName = map[string]flags{
	"write": writes, "denyoom": grows, "noscript": noScript, "stale": stale, "loading": loads, "no_auth": noAuth, "no_multi": noMulti,
	"allow_busy": allowBusy, "movablekeys": at,
}

func (c *command) is(f flags) bool { return c.flags&f != 0 }

// known reports whether simredis has the command. Of those that it does not have, users may nevertheless have the right.
func (c *command) known() bool { return c.run != nil || c.talk != nil }

// table has all commands of Redis by their names in capital letters, and everyCommand has them and the subcommands in their order.
var table, everyCommand = readCommands(commandsText)

func readCommands(text string) (byName map[string]*command, all []*command) {
	byName = map[string]*command{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		numbers := make([]int, 4)
		for i, at := range []int{1, 3, 4, 5} {
			numbers[i], _ = strconv.Atoi(words[at])
		}
		c := &command{
			id: len(all), name: words[0], arity: numbers[0], first: numbers[1], last: numbers[2], step: numbers[3],
			flagNames: strings.Split(words[2], ","), categories: strings.Split(words[6], ","),
		}
		for _, name := range c.flagNames {
			c.flags |= flagsByName[name]
		}
		all = append(all, c)
		container, sub, isSub := strings.Cut(strings.ToUpper(c.name), "|")
		if !isSub {
			byName[container] = c
			continue
		}
		parent := byName[container]
		if parent.subs == nil {
			parent.subs = map[string]*command{}
		}
		parent.subs[sub] = c
	}
	return byName, all
}

// In a function of its own, because the functions of commands look into the table.
func init() { //nolint:gochecknoinits // see above
	for _, some := range []map[string]run{keyCommands, stringCommands, hashCommands, listCommands, zsetCommands, messageCommands, dumpCommands} {
		for name, run := range some {
			named(name).run = run
		}
	}
	for _, some := range []map[string]talk{scriptCommands, connCommands, userCommands, serverCommands, clusterCommands} {
		for name, talk := range some {
			named(name).talk = talk
		}
	}
}

// named returns a command by its name in capital letters.
func named(name string) *command {
	container, sub, isSub := strings.Cut(name, "|")
	if isSub {
		return table[container].subs[sub]
	}
	return table[container]
}

// lookUp returns the command, or the subcommand, that a client means.
func lookUp(args []string) (*command, Err) {
	c, ok := table[args[0]]
	if !ok {
		c, ok = table[strings.ToUpper(args[0])]
	}
	switch {
	case !ok:
		return nil, errUnknown(args)
	case c.subs != nil && len(args) > 1:
		if c, ok = c.subs[strings.ToUpper(args[1])]; !ok {
			return nil, errSubcommand(args)
		}
	}
	if c.arity > 0 && len(args) != c.arity || len(args) < -c.arity {
		return c, errArity(c.name)
	}
	return c, ""
}

// errUnknown is the reply to a command that does not exist.
func errUnknown(args []string) Err {
	const most = 128 // bytes of the name, and of the arguments
	var rest strings.Builder
	for _, arg := range args[1:] {
		if rest.Len() >= most {
			break
		}
		arg = cText(arg)
		rest.WriteString("'" + arg[:min(len(arg), most-rest.Len())] + "' ")
	}
	name := cText(args[0])
	return Err(clean("ERR unknown command '" + name[:min(len(name), most)] + "', with args beginning with: " + rest.String()))
}

// errSubcommand is the reply to a subcommand that does not exist.
func errSubcommand(args []string) Err {
	sub := cText(args[1])
	return Err(clean("ERR unknown subcommand '" + sub[:min(len(sub), 128)] + "'. Try " + strings.ToUpper(args[0]) + " HELP."))
}

// errNotSimulated is the reply to what Redis knows and simredis does not: never a wrong one.
func errNotSimulated(what string) Err { return Err("ERR simredis does not know " + what) }

// keysOf returns the keys among the arguments of a command.
func (c *command) keysOf(args []string) []string {
	if c.is(at) {
		return movableKeys(c.name, args)
	}
	if c.first == 0 {
		return nil
	}
	last := c.last
	if last < 0 {
		last += len(args)
	}
	if last >= len(args) {
		return nil
	}
	if c.step == 1 {
		return args[c.first : last+1]
	}
	var keys []string
	for i := c.first; i <= last; i += c.step {
		keys = append(keys, args[i])
	}
	return keys
}

// movableKeys are the keys of a command that tells how many there are.
func movableKeys(name string, args []string) []string {
	if name == "migrate" {
		if i := slices.IndexFunc(args, func(a string) bool { return same(a, "KEYS") }); i > 5 && args[3] == "" {
			return args[i+1:]
		}
		return args[3:4]
	}
	if len(args) < 3 {
		return nil
	}
	if n, ok := parseInt(args[2]); ok && n > 0 && n <= int64(len(args)-3) {
		return args[3 : 3+n]
	}
	return nil
}

// Commands returns the names of the commands that simredis has, in alphabetical order.
func Commands() []string {
	all := slices.Sorted(maps.Keys(table))
	return slices.DeleteFunc(all, func(name string) bool {
		c := table[name]
		return !c.known() && !slices.ContainsFunc(slices.Collect(maps.Values(c.subs)), (*command).known)
	})
}

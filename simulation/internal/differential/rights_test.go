package differential

import (
	"slices"
	"strconv"
	"strings"
)

// talkForms are the forms of commands about connections, users and the server, in the letters of forms. U is a user, W a password, C a
// command, Y a number of a connection.
var talkForms = strings.Split(`AUTH U W
AUTH U W
AUTH U W
AUTH W
AUTH U W t
HELLO 2 AUTH U W
HELLO 2
HELLO 2 SETNAME f
HELLO 4
HELLO x
HELLO 2 AUTH U
ACL WHOAMI
ACL LOG
ACL LOG
ACL LOG n
ACL LOG RESET
ACL USERS
ACL DELUSER U
ACL DELUSER default
ACL DRYRUN U get k
ACL DRYRUN U set k t
ACL DRYRUN U publish c t
ACL DRYRUN U eval t 1 k
ACL DRYRUN U C
ACL CAT f
MULTI
MULTI
MULTI
EXEC
EXEC
EXEC
DISCARD
WATCH k
WATCH k k
UNWATCH
CLIENT GETNAME
CLIENT SETNAME f
CLIENT SETNAME t
CLIENT LIST
CLIENT LIST TYPE pubsub
CLIENT LIST TYPE t
CLIENT LIST ID Y
CLIENT LIST ID -1
CLIENT LIST ID x
CLIENT INFO
CLIENT KILL TYPE pubsub
CLIENT KILL TYPE normal
CLIENT KILL TYPE t
CLIENT KILL USER U
CLIENT KILL ID Y
CLIENT KILL ID Y SKIPME no
CLIENT KILL ID 0
CLIENT KILL ID x
CLIENT KILL t
CLIENT KILL SKIPME t
CLIENT NO-EVICT on
CLIENT NO-EVICT t
CLIENT TRACKING off
CLIENT TRACKING t
CLIENT SETINFO f t
CLIENT f
SELECT 0
SELECT 16
SELECT x
ECHO t
QUIT
RESET
SUBSCRIBE c
SUBSCRIBE c c
SUBSCRIBE c
PSUBSCRIBE P
SSUBSCRIBE c
UNSUBSCRIBE c
UNSUBSCRIBE
PUNSUBSCRIBE P
PUNSUBSCRIBE
SUNSUBSCRIBE c
SUNSUBSCRIBE
PUBLISH c t
PUBLISH c t
SPUBLISH c t
PING
PING t
INFO commandstats
CONFIG GET maxmemory min-* requirepass
CONFIG GET f
CONFIG RESETSTAT
CONFIG SET maxmemory 1
CONFIG SET maxmemory 0
CONFIG SET maxmemory 0
CONFIG SET maxmemory t
CONFIG SET maxmemory 1gb maxmemory-policy t
CONFIG SET maxmemory 1 maxmemory-policy allkeys-random
CONFIG SET maxmemory 0 maxmemory-policy noeviction
CONFIG SET min-replicas-to-write 1
CONFIG SET min-slaves-to-write 0
CONFIG SET min-replicas-to-write 0 maxmemory 0
CONFIG SET min-replicas-to-write t
CONFIG SET maxclients 0
CONFIG SET maxclients x
CONFIG SET appendonly t
CONFIG SET databases n
CONFIG SET f t
CONFIG SET f
CONFIG SET maxmemory 0 maxmemory 1
CONFIG SET replica-serve-stale-data no
CONFIG SET replica-serve-stale-data yes
CONFIG SET requirepass W
CONFIG SET requirepass ~
REPLICAOF 127.0.0.1 1
REPLICAOF NO ONE
REPLICAOF NO ONE
REPLICAOF NO ONE
REPLICAOF f n
ROLE
READONLY
READWRITE
ASKING
SCRIPT KILL
COMMAND COUNT`, "\n")

// rules are those of a user that ACL SETUSER sets.
var rules = strings.Fields(`on on on off nopass resetpass >one >one >two <one <two #12 reset resetkeys resetchannels allkeys allchannels ~* &*
	~raw:* ~raw:a ~{raw}:? ~*a* ~redisson_* &redisson_* &raw:a &raw:* &*b +@all +@all -@all -@all +@all +@read -@write +@pubsub -@dangerous +@scripting
	+nosuch -nosuch foo +@nosuch +get -get +set -set +hset -hset +hget +del -del +eval -eval +evalsha +pubsub|numsub -pubsub|numsub +pubsub
	-pubsub +client|kill -client|kill +client -client +pexpire -pexpire +publish -publish +subscribe +subscribe -subscribe +psubscribe
	+ssubscribe +ping +multi +exec +wait +time +acl +acl|whoami +config|get +cluster|slots +zadd -zadd -hdel +zrem +exists +pttl +pubsub|x +client|kill|x
	allcommands nocommands +auth -auth -reset -hello`)

// talks returns the steps of a round of talks.
func (g *generator) talks(commands int) []step {
	open := make([]bool, conns+1) // connections that may have a transaction
	g.steps = append(g.steps, step{what: talk, args: []string{"ACL", "SETUSER", "a", "on", ">one", "+@all", "~*", "&*"}})
	for range commands {
		s := step{after: g.pause(), what: talk, conn: g.IntN(conns + 1)}
		switch n := g.IntN(20); {
		case n == 0 && !open[0]:
			s = step{what: compare}
		case n < 4:
			s.args = g.setUser()
		case n < 12:
			s.args = g.fill(strings.Fields(pick(g, talkForms)))
		case n < 15:
			s.args = g.raw()
		default:
			s.args = g.plausible()
		}
		if s.what == talk {
			s.args, s.conn = g.fitting(s.args, s.conn, open)
		}
		g.steps = append(g.steps, s)
		if s.what == talk && len(s.args) == 1 && strings.HasSuffix(s.args[0], "UNSUBSCRIBE") { // it may have several replies
			g.steps = append(g.steps, step{what: talk, conn: s.conn, args: []string{"PING"}})
		}
	}
	for i := range conns + 1 {
		g.steps = append(g.steps, step{what: talk, conn: i, args: []string{"RESET"}})
	}
	return append(g.steps, step{what: compare}, step{what: talk, args: []string{"ACL", "LOG"}}, step{what: talk, args: []string{"INFO", "commandstats"}})
}

// setUser returns a change of a user.
func (g *generator) setUser() []string {
	name := pick(g, []string{"a", "a", "a", "b", "default"})
	args := []string{"ACL", "SETUSER", name}
	for range 1 + g.IntN(4) {
		args = append(args, pick(g, rules))
	}
	if g.one(3) {
		args = append(args, "on", "+@all", "~*", "&*", pick(g, rules))
	}
	return args
}

// fitting changes a command so that its replies can be told apart from messages, and notes what may be in a transaction.
func (g *generator) fitting(args []string, conn int, open []bool) ([]string, int) {
	switch name := strings.ToUpper(args[0]); {
	case name == "MULTI":
		open[conn] = true
	case name == "EXEC", name == "DISCARD", name == "RESET":
		open[conn] = false
	case strings.HasSuffix(name, "SUBSCRIBE") && open[conn]:
		return []string{"PING"}, conn // a transaction with several confirmations has a reply of the wrong length
	case open[conn] && slices.Contains([]string{"HELLO", "KEYS", "PUBSUB", "SCAN", "CONFIG", "ACL", "INFO", "CLIENT"}, name):
		return []string{"PING"}, conn // whose reply is compared in a way of its own
	case name == "SCRIPT" && len(args) > 1 && strings.HasPrefix(strings.ToUpper(args[1]), "FLUSH"):
		return []string{"PING"}, conn
	case name == "WAIT", name == "EVAL" && len(args) > 3 && strings.EqualFold(args[3], "WAIT"):
		return []string{"PING"}, conn // it would wait
	}
	return args, conn
}

// fillTalk fills in the capital letters of a form of talks.
func (g *generator) fillTalk(word string) string {
	switch word {
	case "U":
		return pick(g, []string{"a", "a", "a", "b", "default", "nobody"})
	case "W":
		return pick(g, []string{"one", "one", "two", "three"})
	case "C":
		return pick(g, []string{"ping", "multi", "nosuch", "get", "acl"})
	case "P":
		return pick(g, []string{"*", "raw:*", "redisson_*", "raw:a"})
	case "Y":
		return "$" + strconv.Itoa(g.IntN(conns+1))
	case "~":
		return ""
	}
	return word
}

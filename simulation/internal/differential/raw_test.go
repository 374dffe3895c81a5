package differential

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// forms are the forms of commands. A small letter is an argument: of a key, a field or member, a text, a number, a score, a duration,
// an end of an interval, a place.
var forms = strings.Split(`PING
PING t
TIME
EXISTS k
EXISTS k k
DEL k
DEL k k
UNLINK k
TYPE k
TYPE k
RENAME k k
PTTL k
PTTL k
TTL k
PEXPIRETIME k
PERSIST k
PEXPIRE k d
PEXPIRE k d
PEXPIRE k 0
PEXPIRE k d NX
PEXPIRE k d XX
PEXPIRE k d GT
PEXPIRE k d LT
PEXPIRE k d XX GT
PEXPIRE k d NX GT
PEXPIRE k d GT LT
EXPIRE k d
PEXPIREAT k 1767225605000
PEXPIREAT k n
EXPIREAT k 1767225605
KEYS *
KEYS *[a-c]
KEYS [^r]*\:?
SCAN 0 COUNT 1000
SCAN 0 COUNT 1000 MATCH *a*
SCAN 0 COUNT 1000 TYPE zset
GET k
GET k
SET k t
SET k n
SET k t PX d
SET k t EX d
SET k t NX
SET k t XX PX d
SET k t NX GET
SET k t KEEPTTL
SET k t PXAT 1767225605000
SET k t EXAT n
SET k t PX d EX d
SET k t NX XX
STRLEN k
INCR k
DECR k
INCRBY k n
DECRBY k n
HSET k f t
HSET k f n
HSET k f t f t
HSET k f t f
HSETNX k f t
HGET k f
HMGET k f f
HSTRLEN k f
HDEL k f
HDEL k f f
HEXISTS k f
HLEN k
HGETALL k
HKEYS k
HVALS k
HINCRBY k f n
HINCRBY k f n
HSCAN k 0
HSCAN k n COUNT n
HSCAN k 0 MATCH *[1-3]*
HRANDFIELD k 0
RPUSH k f
RPUSH k f f f
LPUSH k f f
LPOP k
LPOP k n
LLEN k
LINDEX k p
LRANGE k p p
LREM k p f
LPOS k f
LPOS k f MAXLEN n
ZADD k s f
ZADD k s f
ZADD k s f s f
ZADD k NX s f
ZADD k XX s f
ZADD k XX CH s f
ZADD k GT CH s f s f
ZADD k LT s f
ZADD k NX XX s f
ZADD k NX GT s f
ZADD k INCR s f
ZADD k NX INCR s f
ZADD k INCR s f s f
ZINCRBY k s f
ZREM k f
ZREM k f f
ZREMRANGEBYSCORE k i i
ZCARD k
ZSCORE k f
ZRANK k f
ZCOUNT k i i
ZRANGE k p p
ZRANGE k p p WITHSCORES
ZRANGE k p p REV
ZRANGE k i i BYSCORE
ZRANGE k i i BYSCORE REV LIMIT p p
ZRANGE k p p LIMIT 0 1
ZRANGEBYSCORE k i i
ZRANGEBYSCORE k i i WITHSCORES LIMIT p p
ZREVRANGEBYSCORE k i i
ZREVRANGEBYSCORE k i i LIMIT p p
PUBLISH c t
PUBLISH c t
SPUBLISH c t
PUBSUB NUMSUB c c
PUBSUB SHARDNUMSUB c c
PUBSUB CHANNELS
PUBSUB CHANNELS *raw*
PUBSUB SHARDCHANNELS
PUBSUB NUMPAT
PUBSUB NUMSUB
ROLE
WAIT 0 d
SCRIPT EXISTS t
SCRIPT FLUSHED
SCRIPT KILL
SCRIPT LOAD t
EVAL t 0
EVAL t n k
EVALSHA t 0
FLUSHALL SYNC
FLUSHDB t`, "\n")

// TestFormsAreComplete checks that no command is forgotten.
func TestFormsAreComplete(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, form := range slices.Concat(forms, talkForms, clusterForms) {
		known[strings.Fields(form)[0]] = true
	}
	for _, name := range simredis.Commands() {
		if name != "DBSIZE" && !slices.Contains([]string{"SAVE", "BGSAVE", "COMMAND", "SLAVEOF", "DUMP", "RESTORE"}, name) {
			// The payload of DUMP is its own. DBSIZE also counts keys that have expired and not been removed yet.
			require.True(t, known[name], "no form of %s", name)
		}
	}
}

// through are scripts that pass a command on.
var through = []string{
	"return redis.call(unpack(ARGV))",
	"return redis.pcall(unpack(ARGV))",
	"local reply = redis.pcall(unpack(ARGV))\nif type(reply) == 'table' then return {reply.ok or reply.err or #reply, reply} end\nreturn {type(reply), tostring(reply)}",
}

// raw returns a command that is no script's, or one of a script that passes it on. A few are malformed.
func (g *generator) raw() []string {
	var args []string
	for {
		args = g.fill(strings.Fields(pick(g, forms)))
		// A flush spoils the round: it must be rare. So must be a command that waits.
		if flushes := strings.HasPrefix(args[0], "FLUSH"); !flushes || g.one(20) {
			break
		}
	}
	if g.one(20) && args[0] != "SCAN" && args[0] != "HRANDFIELD" {
		switch i := 1 + g.IntN(len(args)); {
		case i == len(args):
			args = append(args, g.any())
		case g.one(2):
			args = args[:i]
		case args[0] != "WAIT":
			args[i] = g.any()
		}
	}
	if g.one(300) {
		args[0] = pick(g, []string{"NOSUCH", "hget", "Ping", "no\nsuch", strings.Repeat("x", 200)})
	}
	if g.one(3) && args[0] != "SCAN" && !unordered(args) {
		return append([]string{"EVAL", pick(g, through), "0"}, args...)
	}
	return args
}

func (g *generator) fill(form []string) []string {
	for i, word := range form {
		switch word {
		case "k":
			form[i] = g.key(form[0])
		case "f":
			form[i] = g.field()
		case "t":
			form[i] = g.any()
		case "n":
			form[i] = pick(g, []string{"0", "1", "2", "-1", "5", g.any()})
		case "s", "i":
			form[i] = g.score(word == "i")
		case "d":
			form[i] = strconv.FormatInt(g.leases(), 10)
			if g.one(20) && form[0] != "WAIT" {
				form[i] = g.any()
			} else if form[0] == "WAIT" {
				form[i] = "1"
			}
		case "p":
			form[i] = pick(g, []string{"0", "1", "-1", "2", "-2", "100", g.any()})
		case "c":
			form[i] = g.channel()
		default:
			form[i] = g.fillTalk(word)
		}
	}
	return form
}

// key returns a key for a command: mostly the one that has a value of its type, and sometimes one of a lock.
func (g *generator) key(command string) string {
	own, typed := map[byte]int{'G': 0, 'I': 0, 'S': 0, 'H': 1, 'L': 2, 'R': 2, 'Z': 3}[command[0]]
	switch n := g.IntN(10); {
	case n == 0:
		return pick(g, g.keys)
	case n == 1 || !typed || command == "RENAME":
		return pick(g, g.keys[:raws])
	}
	return g.keys[own]
}

func (g *generator) field() string {
	if g.one(4) {
		return g.any()
	}
	return "f" + strconv.Itoa(g.IntN(5))
}

func (g *generator) score(end bool) string {
	text := pick(g, []string{"0", "1", "2.5", "-3", "1767225600500", "3000000000000000", "inf", "-inf", "1e17", g.any()})
	if end && g.one(3) {
		return "(" + text
	}
	return text
}

// numbers are scripts about numbers and texts in Lua. Each gets two arguments. Where arithmetic may give a negative zero, which
// gopher-lua does not have, they add zero.
var numbers = []string{
	"return tostring(tonumber(ARGV[1]))",
	"return {tonumber(ARGV[1])}",
	"return tonumber(ARGV[1]) .. '|' .. ARGV[2]",
	"local a, b = tonumber(ARGV[1]), tonumber(ARGV[2])\nreturn a * b + 0 .. ''",
	"local a, b = ARGV[1], ARGV[2]\nreturn tostring(a + b + 0)",
	"return tostring(ARGV[1] / ARGV[2] + 0)",
	"return tostring(-ARGV[1] + 0)",
	"return tostring(ARGV[1] % ARGV[2] + 0)",
	"return tostring(tonumber(ARGV[1]) == tonumber(ARGV[2]))",
	"local a, b = tonumber(ARGV[1]), tonumber(ARGV[2])\nreturn tostring(a < b)",
	"return tonumber(ARGV[1]) <= ARGV[2]",
	"return string.format('%.0f', ARGV[1])",
	"return string.format('%.0f %d %s', tonumber(ARGV[1]), math.floor(ARGV[1]), tonumber(ARGV[2]))",
	"return string.format('%5.2f|%-8s|%08.3f|%x|%g|%c|%%', ARGV[1], ARGV[2], ARGV[1], 255, ARGV[1], 65)",
	"return string.format('%q', ARGV[1])",
	"return table.concat({ARGV[1], tonumber(ARGV[1]), tonumber(ARGV[2])}, tonumber(ARGV[2]))",
	"return math.max(ARGV[1], ARGV[2])",
	"return {math.floor(ARGV[1]), math.ceil(ARGV[1]), math.abs(ARGV[1]), math.min(1, ARGV[2])}",
	"return string.sub(tonumber(ARGV[1]), 1, 4)",
	"return {string.find(tonumber(ARGV[1]), '%d+')}",
	"return {string.match(ARGV[1], '^(%-?)(%d*)%.?(%d*)$')}",
	"local all = {}\nfor part in string.gmatch(ARGV[1] .. ' ' .. ARGV[2], '%w+') do all[#all + 1] = part end\nreturn all",
	"return {string.gsub(ARGV[1], '[%c\\127-\\255]', '?')}",
	"return {string.byte(ARGV[1], 1, -1)}",
	"return #(ARGV[1] .. tonumber(ARGV[2]))",
	"return redis.call('SET', 'raw:a', tonumber(ARGV[1]))",
	"return redis.call('PEXPIRE', 'raw:a', tonumber(ARGV[1]))",
	"redis.call('ZADD', 'raw:d', tonumber(ARGV[1]), 'f1')\nreturn redis.call('ZRANGE', 'raw:d', 0, -1, 'WITHSCORES')",
	"return redis.error_reply(ARGV[1])",
	"return redis.status_reply(ARGV[1])",
	"return {err = ARGV[1]}",
	"return {ok = ARGV[1]}",
	"error(ARGV[1])",
	"error({err = ARGV[1]})",
	"return nosuch",
	"nosuch = ARGV[1]",
	"local t = nil\nreturn t.x",
	"local t = {}\nreturn t.x.y",
	"local t = {}\nreturn t[1] .. ARGV[1]",
	"local function f(a)\n  return a.b\nend\nreturn f(nil)",
	"local a = ARGV[3]\nlocal function f()\n  return a + 1\nend\nreturn f()",
	"return redis.nosuch()",
	"return ARGV[3]()",
	"return ARGV[1] .. ARGV[3] .. ARGV[2]",
	"return {1, ARGV[1], false, 2}",
	"return {1, nil, 2}",
	"return {true, {ARGV[1], {3.9, -3.9}}}",
	"return redis.sha1hex(ARGV[1])",
	"return {pcall(function() return redis.call('NOSUCH') end)}",
	"return redis.call()",
	"return redis.call('GET', {})",
	"return redis.call('EVAL', 'return 1', 0)",
	"for i = 1, ARGV[3] do end",
	"return math.floor(ARGV[3])",
	"return string.rep(ARGV[1], 2)",
	"return select('#', unpack(ARGV))",
	"return {tostring(1e15), tostring(123456789012345), 2^53 .. '', 1/3 .. '', -0 .. '', 1e100 .. '', 0.1 + 0.2 .. ''}",
	"return {tonumber(ARGV[1], 16) or 'none', tonumber('ff', 16), tonumber('zz', 36), tonumber('8', 8) or 'none'}",
	"if ARGV[1] == nil", // which does not compile
}

// number returns a script about numbers.
func (g *generator) number() []string {
	return []string{"EVAL", pick(g, numbers), "0", g.any(), g.any()}
}

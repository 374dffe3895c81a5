package differential

import (
	"strings"
	"testing"
	"time"
)

// edges are commands about limits that random ones seldom meet. A line is a command; a line such as +5ms lets time pass.
const edges = `
SET a 9223372036854775806
INCR a
INCR a
DECRBY a -9223372036854775808
DECRBY a 9223372036854775807
SET a -9223372036854775807
DECR a
DECR a
HSET h f 9223372036854775807 g 1
HINCRBY h f 1
HINCRBY h new -9223372036854775808
HINCRBY h new -1
HSET o f1 1 f2 2 f3 3 f4 4
HDEL o f2
HGETALL o
HSET o f2 again f1 changed
HGETALL o
HSETNX o f2 not
HGET o f2
SET e v PX 3000
PEXPIRE e 3000 GT
PEXPIRE e 3000 LT
PEXPIRE e 3001 GT
PEXPIRE e 3001 LT
+3001ms
PTTL e
+1ms
PTTL e
SET e v EX 1
+500ms
TTL e
+1ms
TTL e
SET e v KEEPTTL
PTTL e
SET e v
PTTL e
PEXPIRE e 9223372036854775807
EXPIRE e 9223372036854775807
EXPIRE e -9223372036854775808
EXISTS e
SET e v PX 9223372036854775807
SET e v EX 9223372036854775
RPUSH l a b a c a b a
LPOS l b MAXLEN 1
LPOS l b MAXLEN 2
LPOS l b MAXLEN 0
LREM l -2 a
LRANGE l 0 -1
LREM l 1 b
LRANGE l -100 100
LRANGE l 3 1
LINDEX l -1
LPOP l 0
LPOP l 100
EXISTS l
LPOP l 1
ZADD z 1 a 2 b 2 c 3 d
ZADD z GT CH 2 b 3 c
ZADD z LT CH 2 b 1 c
ZADD z GT NX 1 a
ZADD z GT INCR 0 a
ZADD z GT INCR -1 a
ZINCRBY z inf a
ZINCRBY z -inf a
ZRANGEBYSCORE z (1 (3
ZRANGEBYSCORE z (2 (2
ZRANGEBYSCORE z 2 2 LIMIT 0 0
ZRANGEBYSCORE z 1 3 LIMIT 1 -1
ZRANGEBYSCORE z 1 3 LIMIT -1 1
ZREVRANGEBYSCORE z (3 1 WITHSCORES LIMIT 0 2
ZRANGE z 0 -1 LIMIT 0 -1
ZRANGE z 0 -1 LIMIT 1 1
ZRANGE z 1 3 BYSCORE REV
ZRANGE z 3 1 BYSCORE REV
ZRANGE z -2 -1 WITHSCORES
ZCOUNT z ( 3
ZREMRANGEBYSCORE z (1 2
ZRANGE z 0 -1 WITHSCORES
ZADD z 0.1 x 1e16 y 1e17 w 123456789012345678 v
ZRANGE z 0 -1 WITHSCORES
ZREM z a b c d x y w v
EXISTS z
PUBLISH c m
LUA return 5 % 0 == 5 % 0
LUA return tostring(5 % (1 / 0))
LUA return tostring(-5 % (1 / 0))
LUA return tostring(2500000000000000000000000000 % 4294967297)
LUA return {2 ^ 53, 2 ^ 62, 2 ^ 63, -2 ^ 63, 1e300, -1e300, 1 / 0, 0.9, -0.9}
LUA return {true, false, 1}
LUA local a local function f() return a .. 1 end return f()
LUA local a = {} return a.b.c
LUA return {tostring(1e14), tostring(1e13), tostring(-1e14), tostring(12345678901234.5), tostring(0.1 + 0.2), tostring(1e-5)}
LUA return {pcall(redis.call, 'INCR', 'h')}
LUA return {pcall(error, {err = 'X y'})}
LUA local ok, err = pcall(function() local a return a.b end) return err
WAIT 0 -1
WAIT 0 x
WAIT x 1`

// talkEdges are talks that random ones seldom have. Each line begins with the number of a connection.
const talkEdges = `
1 WATCH k
2 SET k v
1 MULTI
1 GET k
1 EXEC
1 WATCH k
1 SET k w
1 MULTI
1 EXEC
1 WATCH k
2 GET k
1 MULTI
1 GET k
1 EXEC
1 WATCH k
2 DEL k
1 UNWATCH
1 MULTI
1 GET k
1 EXEC
1 MULTI
1 WATCH k
1 MULTI
1 NOSUCH
1 EXEC
1 SUBSCRIBE a b
2 PUBLISH a 1
1 UNSUBSCRIBE b
1 PSUBSCRIBE a*
2 PUBLISH a 2
2 PUBSUB NUMPAT
2 EVAL |return\x20redis.call('PUBLISH','a','3')| 0
1 SSUBSCRIBE a
2 SPUBLISH a 4
1 GET k
1 EXEC
1 PING x
1 PUNSUBSCRIBE x
1 RESET
2 PUBLISH a 5
2 CONFIG SET requirepass secret
1 GET k
1 EVALSHA 1 2 3 4 5 6 7 8 9 10
1 GET k
1 AUTH wrong
1 AUTH secret
3 GET k
3 RESET
3 GET k
3 HELLO 2
3 HELLO 2 AUTH default secret SETNAME me
3 CLIENT GETNAME
2 CONFIG SET requirepass ~
2 ACL SETUSER a on >one resetkeys resetchannels -@all ~app:* ~redisson_unlock_latch:{app:* &redisson_lock__channel:{app:* +evalsha +eval +get +publish +multi +exec +subscribe +psubscribe +unsubscribe +reset +wait
1 AUTH a one
1 GET app:k
1 GET other
1 SET app:k v
1 EVAL |return\x20redis.call('GET',KEYS[1])| 1 app:k
1 EVAL |return\x20redis.call('GET',KEYS[1])| 1 other
1 EVAL |return\x20redis.call('GET','other')| 0
1 EVAL |return\x20redis.call('SET',KEYS[1],'v')| 1 app:k
1 EVAL |return\x20redis.pcall('SET',KEYS[1],'v')| 1 app:k
1 EVAL |return\x20redis.pcall('SET',KEYS[1],'v').err| 1 app:k
1 EVAL |return\x20redis.call('PUBLISH','c','v')| 0
1 EVAL |return\x20redis.call('PUBLISH','redisson_lock__channel:{app:x}:y','v')| 0
1 EVAL |return\x20redis.call('SPUBLISH','c','v')| 0
1 EVAL |return\x20{pcall(redis.call,'SET','app:k','v')}| 0
1 EVAL x y z
1 EVAL |return\x201| 7 app:k other
1 EVAL |return\x201| -1 other
1 PUBLISH c v
1 PUBLISH redisson_lock__channel:{app:x} v
1 SUBSCRIBE redisson_lock__channel:{app:x} other
1 PSUBSCRIBE redisson_lock__channel:{app:*
1 PSUBSCRIBE redisson_lock__channel:{app:x*
1 GET app:k
2 ACL SETUSER a resetchannels
1 PING
2 ACL LOG
2 ACL SETUSER b on nopass +@all ~* &*
1 AUTH b any
1 MULTI
1 GET k
2 ACL SETUSER b -get
1 GET k
1 EXEC
1 MULTI
1 SET k v
2 ACL SETUSER b -set
1 EXEC
1 MULTI
1 DEL k
2 ACL SETUSER b resetkeys
1 EXEC
1 MULTI
1 PUBLISH c m
2 ACL SETUSER b resetchannels
1 EXEC
2 ACL LOG 100
2 ACL DELUSER b nobody
1 PING
2 SET k v
2 CONFIG SET maxmemory 1
2 SET k v
2 DEL nosuch
2 EVAL |return\x20redis.call('SET','k','v')| 0
2 EVAL |redis.call('DEL','nosuch');return\x20redis.call('SET','k','v')| 0
2 EVAL |return\x20redis.pcall('HSET','h','f','v')| 0
2 EVAL |return\x20redis.call('PEXPIRE','k',1000)| 0
2 MULTI
2 GET k
2 EXEC
2 CONFIG SET maxmemory-policy volatile-ttl
2 SET k v
2 EXISTS k
2 CONFIG SET maxmemory 0 maxmemory-policy noeviction
2 CONFIG SET min-replicas-to-write 1
2 SET k v
2 EVAL |return\x20redis.call('SET','k','v')| 0
2 PUBLISH c m
2 CONFIG SET min-replicas-to-write 0
2 MULTI
2 SET k v
2 REPLICAOF 127.0.0.1 1
1 REPLICAOF 127.0.0.1 1
2 EXEC
2 ROLE
2 SET k v
2 EVAL |return\x20redis.call('SET','k','v')| 0
2 EVAL |return\x20redis.call('GET','k')| 0
2 PUBLISH c m
2 WAIT 0 0
2 CONFIG SET replica-serve-stale-data no
2 GET k
2 EVAL |return\x201| 0
2 EVALSHA 0123456789012345678901234567890123456789 0
2 PING
2 SUBSCRIBE c
2 PUBLISH c m
1 REPLICAOF NO ONE
2 RESET
1 INFO commandstats
1 INFO keyspace`

// linesOf returns the steps of a text: the number of a connection, and the words of a command.
func linesOf(text string) (steps []step) {
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		words := strings.Fields(line)
		steps = append(steps, stepOf(words[0], words[1:]))
	}
	return steps
}

// stepOf returns a command. A word may have bars around it, and \x20 for a space; ~ alone is an empty text.
func stepOf(conn string, words []string) step {
	args := make([]string, len(words))
	for i, word := range words {
		if args[i] = strings.ReplaceAll(strings.Trim(word, "|"), `\x20`, " "); word == "~" {
			args[i] = ""
		}
	}
	return step{what: talk, conn: int(conn[0] - '0'), args: args}
}

// TestTalkEdges compares the simulated Redis with a redis-server on these.
func TestTalkEdges(t *testing.T) {
	steps := linesOf(talkEdges)
	r := startGenuineTalks(t)
	if at, first, second := differ(steps, &simulatedTalks{}, r); at >= 0 {
		t.Fatalf("%s\n\n%s", difference(at, steps, first, second), story(steps[:at+1], &simulatedTalks{}, r))
	}
}

// TestEdges compares the simulated Redis with a redis-server on these.
func TestEdges(t *testing.T) {
	var steps []step
	for what, names := range map[string][]string{"psubscribe": {"*"}, "subscribe": {"c", ""}} {
		for _, name := range names {
			steps = append(steps, step{what: what, conn: 1, args: []string{name}})
		}
	}
	steps = append(steps, step{what: command, args: []string{"PUBLISH", "", "m"}})
	pause := time.Duration(0)
	for line := range strings.Lines(strings.TrimSpace(edges) + "\n") {
		line = strings.TrimSuffix(line, "\n")
		args := strings.Fields(line)
		if after, ok := strings.CutPrefix(line, "+"); ok {
			pause, _ = time.ParseDuration(after)
			continue
		}
		if source, ok := strings.CutPrefix(line, "LUA "); ok {
			args = []string{"EVAL", source, "0"}
		}
		steps = append(steps, step{after: pause, what: command, args: args}, step{what: compare})
		pause = 0
	}
	r := startGenuine(t)
	if at, first, second := differ(steps, &simulated{}, r); at >= 0 {
		t.Fatalf("%s\n\n%s", difference(at, steps, first, second), story(steps[:at+1], &simulated{}, r))
	}
}

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

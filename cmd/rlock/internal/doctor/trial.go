package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// calls are calls of the commands that rlock uses, with K for a key and C for a channel. Redis refuses to judge a call with a wrong number
// of arguments.
var calls = []string{
	"evalsha 0000000000000000000000000000000000000000 1 K", "eval return 1 K", "exists K", "hexists K f", "hset K f v", "hdel K f", "hlen K",
	"hgetall K", "hkeys K", "del K", "pexpire K 1", "pttl K", "time", "subscribe C", "unsubscribe C", "ping", "publish C m", "hsetnx K f v",
	"zadd K 1 m", "zcount K 0 1", "zrange K 0 1", "zrank K m", "zrem K m", "zrevrangebyscore K 1 0", "zscore K m", "pubsub numsub", "get K",
	"set K v", "incr K", "hget K f", "lindex K 0", "llen K", "lpos K v", "lrange K 0 1", "lrem K 1 v", "rpush K v", "zcard K", "decr K",
	"incrby K 1", "decrby K 1", "zrangebyscore K 0 1", "wait 0 1", "hscan K 0", "hmget K f", "type K", "cluster slots", "command", "asking",
	"ssubscribe C", "sunsubscribe C", "spublish C m", "pubsub shardnumsub", "role", "info replication",
}

// harmless are the commands that can be tried where Redis does not judge them: they read, and do nothing to the connection.
var harmless = strings.Fields("evalsha exists hexists hlen hgetall hkeys pttl time ping zcount zrange zrank zrevrangebyscore zscore pubsub|numsub " +
	"get hget lindex llen lpos lrange zcard zrangebyscore hscan hmget type cluster|slots pubsub|shardnumsub role info")

// trial finds out which rules hold for a user.
type trial struct {
	node   *node
	prefix string
	user   string
	dry    bool // Redis judges the calls, and executes none
}

// key and channel are the name of the calls, and its channel.
func (t *trial) key() string     { return t.prefix + "rlock-doctor" }
func (t *trial) channel() string { return "redisson_lock__channel:{" + t.key() + "}" }

// sample replaces the pattern of a rule by a name that it permits.
func sample(rule, prefix string) string {
	name := strings.Replace(rule[1:], "app:*", prefix+"rlock-doctor", 1)
	if strings.Contains(name, "{") {
		name += "}"
	}
	return name
}

// callsFor returns the calls that show whether a rule holds. A verdict about a key or a channel differs from one about the command.
func (t *trial) callsFor(rule string) (all [][]any) {
	add := func(call, key, channel string) {
		var args []any
		for arg := range strings.FieldsSeq(call) {
			switch arg {
			case "K":
				arg = key
			case "C":
				arg = channel
			}
			args = append(args, arg)
		}
		all = append(all, args)
	}
	name := sample(rule, t.prefix)
	switch rule[0] {
	case '~':
		add("exists K", name, "")
		if t.dry {
			add("del K", name, "")
			add("evalsha 0 1 K", name, "")
		}
	case '&':
		for _, channel := range []string{name, name + ":rlock-twin"} {
			if !t.dry || strings.HasPrefix(name, "redisson_countdownlatch") && channel != name { // which has no line
				break
			}
			for _, call := range []string{"subscribe C", "publish C m", "ssubscribe C", "spublish C m"} {
				add(call, "", channel)
			}
		}
	case '+':
		for _, call := range calls {
			if !isCall(call, rule[1:]) || !t.dry && !slices.Contains(harmless, rule[1:]) {
				continue
			}
			add(call, t.key(), t.channel())
		}
	}
	return all
}

// isCall reports whether a call is of a command, in the form of a rule.
func isCall(call, command string) bool {
	return call == command || strings.HasPrefix(call+" ", strings.Replace(command, "|", " ", 1)+" ")
}

// lacking returns those rules that do not hold, and those of which nothing is known.
func (t *trial) lacking(ctx context.Context, rules []string) (lacking, unknown []string, err error) {
	type question struct {
		rule  string
		reply *redis.Cmd
	}
	var questions []question
	pipe := t.node.rdb.Pipeline()
	for _, rule := range rules {
		for _, call := range t.callsFor(rule) {
			if t.dry {
				call = append([]any{"acl", "dryrun", t.user}, call...)
			}
			questions = append(questions, question{rule, pipe.Do(ctx, call...)})
		}
	}
	_, err = pipe.Exec(ctx)
	var reply redis.Error
	if err != nil && !asRedis(err, &reply) {
		return nil, nil, err
	}
	judged := make(map[string]bool)
	for _, q := range questions {
		refused, known := t.verdict(q.reply, q.rule[0] == '+')
		if known {
			judged[q.rule] = true
		}
		if refused && !slices.Contains(lacking, q.rule) {
			lacking = append(lacking, q.rule)
		}
	}
	for _, rule := range rules {
		if !judged[rule] {
			unknown = append(unknown, rule)
		}
	}
	return lacking, unknown, nil
}

// verdict returns whether a reply says that a command, or a key or channel, is denied. A user who may not call the command learns nothing
// about the key.
func (t *trial) verdict(reply *redis.Cmd, command bool) (refused, known bool) {
	text, err := reply.Text()
	switch {
	case !t.dry && denied(reply.Err()):
		text = reply.Err().Error()
	case !t.dry: // executed, or failed for another reason than rights
		return false, true
	case err != nil:
		return false, false
	case text == "OK":
		return false, true
	}
	access := strings.Contains(text, "permissions to access") // in the words of all versions
	return access != command, access || command
}

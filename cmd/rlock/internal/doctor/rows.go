package doctor

import "slices"

// row is a row of the table of rights in SECURITY.md, for locks under app:.
type row struct{ name, rules string }

// rows are those that concern the servers with the locks, and go-redis.
var rows = []row{
	{
		name: "plain",
		rules: "~app:* ~rlock:{app:* ~redisson_lock_token:{app:* &redisson_lock__channel:{app:* &rlock:{app:* +evalsha +eval +exists " +
			"+hexists +hset +hdel +hkeys +del +pexpire +pttl +time +zadd +zcard +zrange +zrank +zrem +zscore +subscribe " +
			"+unsubscribe +ping +publish +pubsub|numsub",
	},
	{name: "fenced, in addition to plain", rules: "+get +set +incr"},
	{
		name: "spin",
		rules: "~app:* ~rlock:{app:* ~redisson_lock_token:{app:* +evalsha +eval +exists +hexists +hset +hdel +hkeys +del +pexpire " +
			"+pttl +time +zrange +zrank +zrem +pubsub|numsub",
	},
	{
		name: "fair and read-write",
		rules: "~app:* ~redisson_unlock_latch:{app:* +evalsha +eval +exists +hexists +hset +hdel +hlen +hgetall +del +pexpire +pttl " +
			"+time +subscribe +unsubscribe +ping +publish",
	},
	{
		name: "fair, in addition",
		rules: "&redisson_lock__channel:{app:* ~redisson_lock_queue:{app:* ~redisson_lock_timeout:{app:* +hget +lindex +llen +lpos +lrange " +
			"+lrem +rpush +zadd +zcard +zrem +zscore +pubsub|numsub",
	},
	{name: "fenced fair, in addition to fair", rules: "~redisson_lock_token:{app:* +get +set +incr"},
	{
		name: "read-write, in addition",
		rules: "&redisson_rwlock:{app:* ~{app:* +hget +hscan +hsetnx +set +zadd +zcount +zrange +zrank +zrem +zrevrangebyscore +zscore " +
			"+pubsub|numsub",
	},
	{name: "fenced read-write, in addition to read-write", rules: "~redisson_lock_token:{app:* +get +incr"},
	{
		name: "a count-down latch, by itself",
		rules: "~app:* ~redisson_unlock_latch:{app:* &redisson_countdownlatch__channel__{app:* +evalsha +eval +get +set +decr +del +hget " +
			"+hexists +hset +hlen +hgetall +hdel +pexpire +pttl +time +subscribe +unsubscribe +ping +publish",
	},
	{
		name: "a semaphore, by itself",
		rules: "~app:* ~{app:* ~redisson_unlock_latch:{app:* ~rlock:{app:* &redisson_sc:{app:* &rlock:{app:* +evalsha +eval +exists +get +set " +
			"+incrby +decrby +del +hget +hset +hlen +hgetall +hdel +pexpire +pttl +time +zadd +zcard +zcount +zrange +zrangebyscore " +
			"+zrank +zrem +zscore +subscribe +unsubscribe +ping +publish +pubsub|numsub",
	},
	{
		name: "a plain semaphore, by itself",
		rules: "~app:* ~{app:* ~redisson_unlock_latch:{app:* &redisson_sc:{app:* +evalsha +eval +exists +get +set +incrby +decrby +del " +
			"+hget +hexists +hset +hlen +hgetall +hdel +pexpire +pttl +time +zcard +zcount +subscribe +unsubscribe +ping +publish",
	},
	{name: "WithReplicaAcks", rules: "+wait"},
	{name: "AllReplicas", rules: "+wait +info"},
	{name: "Lock.Inspect, in addition to the kind", rules: "+hget +hlen +hmget +hscan +type +zcount"},
	{name: "a Cluster", rules: "+cluster|slots +command +asking"},
	{
		name:  "sharded pub/sub",
		rules: "-subscribe -unsubscribe +ssubscribe +sunsubscribe +spublish +pubsub|shardnumsub +role",
	},
}

// kinds are what a service may use, with the rows that each needs. Their names are those of telemetry; see wire.Kind. Only inspect is no kind.
var kinds = []struct {
	name string
	rows []string
}{
	{"lock", []string{"plain"}},
	{"fenced", []string{"plain", "fenced, in addition to plain"}},
	{"fair", []string{"fair and read-write", "fair, in addition"}},
	{"fenced fair", []string{"fair and read-write", "fair, in addition", "fenced fair, in addition to fair"}},
	{"read", []string{"fair and read-write", "read-write, in addition"}},
	{"write", []string{"fair and read-write", "read-write, in addition"}},
	{"fenced write", []string{"fair and read-write", "read-write, in addition", "fenced read-write, in addition to read-write"}},
	{"spin", []string{"spin"}},
	{"count-down latch", []string{"a count-down latch, by itself"}},
	{"semaphore", []string{"a semaphore, by itself"}},
	{"plain semaphore", []string{"a plain semaphore, by itself"}},
	{"inspect", []string{"Lock.Inspect, in addition to the kind"}},
}

// Kinds returns the names for [Options.Kinds].
func Kinds() []string {
	all := make([]string, len(kinds))
	for i, k := range kinds {
		all[i] = k.name
	}
	return all
}

// named returns kinds by the names in [Kinds]. A lock is also known by the name of its row.
func named(asked []string) []string {
	names := slices.Clone(asked)
	for i, name := range names {
		if name == "plain" {
			names[i] = "lock"
		}
	}
	return names
}

// rowsOf returns the rows of a kind.
func rowsOf(kind string) (names []string, ok bool) {
	for _, k := range kinds {
		if k.name == kind {
			return k.rows, true
		}
	}
	return nil, false
}

// rowNamed returns a row.
func rowNamed(name string) row {
	return rows[slices.IndexFunc(rows, func(r row) bool { return r.name == name })]
}

package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// slots reports what each master of a cluster knows about its slots. With cluster-require-full-coverage, one slot that nobody serves
// stops them all, and cluster_state says so.
func slots(ctx context.Context, d *deployment) (all []Finding) {
	for _, n := range d.masters() {
		text, err := n.rdb.ClusterInfo(ctx).Result()
		if err != nil {
			all = append(all, found(n, Unknown, "The state of the cluster: %s.", why(err)))
			continue
		}
		info := fields(text)
		if missing := 16384 - parse(info["cluster_slots_ok"]); info["cluster_state"] != "ok" || missing > 0 {
			all = append(all, found(n, Problem,
				"The cluster's state is %q, and %d slots are not served: their locks fail (CLUSTERDOWN). Repair it with redis-cli --cluster fix.",
				info["cluster_state"], missing).at(failurePage))
		}
		nodes, err := n.rdb.ClusterNodes(ctx).Result()
		if err != nil {
			all = append(all, found(n, Unknown, "Whether a slot moves: %s.", why(err)))
			continue
		}
		if moving := moving(nodes); moving > 0 {
			all = append(all, found(n, Warning,
				"%d slots move to or from this server: until that is over, nobody can acquire a lock of them. Finish it, with redis-cli --cluster fix if nobody is at it.",
				moving))
		}
	}
	return all
}

// moving returns how many slots a node imports or gives away, as it says itself.
func moving(nodes string) (n int) {
	for line := range strings.Lines(nodes) {
		parts := strings.Fields(line)
		if len(parts) > 8 && slices.Contains(strings.Split(parts[2], ","), "myself") {
			for _, slot := range parts[8:] {
				if strings.HasPrefix(slot, "[") {
					n++
				}
			}
		}
	}
	return n
}

// sharded looks whether the masters have sharded pub/sub, as clients without WithClassicPubSub expect.
func sharded(ctx context.Context, d *deployment) (all []Finding) {
	var without []string
	for _, n := range d.masters() {
		err := n.rdb.Do(ctx, "pubsub", "shardnumsub", "0").Err()
		switch reply := redis.Error(nil); {
		case err == nil:
		case asRedis(err, &reply) && !redis.HasErrorPrefix(err, "NOPERM"):
			without = append(without, n.addr)
		default:
			all = append(all, found(n, Unknown, "Whether there is sharded pub/sub: %s.", why(err)))
		}
	}
	if len(without) > 0 {
		all = append(all, found(nil, Problem, "%s have no sharded pub/sub: upgrade to Redis 7, or use WithClassicPubSub in all clients.",
			strings.Join(without, ", ")).at(serversPage))
	}
	return append(all, listeners(ctx, d)...)
}

// manyChannels is how many channels a server may have for listeners to ask for their names, which takes Redis about a millisecond.
const manyChannels = 5000

// listeners looks whether the same lock has listeners on sharded channels and on others.
func listeners(ctx context.Context, d *deployment) (all []Finding) {
	classic, shared := make(map[string]bool), ""
	ask := func(n *node, how string, visit func(lock string)) bool {
		if n.number("pubsub_channels")+n.number("pubsubshard_channels") > manyChannels {
			all = append(all, found(n, Unknown, "Whether all clients listen on the same sort of channels: there are too many channels to look at."))
			return false
		}
		channels, err := n.rdb.Do(ctx, "pubsub", how, "redisson_*").StringSlice()
		if err != nil {
			all = append(all, found(n, Unknown, "Whether all clients listen on the same sort of channels: %s.", why(err)))
			return false
		}
		for _, channel := range channels {
			if lock := lockOf(channel, d.opts.Prefix); lock != "" {
				visit(lock)
			}
		}
		return true
	}
	for _, n := range d.nodes {
		if ask(n, "channels", func(lock string) { classic[lock] = true }) {
			continue
		}
		return all
	}
	if len(classic) == 0 {
		return nil
	}
	for _, n := range d.nodes {
		ok := ask(n, "shardchannels", func(lock string) {
			if classic[lock] && (shared == "" || lock < shared) {
				shared = lock
			}
		})
		if !ok {
			return all
		}
	}
	if shared != "" {
		all = append(all, found(nil, Problem,
			"%.80q has listeners on sharded channels and on others: these clients do not wake one another. Have all of them use the same: WithClassicPubSub, or shardedSubscriptionMode in Java.",
			shared))
	}
	return all
}

// lockOf returns the part of a channel that tells locks apart, or nothing for other channels.
func lockOf(channel, prefix string) string {
	for _, stem := range []string{"redisson_lock__channel:", "redisson_rwlock:", "redisson_sc:", "redisson_countdownlatch__channel__"} {
		if name, ok := strings.CutPrefix(channel, stem); ok && strings.HasPrefix(strings.TrimPrefix(name, "{"), prefix) {
			tagged, _, _ := strings.Cut(name, "}")
			return stem + tagged + "}"
		}
	}
	return ""
}

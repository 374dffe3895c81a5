package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// servers holds the lab's clients of the masters that a cell runs on.
type servers struct{ nodes []*redis.Client }

func newServers(addrs []string) *servers {
	s := &servers{}
	for _, addr := range addrs {
		s.nodes = append(s.nodes, redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1}))
	}
	return s
}

func (s *servers) close() {
	for _, node := range s.nodes {
		_ = node.Close()
	}
}

// flush empties all nodes.
func (s *servers) flush(ctx context.Context) error {
	for _, node := range s.nodes {
		if err := node.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// reset makes sent start from zero.
func (s *servers) reset(ctx context.Context) error {
	errs := make([]error, len(s.nodes))
	for i, node := range s.nodes {
		errs[i] = node.ConfigResetStat(ctx).Err()
	}
	return errors.Join(errs...)
}

// sentCommands lists the commands that clients send. All other commands in the statistics come from scripts.
var sentCommands = []string{
	"evalsha", "eval", "fcall", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "ping", "multi", "exec", "watch",
}

var (
	commandStat = regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=(\d+),usec=(\d+)`)
	mainThread  = regexp.MustCompile(`(?m)^used_cpu_(?:user|sys)_main_thread:([\d.]+)`)
)

// usage is what a library has used since reset.
type usage struct {
	calls  map[string]float64 // of the commands that it sent
	script float64            // µs in these commands
	cpu    float64            // µs of the servers' main threads since they started: subtract an earlier one
}

// sum returns the number of calls of some commands.
func (u usage) sum(commands ...string) (n float64) {
	for _, command := range commands {
		n += u.calls[command]
	}
	return n
}

// all returns the number of calls.
func (u usage) all() (n float64) {
	for _, calls := range u.calls {
		n += calls
	}
	return n
}

// used returns what a library has used since reset. It counts no command of the lab's own.
func (s *servers) used(ctx context.Context, library string) (usage, error) {
	e, _ := entrantNamed(library)
	u := usage{calls: map[string]float64{}}
	for _, node := range s.nodes {
		stats, err := node.Info(ctx, "commandstats").Result()
		if err != nil {
			return u, err
		}
		for _, m := range commandStat.FindAllStringSubmatch(stats, -1) {
			if slices.Contains(sentCommands, m[1]) || slices.Contains(e.direct, m[1]) {
				u.calls[m[1]] += number(m[2])
				u.script += number(m[3])
			}
		}
		cpu, err := node.Info(ctx, "cpu").Result()
		if err != nil {
			return u, err
		}
		for _, m := range mainThread.FindAllStringSubmatch(cpu, -1) {
			u.cpu += 1e6 * number(m[1])
		}
	}
	return u, nil
}

// number returns the value of digits that a pattern found.
func number(digits string) float64 {
	v, _ := strconv.ParseFloat(digits, 64)
	return v
}

// sent returns the number of commands that a library has sent since reset.
func (s *servers) sent(ctx context.Context, library string) (float64, error) {
	u, err := s.used(ctx, library)
	return u.all(), err
}

// sockets returns the number of connections, except the lab's, and how many of them are subscribed.
func (s *servers) sockets(ctx context.Context) (all, pubsub int, err error) {
	for _, node := range s.nodes {
		normal, err := node.Do(ctx, "client", "list", "type", "normal").Text()
		subscribers, err2 := node.Do(ctx, "client", "list", "type", "pubsub").Text()
		if err := errors.Join(err, err2); err != nil {
			return 0, 0, err
		}
		n := strings.Count(subscribers, "\n")
		pubsub += n
		all += n + strings.Count(normal, "\n") - 1
	}
	return all, pubsub, nil
}

// lowestTTL returns how many of the keys are gone, how many have a TTL under a limit, and the lowest TTL.
const lowestTTL = `local gone, late, lowest = 0, 0, 1e9
for _, key in ipairs(KEYS) do
	local ttl = redis.call('pttl', key)
	if ttl < 0 then gone = gone + 1 else
		if ttl < tonumber(ARGV[1]) then late = late + 1 end
		if ttl < lowest then lowest = ttl end
	end
end
return {gone, late, lowest}`

// ttls runs lowestTTL on the single server, as EVAL_RO, which no library sends.
func (s *servers) ttls(ctx context.Context, keys []string, limit int64) (gone, late, lowest int64, err error) {
	n, err := s.nodes[0].EvalRO(ctx, lowestTTL, keys, limit).Int64Slice()
	if err == nil && len(n) != 3 {
		err = fmt.Errorf("%d replies for 3", len(n))
	}
	if err != nil {
		return 0, 0, 0, err
	}
	return n[0], n[1], n[2], nil
}

package torture

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/wire"
)

// yielded is the name whose readers wait for writers.
const yielded = "rw-yielding"

// waitersEnd is above the score of each waiter.
var waitersEnd = strconv.FormatFloat(lua.WaitersEnd, 'f', 0, 64)

// lined is one look at the line of that name, between two moments: the writers there whose clients listen.
type lined struct {
	From, To Moment
	Writers  []string
}

// watchLine observes the line past the proxies until ctx ends. On a cluster, a client does without the line until it knows how channels work.
func (a *Arena) watchLine(ctx context.Context) {
	wanted := slices.ContainsFunc(a.scene.Mix, func(s Share) bool { return s.Kind == kindYieldingRead })
	if !wanted || a.scene.Topology != topologySingle {
		return
	}
	for ctx.Err() == nil {
		if look, ok := a.lookAtLine(ctx); ok {
			a.collector.sawLine(look)
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// lookAtLine reports whether it could see the line.
func (a *Arena) lookAtLine(ctx context.Context) (look lined, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	names := wire.NewNames(wire.Write, yielded, "")
	line, _ := names.LineKeys[1].(string)
	admin := a.admins[a.nodes[0]]
	look.From = now()
	standing, err := admin.ZRangeArgs(ctx, redis.ZRangeArgs{Key: line, Start: 0, Stop: waitersEnd, ByScore: true}).Result()
	channels := make([]string, len(standing))
	for i, writer := range standing {
		client, _, _ := strings.Cut(writer, ":")
		channels[i] = wire.NewNames(wire.Write, yielded, client).Own()
	}
	if err == nil && len(standing) > 0 {
		var listen map[string]int64
		listen, err = admin.PubSubNumSub(ctx, channels...).Result()
		for i, writer := range standing {
			if listen[channels[i]] > 0 {
				look.Writers = append(look.Writers, writer)
			}
		}
	}
	look.To = now()
	return look, err == nil
}

// stands is a writer of the line that can be reached, as long as it certainly stood there.
type stands struct {
	writer   string
	from, to Moment
}

func (s stands) String() string { return s.writer }

// standing returns the writers that stood in the line for longer than one look.
func (c *checker) standing() []stands {
	var all []stands
	latest := make(map[string]int) // where the writers of the look before are
	for _, look := range c.Lines {
		now := make(map[string]int)
		for _, writer := range look.Writers {
			i, again := latest[writer]
			if !again {
				i = len(all)
				all = append(all, stands{writer, look.To, look.To})
			}
			all[i].to, now[writer] = max(look.From, all[i].from), i
		}
		latest = now
	}
	return all
}

// yields checks that no reader which waits for writers passed one that stood in the line before it, unless a writer left meanwhile: so no writer
// is passed by more than one phase of new readers after each writer before it.
func (c *checker) yields() {
	const later = 20 * time.Millisecond // a reader says for how long it has waited
	standing := c.standing()
	for _, t := range c.names[yielded] {
		if t.Kind != kindYieldingRead || t.Answer != got {
			continue
		}
		passed := false
		for _, s := range standing {
			if t.Asked <= s.from || t.Answered > s.to || c.struck(s.from.Add(-2*time.Second), t.Answered) > 0 {
				continue
			}
			waits := promises.Owner{Who: s, Asked: s.from}
			c.safely().Yields(yielded, t.owner(), waits, c.writerLeft(t.Answered), later)
			passed = true
		}
		if passed {
			c.Figures.Yields++
		}
	}
}

// writerLeft returns the latest moment at which a writer that asked before a moment may have left the lock.
func (c *checker) writerLeft(before Moment) (latest Moment) {
	for _, t := range c.names[yielded] {
		if !t.writes() || t.Asked > before {
			continue
		}
		end := c.freed(t)
		switch {
		case t.Answer == refused && (t.Try || t.Answered.Add(-20*time.Millisecond-c.starved(t.Site, before, t.Answered)) > before):
			continue // it never had the lock, or waited for it then
		case t.Answer == refused:
			end = t.Answered.Add(300 * time.Millisecond) // Redis may have given it the lock when its wait was over, and it gave the lock back
		case end == 0:
			end = before // it has the lock, or its process was killed
		case t.Answer == failed || t.Unlock != got:
			end = end.Add(300 * time.Millisecond) // a release in the background, or a pump, followed
		case t.Unlocking > before:
			continue
		}
		latest = max(latest, end)
	}
	return latest
}

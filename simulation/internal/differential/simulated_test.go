package differential

import (
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// simulated is the simulated Redis.
type simulated struct {
	// plant, if set, plants a fault for a test of the comparison: it may do something to the server before each command.
	plant func(s *simredis.Server)
	// falsify, if set, changes a reply.
	falsify func(reply any) any
	// lose, if set, reports whether a message is lost.
	lose func(payload string) bool
}

// listener is a connection with subscriptions. Channels of both sorts and patterns share one list of messages.
type listener struct {
	plain, sharded *simredis.Subscriber
	got            []any
}

func (p *simulated) play(steps []step) []any {
	now := began
	s := simredis.New(func() time.Time { return now })
	listeners := make([]*listener, conns)
	for i := range listeners {
		listeners[i] = p.listen()
	}
	outcomes := make([]any, len(steps))
	for i, step := range steps {
		now = now.Add(step.after)
		if step.what == command {
			if p.plant != nil {
				p.plant(s)
			}
			outcomes[i] = s.Do(step.args...)
			if p.falsify != nil {
				outcomes[i] = p.falsify(outcomes[i])
			}
			continue
		}
		if step.what == compare {
			outcomes[i] = []any{takeAll(listeners), contents(doAll(s))}
			continue
		}
		listeners[step.conn-1].do(s, step)
	}
	return outcomes
}

func doAll(s *simredis.Server) func(commands [][]string) []any {
	return func(commands [][]string) (replies []any) {
		for _, args := range commands {
			replies = append(replies, s.Do(args...))
		}
		return replies
	}
}

func (p *simulated) listen() *listener {
	l := &listener{}
	hear := func(payload string, message ...any) {
		if p.lose == nil || !p.lose(payload) {
			l.got = append(l.got, message)
		}
	}
	l.plain = &simredis.Subscriber{
		Send: func(channel, payload string) { hear(payload, "message", channel, payload) },
		SendMatching: func(pattern, channel, payload string) {
			hear(payload, "pmessage", pattern, channel, payload)
		},
	}
	l.sharded = &simredis.Subscriber{Send: func(channel, payload string) { hear(payload, "smessage", channel, payload) }}
	return l
}

func (l *listener) do(s *simredis.Server, step step) {
	switch step.what {
	case "subscribe":
		s.Subscribe(step.args[0], l.plain, false)
	case "unsubscribe":
		s.Unsubscribe(step.args[0], l.plain, false)
	case "ssubscribe":
		s.Subscribe(step.args[0], l.sharded, true)
	case "sunsubscribe":
		s.Unsubscribe(step.args[0], l.sharded, true)
	case "psubscribe":
		s.SubscribePattern(step.args[0], l.plain)
	case "punsubscribe":
		s.UnsubscribePattern(step.args[0], l.plain)
	case drop:
		s.Drop(l.plain)
		s.Drop(l.sharded)
	}
}

// takeAll returns the messages of all connections since the last time.
func takeAll(listeners []*listener) []any {
	all := make([]any, len(listeners))
	for i, l := range listeners {
		all[i], l.got = l.got, nil
	}
	return all
}

package simredis

import (
	"maps"
	"slices"
)

// Subscriber is one connection that has subscribed. Messages arrive in the order in which they were published, each while its PUBLISH
// runs. The functions must not call the server.
type Subscriber struct {
	// Send gets each message on a channel.
	Send func(channel, payload string)
	// SendMatching gets each message on a channel that matches a pattern. Nil is for a subscriber without patterns.
	SendMatching func(pattern, channel, payload string)
}

// subscriptions has the subscribers of each channel or pattern, in the order in which they came.
type subscriptions map[string][]*Subscriber

func (m subscriptions) add(name string, sub *Subscriber) {
	if !slices.Contains(m[name], sub) {
		m[name] = append(m[name], sub)
	}
}

func (m subscriptions) remove(name string, sub *Subscriber) {
	left := slices.DeleteFunc(slices.Clone(m[name]), func(other *Subscriber) bool { return other == sub })
	if m[name] = left; len(left) == 0 {
		delete(m, name)
	}
}

func (s *Server) channels(sharded bool) subscriptions {
	if sharded {
		return s.sharded
	}
	return s.plain
}

// Subscribe adds a subscriber to a channel, of the sharded ones or of the others. It does nothing if the subscriber is there.
func (s *Server) Subscribe(channel string, sub *Subscriber, sharded bool) {
	s.channels(sharded).add(channel, sub)
}

// Unsubscribe removes a subscriber from a channel.
func (s *Server) Unsubscribe(channel string, sub *Subscriber, sharded bool) {
	s.channels(sharded).remove(channel, sub)
}

// SubscribePattern adds a subscriber to all channels, but the sharded ones, that match a pattern.
func (s *Server) SubscribePattern(pattern string, sub *Subscriber) { s.patterns.add(pattern, sub) }

// UnsubscribePattern removes a subscriber from a pattern.
func (s *Server) UnsubscribePattern(pattern string, sub *Subscriber) { s.patterns.remove(pattern, sub) }

// Drop removes a subscriber from everything, as when its connection is lost.
func (s *Server) Drop(sub *Subscriber) {
	for _, m := range []subscriptions{s.plain, s.sharded, s.patterns} {
		for _, name := range slices.Collect(maps.Keys(m)) {
			m.remove(name, sub)
		}
	}
}

// Channels returns the channels that have subscribers, but the sharded ones, in alphabetical order.
func (s *Server) Channels() []string { return slices.Sorted(maps.Keys(s.plain)) }

var messageCommands = map[string]run{
	"PUBLISH":              cmdPublish,
	"SPUBLISH":             cmdSPublish,
	"PUBSUB|NUMSUB":        func(s *Server, a []string) any { return s.plain.count(a[2:]) },
	"PUBSUB|SHARDNUMSUB":   func(s *Server, a []string) any { return s.sharded.count(a[2:]) },
	"PUBSUB|NUMPAT":        func(s *Server, _ []string) any { return int64(len(s.patterns)) },
	"PUBSUB|CHANNELS":      func(s *Server, a []string) any { return s.listChannels(a, s.plain) },
	"PUBSUB|SHARDCHANNELS": func(s *Server, a []string) any { return s.listChannels(a, s.sharded) },
}

func cmdPublish(s *Server, a []string) any {
	for _, other := range s.others(false) {
		other.publish(a)
	}
	return s.publish(a)
}

func cmdSPublish(s *Server, a []string) any {
	for _, other := range s.others(true) {
		other.publishSharded(a)
	}
	return s.publishSharded(a)
}

// others returns the nodes of the cluster that get what is published on this one: all, or the replicas. Who listens there does not count.
func (s *Server) others(replicas bool) (all []*Server) {
	if s.node == nil {
		return nil
	}
	for _, other := range s.node.cluster.nodes {
		if other != s.node && !other.down && (!replicas || other.master == s.node) {
			all = append(all, other.server)
		}
	}
	return all
}

// publish tells the subscribers of this server.
func (s *Server) publish(a []string) any {
	subs := s.plain[a[1]]
	for _, sub := range subs {
		sub.Send(a[1], a[2])
	}
	n := len(subs)
	for _, pattern := range s.shuffle(slices.Collect(maps.Keys(s.patterns))) {
		if !matches(pattern, a[1]) {
			continue
		}
		for _, sub := range s.patterns[pattern] {
			sub.SendMatching(pattern, a[1], a[2])
			n++
		}
	}
	return int64(n)
}

// publishSharded tells the subscribers of this server to a sharded channel.
func (s *Server) publishSharded(a []string) any {
	subs := s.sharded[a[1]]
	for _, sub := range subs {
		sub.Send(a[1], a[2])
	}
	return int64(len(subs))
}

// listChannels lists the channels that have subscribers, or those of them that match a pattern.
func (s *Server) listChannels(a []string, of subscriptions) any {
	if len(a) > 3 {
		return Err("ERR unknown subcommand or wrong number of arguments for '" + a[1] + "'. Try PUBSUB HELP.")
	}
	all := []any{}
	for _, channel := range s.shuffle(slices.Collect(maps.Keys(of))) {
		if len(a) == 2 || matches(a[2], channel) {
			all = append(all, channel)
		}
	}
	return all
}

// count returns how many subscribers each channel has.
func (m subscriptions) count(channels []string) any {
	all := make([]any, 0, 2*len(channels))
	for _, channel := range channels {
		all = append(all, channel, int64(len(m[channel])))
	}
	return all
}

package rlock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// line is a subscription connection, made when it is needed, and made anew when it fails.
//
// Two goroutines serve it while it has channels, and a while longer: the keeper subscribes, unsubscribes and proves that
// the connection is alive; the reader of each connection takes in what arrives. go-redis never notices a connection
// that has gone silent, so the keeper pings an idle one and replaces one that answers nothing.
//
// On the line of a shard go-redis cannot subscribe anew: it asks for all channels at once, which a cluster refuses as
// CROSSSLOT, and does not follow a slot that moves. A connection that breaks there is given up, and its channels go back
// to the trunk, whose keeper finds where they belong now.
type line struct {
	pubsub *pubsub
	node   *redis.Client // nil: the trunk
	kick   chan struct{} // tells the keeper that there is something to do

	// Guarded by pubsub.mu.
	conn    *connection // the present one; nil: none
	keeping bool        // whether the keeper runs
	alone   bool        // whether each channel is asked for by itself, because some are refused
	refused time.Time   // when what is confirmed was last asked for again, because something was refused
	renew   time.Time   // when to make the connection anew, because it may lead to who was the master; zero: not
}

// connection is one of go-redis's. On the trunk that connects anew by itself when it breaks.
type connection struct {
	conn   *redis.PubSub
	cancel context.CancelFunc
	since  time.Time // when it was made
	heard  time.Time // when anything was last received; the start, until then
	pinged time.Time
	spoke  bool // whether anything was received
}

func newLine(ps *pubsub, node *redis.Client) *line {
	return &line{pubsub: ps, node: node, kick: make(chan struct{}, 1)}
}

func (l *line) sharded() bool { return l.node != nil }

// ensure has the keeper look what there is to do. It requires mu.
func (l *line) ensure() {
	if ps := l.pubsub; !l.keeping && !ps.stopped {
		l.keeping = true
		ps.running.Go(l.keep)
	}
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// keep is the keeper. It ends when nobody has listened for a while.
func (l *line) keep() {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	idleSince := time.Now()
	for {
		select {
		case <-l.kick:
		case <-tick.C:
		case <-l.pubsub.ctx.Done():
			l.hangUp()
			return
		}
		now := time.Now()
		if l.sharded() {
			l.doubt()
		} else {
			l.pubsub.route(now)
		}
		subscribe, unsubscribe := l.wanted(now)
		if len(subscribe)+len(unsubscribe) > 0 {
			idleSince = now
		}
		l.order(subscribe, unsubscribe)
		l.checkPulse(now)
		if l.idle(now.Sub(idleSince)) {
			return
		}
	}
}

// wanted returns the channels to subscribe and to unsubscribe now.
func (l *line) wanted(now time.Time) (subscribe, unsubscribe []string) {
	ps := l.pubsub
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for channel, s := range ps.channels {
		switch {
		case s.line != l:
		case len(s.listeners) == 0 && now.Sub(s.idleSince) >= channelLinger:
			delete(ps.channels, channel)
			if !s.sent.IsZero() {
				unsubscribe = append(unsubscribe, channel)
			}
		case !s.routed:
		case s.sent.IsZero(), !s.confirmed && now.Sub(s.sent) >= retryRefused:
			s.sent = now
			subscribe = append(subscribe, channel)
		}
	}
	return subscribe, unsubscribe
}

// order sends what wanted found, on a connection that it makes if there is none.
func (l *line) order(subscribe, unsubscribe []string) {
	ps := l.pubsub
	ps.mu.Lock()
	if l.conn == nil && len(subscribe) > 0 {
		l.connect()
	}
	conn, alone := l.conn, l.alone
	ps.mu.Unlock()
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ps.ctx, connectWithin)
	defer cancel()
	err := l.send(ctx, conn.conn, subscribe, unsubscribe, alone)
	if len(subscribe) == 0 {
		return
	}
	ps.mu.Lock()
	if err == nil && !conn.spoke {
		conn.heard, conn.spoke = time.Now(), true // in the handshake
	}
	if err != nil {
		for _, channel := range subscribe {
			if s := ps.channels[channel]; s != nil && s.line == l && !s.confirmed {
				s.sent = time.Time{} // at the next tick
			}
		}
		if l.sharded() {
			l.lose(true)
			if l.conn == conn {
				l.drop() // the error is the connection's, and its reader would dial for ever
			}
		}
	}
	ps.mu.Unlock()
	if err != nil {
		ps.client.sawError(err)
	}
}

// send returns the error of subscribing. If unsubscribing fails, so does the connection, and the channels are not on the
// next.
func (l *line) send(ctx context.Context, conn *redis.PubSub, subscribe, unsubscribe []string, alone bool) error {
	if l.sharded() { // in one command a cluster takes only what is in one slot
		for _, channel := range unsubscribe {
			_ = conn.SUnsubscribe(ctx, channel)
		}
		for _, channel := range subscribe {
			if err := conn.SSubscribe(ctx, channel); err != nil {
				return err
			}
		}
		return nil
	}
	if len(unsubscribe) > 0 {
		_ = conn.Unsubscribe(ctx, unsubscribe...)
	}
	switch {
	case len(subscribe) == 0:
		return nil
	case !alone:
		return conn.Subscribe(ctx, subscribe...)
	}
	_ = conn.Unsubscribe(ctx, subscribe...) // or go-redis asks for them together when it connects anew
	var err error
	for _, channel := range subscribe {
		err = errors.Join(err, conn.Subscribe(ctx, channel))
	}
	return err
}

// connect makes a connection and its reader. It requires mu.
func (l *line) connect() {
	ps := l.pubsub
	ctx, cancel := context.WithCancel(ps.ctx)
	now := time.Now()
	conn := &connection{cancel: cancel, since: now, heard: now}
	if l.sharded() {
		conn.conn = l.node.SSubscribe(ctx)
	} else {
		conn.conn = ps.client.rdb.Subscribe(ctx)
	}
	l.conn = conn
	if l.renew.Before(now) {
		l.renew = time.Time{}
	}
	ps.running.Go(func() { l.read(ctx, conn) })
}

// mistrust has the connection be made anew a little later. After a failover go-redis leaves a subscription at the old master if
// that is up, and takes a new one there if the Sentinel it asks has not heard of the new master; until that Sentinels demote
// it, all messages are missed.
func (l *line) mistrust() {
	ps := l.pubsub
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if l.renew.IsZero() {
		l.renew = time.Now().Add(switchWithin)
	}
}

// doubt makes sure that channels which came from another line are at the master of the shard. A replica takes them too; but
// one that has just been the master is not told for a while what the new one publishes.
func (l *line) doubt() {
	ps := l.pubsub
	ps.mu.Lock()
	var moved []*subscription
	for _, s := range ps.channels {
		if s.line == l && s.confirmed && s.moved {
			moved = append(moved, s)
		}
	}
	ps.mu.Unlock()
	if len(moved) == 0 {
		return
	}
	role, err := l.node.Do(ps.ctx, "role").Slice()
	isReplica := err == nil && len(role) > 0 && role[0] != "master"
	if isReplica {
		ps.client.reload()
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, s := range moved {
		switch {
		case s.line != l:
		case isReplica:
			ps.leave(s, true)
		case err == nil || replied(err):
			s.moved = false
		}
	}
}

// checkPulse pings a connection that is silent, and replaces one that stays so or is mistrusted.
func (l *line) checkPulse(now time.Time) {
	ps := l.pubsub
	ps.mu.Lock()
	conn := l.conn
	if conn == nil {
		ps.mu.Unlock()
		return
	}
	silence, limit := now.Sub(conn.heard), deadAfter
	if !conn.spoke {
		limit = connectWithin
	}
	dead := silence >= limit
	renew := !dead && !l.renew.IsZero() && now.After(l.renew)
	ping := !dead && conn.spoke && silence >= pingAfter && now.Sub(conn.pinged) >= pingAfter
	if ping {
		conn.pinged = now
	}
	if dead || renew {
		l.renew = time.Time{}
		l.drop()
		l.ensure()
	}
	ps.mu.Unlock()
	switch {
	case dead:
		ps.client.sawError(errNoAnswer)
	case ping:
		ctx, cancel := context.WithTimeout(ps.ctx, pingAfter)
		defer cancel()
		_ = conn.conn.Ping(ctx) // the silence that follows a failure is what counts
	}
}

// idle ends the keeper, and the connection, if there has been no channel for a while.
func (l *line) idle(quiet time.Duration) bool {
	ps := l.pubsub
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if quiet < lineLinger {
		return false
	}
	for _, s := range ps.channels {
		if s.line == l {
			return false
		}
	}
	l.keeping = false
	l.drop()
	if l.sharded() {
		delete(ps.shards, l.node)
	}
	return true
}

func (l *line) hangUp() {
	l.pubsub.mu.Lock()
	defer l.pubsub.mu.Unlock()
	l.drop()
}

// drop gives the connection up. What is still wanted is subscribed again on the next. It requires mu.
func (l *line) drop() {
	conn := l.conn
	l.conn = nil
	l.lose(false)
	if conn == nil {
		return
	}
	conn.cancel()
	// Close waits while go-redis dials, which may take as long as it likes.
	l.pubsub.running.Go(func() { _ = conn.conn.Close() })
}

// lose notes that the channels of the line are subscribed no longer, and have to be again. It requires mu.
func (l *line) lose(failed bool) {
	for _, s := range l.pubsub.channels {
		switch {
		case s.line != l:
		case l.sharded():
			l.pubsub.leave(s, failed)
		default:
			s.confirmed, s.sent = false, time.Time{}
		}
	}
}

// unconfirm notes that messages may be missed from now on, until a new confirmation. It requires mu.
func (l *line) unconfirm() {
	for _, s := range l.pubsub.channels {
		if s.line == l {
			s.confirmed = false
		}
	}
}

package simnet

import (
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// Peer is a client of another library, which shares the server with rlock.
type Peer struct{ link *Link }

// peerTimeout is how long a peer waits for a reply.
const peerTimeout = 5 * time.Second

// NewPeer returns one more process with such a client.
func (s *Server) NewPeer(process string) *Peer {
	p := &Peer{s.NewLink(process)}
	p.link.peer = true
	return p
}

// Do sends a command, and returns its reply.
func (p *Peer) Do(args ...string) (any, error) {
	replies, err := p.link.send(request{cmds: [][]string{args}}, peerTimeout)
	if err != nil {
		return nil, err
	}
	if text, failed := replies[0].value.(simredis.Err); failed {
		return nil, text
	}
	return replies[0].value, nil
}

// Subscribe opens a subscription connection.
func (p *Peer) Subscribe() driver.Subscription {
	return newSubscription(false, func([]string) *Link { return p.link })
}

package simserver

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// peer is one connection. The server's mu guards it.
type peer struct {
	server *Server
	conn   net.Conn
	redis  *simredis.Conn // nil if the server has too many connections
	out    writer
	runs   bool // a command of it runs: its output follows when that has ended
}

func newPeer(s *Server, conn net.Conn) *peer {
	p := &peer{server: s, conn: conn}
	var err error
	p.redis, err = s.redis.Connect(conn.RemoteAddr().String(), p.push, p.ended)
	if err != nil {
		p.redis = nil
		p.out.reply(simredis.Err(err.Error()))
		p.flush()
		_ = conn.Close()
	}
	return p
}

// serve runs the commands of the connection.
func (p *peer) serve() {
	s := p.server
	in := bufio.NewReader(p.conn)
	for {
		args, err := readCommand(in)
		s.awaitResume()
		if err != nil || p.redis == nil || p.redis.Closed() {
			s.remove(p)
			s.mu.Unlock()
			return
		}
		s.ran(p.redis.ID(), args)
		p.run(args)
		if p.redis.Closed() {
			p.flush()
			_ = p.conn.Close()
		} else if in.Buffered() == 0 {
			p.flush()
		}
		s.mu.Unlock()
	}
}

func (p *peer) flush() {
	_, _ = p.conn.Write(p.out.Bytes()) // a client that is gone gets nothing
	p.out.Reset()
}

// push sends what is not a reply.
func (p *peer) push(parts []any) {
	p.out.push(parts)
	if !p.runs {
		p.flush()
	}
}

// ended closes the connection. If a command of its own is the reason, the reply is sent before.
func (p *peer) ended() {
	if !p.runs {
		_ = p.conn.Close()
	}
}

// run runs a command. It may wait, as WAIT does.
func (p *peer) run(args []string) {
	p.runs = true
	defer func() { p.runs = false }()
	reply := p.redis.Do(args...)
	if strings.EqualFold(args[0], "WAIT") {
		reply = p.wait(args, reply)
	}
	p.out.protocol = p.redis.Protocol()
	several, ok := reply.(simredis.Several)
	if !ok {
		p.out.reply(reply)
		return
	}
	for _, r := range several {
		if confirmation, ok := r.([]any); ok {
			p.out.push(confirmation)
		}
	}
}

// wait returns what WAIT replies: as soon as enough replicas have what was written, or when its time is over.
func (p *peer) wait(args []string, reply any) any {
	s := p.server
	n, ok := reply.(int64)
	if !ok {
		return reply
	}
	enough, _ := strconv.ParseInt(args[1], 10, 64) // simredis has checked both numbers
	timeout, _ := strconv.ParseInt(args[2], 10, 64)
	end := time.Now().Add(time.Duration(timeout) * time.Millisecond)
	for n < enough && (timeout == 0 || time.Now().Before(end)) && !p.redis.Closed() {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.awaitResume()
		n = p.redis.Acknowledged()
	}
	return n
}

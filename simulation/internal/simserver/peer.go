package simserver

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// peer is one connection. The server's mu guards it.
type peer struct {
	server *Server
	id     int64
	conn   net.Conn
	redis  *simredis.Conn
	out    writer
	runs   bool // a command of it runs: its output follows when that has ended
	over   bool // the server has ended it
}

// serve runs the commands of a connection. s.mu must be held at first.
func (s *Server) serve(conn net.Conn) {
	s.opened++
	p := &peer{server: s, id: s.opened, conn: conn, out: writer{protocol: 2}}
	var err error
	if p.redis, err = s.redis.Connect(conn.RemoteAddr().String(), p.push, p.end); err != nil {
		p.out.reply(err)
		p.flush()
		_ = conn.Close()
		return
	}
	s.serving.Go(p.serve)
}

func (p *peer) serve() {
	s := p.server
	in := bufio.NewReader(p.conn)
	for {
		args, err := readCommand(in)
		s.awaitResume()
		if err != nil || p.over {
			p.redis.Close()
			_ = p.conn.Close()
			s.mu.Unlock()
			return
		}
		s.ran(p.id, args)
		p.runs = true
		reply := p.redis.Do(args...)
		p.runs = false
		if strings.EqualFold(args[0], "WAIT") {
			reply = p.wait(args, reply)
		}
		p.out.protocol = p.redis.Protocol()
		p.out.reply(reply)
		if in.Buffered() == 0 || p.over {
			p.flush()
		}
		if p.over {
			_ = p.conn.Close()
		}
		s.mu.Unlock()
	}
}

func (p *peer) flush() {
	_, _ = p.conn.Write(p.out.Bytes()) // a client that is gone gets nothing
	p.out.Reset()
}

// push sends what is not a reply.
func (p *peer) push(message []any) {
	p.out.push(message)
	if !p.runs {
		p.flush()
	}
}

// end ends the connection, after the reply to the command that runs.
func (p *peer) end() {
	if p.over = true; !p.runs {
		_ = p.conn.Close()
	}
}

// wait returns what WAIT replies: as soon as enough replicas have what was written, or when its time is over. A real server does not keep
// others waiting meanwhile, and this one does not either.
func (p *peer) wait(args []string, reply any) any {
	s := p.server
	n, ok := reply.(int64)
	if !ok {
		return reply
	}
	enough, _ := strconv.ParseInt(args[1], 10, 64) // simredis has checked both numbers
	timeout, _ := strconv.ParseInt(args[2], 10, 64)
	end := time.Now().Add(time.Duration(timeout) * time.Millisecond)
	for n < enough && (timeout == 0 || time.Now().Before(end)) && !p.over {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.awaitResume()
		n = p.redis.Acknowledged()
	}
	return n
}

package differential

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// talk is a step by which a connection sends a command and reads what has come for it: the reply and messages.
const talk = "talk"

// line is a connection that talks. What comes is read in order. It reports false when the connection has ended.
type line interface {
	send(args []string)
	next() (item any, open bool)
	redial()
	id() string
}

// say sends a command on a connection, and returns what has come up to its reply. A connection that the server has ended is replaced.
func say(l line, args []string) []any {
	l.send(args)
	var items []any
	subscribes := strings.HasSuffix(strings.ToUpper(args[0]), "SUBSCRIBE")
	for left := 1; left > 0; {
		item, open := l.next()
		if !open {
			l.redial()
			return []any{"closed"} // what came before may be lost
		}
		items = append(items, item)
		list, _ := item.([]any)
		first := ""
		if len(list) > 0 {
			first, _ = list[0].(string)
		}
		switch {
		case strings.HasSuffix(first, "message") && len(list) > 2:
		case strings.HasSuffix(first, "subscribe") && len(list) == 3:
			if subscribes {
				if left == 1 && len(items) > 0 && countOf(items, "subscribe") == 1 {
					left = max(1, len(args)-1)
				}
				left--
			}
		default:
			left = 0
		}
	}
	return items
}

// countOf counts the items that are confirmations.
func countOf(items []any, suffix string) (n int) {
	for _, item := range items {
		if list, ok := item.([]any); ok && len(list) == 3 {
			if first, _ := list[0].(string); strings.HasSuffix(first, suffix) {
				n++
			}
		}
	}
	return n
}

// begin are the commands that begin a play of talks, on a server that somebody has used. The user "root" sends them: nothing refuses it
// anything.
var begin = [][]string{
	{"AUTH", "root", "any"},
	{"REPLICAOF", "NO", "ONE"},
	{"CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction", "min-replicas-to-write", "0", "replica-serve-stale-data", "yes", "requirepass", "", "maxclients", "10000"},
	{"ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all"},
	{"ACL", "DELUSER", "a", "b"},
	{"FLUSHALL"},
	{"ACL", "LOG", "RESET"},
	{"CONFIG", "RESETSTAT"},
}

var root = []string{"ACL", "SETUSER", "root", "on", "nopass", "~*", "&*", "+@all"}

// playTalks plays steps on connections.
func playTalks(lines []line, steps []step, sleep func(d time.Duration)) []any {
	lines[0].redial()
	for _, args := range begin {
		say(lines[0], args)
	}
	for _, l := range lines {
		l.redial()
	}
	outcomes := make([]any, len(steps))
	for i, s := range steps {
		if s.after > 0 {
			sleep(s.after)
		}
		if s.what == compare {
			outcomes[i] = contents(func(commands [][]string) (replies []any) {
				for _, args := range commands {
					replies = append(replies, say(lines[0], args)[0])
				}
				return replies
			})
			continue
		}
		args := slices.Clone(s.args)
		for j, arg := range args {
			if len(arg) == 2 && arg[0] == '$' { // the id of a connection
				args[j] = lines[arg[1]-'0'].id()
			}
		}
		outcomes[i] = normalTalk(args, say(lines[s.conn], args))
	}
	return outcomes
}

var (
	cost     = regexp.MustCompile(`usec=\d+,usec_per_call=[\d.]+`)
	queue    = regexp.MustCompile(`multi=\d+`)
	resource = regexp.MustCompile(`\b(id|addr|laddr|fd|age|idle|qbuf|qbuf-free|argv-mem|multi-mem|rbs|rbp|obl|oll|omem|tot-mem)=\S*`)
)

// withoutResources returns what CLIENT LIST says without what a server without sockets does not have, and without what depends on the
// moment at which Redis notices that a watched key has expired.
func withoutResources(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		flags, rest, found := strings.Cut(resource.ReplaceAllString(line, "$1="), " flags=")
		if of, after, _ := strings.Cut(rest, " "); found {
			if of = strings.Trim(of, "Nd"); strings.Contains(of, "x") {
				after = queue.ReplaceAllString(after, "multi=")
			}
			lines[i] = flags + " flags=" + of + " " + after
		}
	}
	return strings.Join(lines, "\n")
}

// normalTalk returns what has come without what Redis leaves open, and without what simredis does not have.
func normalTalk(args []string, items []any) []any {
	name := strings.ToUpper(args[0])
	for i, item := range items {
		if list, ok := item.([]any); ok && name == "EXEC" {
			for j := range list {
				if err, ok := list[j].(simredis.Err); ok {
					list[j] = normal(step{}, err)
				}
			}
			continue
		}
		switch item := item.(type) {
		case string:
			text := withoutResources(cost.ReplaceAllString(item, "cost"))
			lines := strings.Split(text, "\r\n")
			if name == "INFO" {
				lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "cmdstat_quit:") }) // see redial
				slices.Sort(lines[1:])
				text = strings.Join(lines, "\r\n")
			}
			items[i] = text
		case []any:
			items[i] = normalList(name, args, item)
		case simredis.Err:
			items[i] = normal(step{}, item)
		}
	}
	return items
}

func normalList(name string, args []string, item []any) any {
	first := ""
	if len(item) > 0 {
		first, _ = item[0].(string)
	}
	switch {
	case strings.HasSuffix(first, "unsubscribe") && len(item) == 3 && (len(args) == 1 || !strings.HasSuffix(name, "UNSUBSCRIBE")):
		return []any{item[0], "any", item[2]} // the order of all is open
	case name == "ACL" && len(args) > 1 && strings.EqualFold(args[1], "LOG"):
		for _, entry := range item {
			if list, ok := entry.([]any); ok && len(list) == 14 {
				text, _ := list[13].(string)
				list[11], list[13] = "", withoutResources(text)
			}
		}
	case name == "HELLO":
		for i := range item {
			if i > 0 && item[i-1] == "id" {
				item[i] = int64(0)
			}
		}
	case name == "ACL":
		return sorted(item)
	case name == "CONFIG":
		return pairsOf(item)
	}
	return normal(step{what: command, args: args}, item)
}

// pairsOf sorts what is in no order.
func pairsOf(list []any) []any {
	var all []any
	for i := 0; i+1 < len(list); i += 2 {
		all = append(all, fmt.Sprint(list[i], "=", list[i+1]))
	}
	return sorted(all)
}

// simulatedTalks is the simulated Redis with connections.
type simulatedTalks struct {
	// plant, if set, plants a fault: it may change a command before it is sent, or do something to the server.
	plant func(s *simredis.Server, args []string) []string
	// falsify, if set, changes what comes.
	falsify func(item any) any
}

type simulatedLine struct {
	place  *simulatedTalks
	server *simredis.Server
	conn   *simredis.Conn
	items  []any
	number string
}

func (l *simulatedLine) redial() {
	if l.conn != nil {
		l.conn.Close()
	}
	l.items = nil
	var err error
	l.conn, err = l.server.Connect("127.0.0.1:1", func(message []any) { l.items = append(l.items, message) }, nil)
	if err != nil {
		l.items = append(l.items, err)
		return
	}
	l.number = fmt.Sprint(l.conn.Do("CLIENT", "ID"))
}

func (l *simulatedLine) id() string { return l.number }

func (l *simulatedLine) send(args []string) {
	if l.conn.Closed() {
		l.items = nil
		return
	}
	if l.place.plant != nil {
		args = l.place.plant(l.server, args)
	}
	reply := l.conn.Do(args...)
	if several, ok := reply.(simredis.Several); ok {
		l.items = append(l.items, several...)
		return
	}
	l.items = append(l.items, reply)
}

func (l *simulatedLine) next() (any, bool) {
	if len(l.items) == 0 {
		return nil, false
	}
	item := l.items[0]
	l.items = l.items[1:]
	if l.place.falsify != nil {
		item = l.place.falsify(item)
	}
	return item, true
}

func (p *simulatedTalks) play(steps []step) []any {
	now := began
	s := simredis.New(func() time.Time { return now })
	lines := make([]line, conns+1)
	for i := range lines {
		lines[i] = &simulatedLine{place: p, server: s}
	}
	s.Do(root...)
	for _, script := range scripts() {
		s.Do("SCRIPT", "LOAD", script.source)
	}
	return playTalks(lines, steps, func(d time.Duration) { now = now.Add(d) })
}

// genuineTalks is a redis-server with connections.
type genuineTalks struct {
	t     *testing.T
	clock *redistest.Clock
	addr  string
	lines []line
}

type genuineLine struct {
	*conn
	place  *genuineTalks
	number string
}

func startGenuineTalks(t *testing.T) *genuineTalks {
	t.Helper()
	server, clock := redistest.StartWithClock(t)
	clock.Stop(began)
	p := &genuineTalks{t: t, clock: clock, addr: server.Addr}
	for range conns + 1 {
		p.lines = append(p.lines, &genuineLine{place: p})
	}
	setUp := [][]string{root}
	for _, script := range scripts() {
		setUp = append(setUp, []string{"SCRIPT", "LOAD", script.source})
	}
	c := dial(t, server.Addr)
	c.doAll(setUp)
	c.quit()
	return p
}

func (l *genuineLine) redial() {
	if l.conn != nil {
		l.quit()
	}
	l.conn = dial(l.place.t, l.place.addr)
	l.number = fmt.Sprint(l.doAll([][]string{{"CLIENT", "ID"}})[0])
}

// quit ends a connection, and waits until the server knows it.
func (c *conn) quit() {
	c.send("QUIT")
	_ = c.out.Flush()
	_, _ = io.Copy(io.Discard, c.in)
	_ = c.raw.Close()
}

func (l *genuineLine) id() string { return l.number }

func (l *genuineLine) send(args []string) {
	l.conn.send(args...)
	_ = l.out.Flush() // whether the connection has ended is seen when it is read
}

func (l *genuineLine) next() (any, bool) {
	require.NoError(l.t, l.raw.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := l.in.Peek(1); err != nil {
		return nil, false
	}
	return l.read(), true
}

func (p *genuineTalks) play(steps []step) []any {
	now := began
	p.clock.Stop(now)
	return playTalks(p.lines, steps, func(d time.Duration) {
		now = now.Add(d)
		p.clock.Stop(now)
	})
}

package differential

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// masters is how many nodes of a cluster have slots. Each has two connections.
const masters = 3

// clusterEdges are commands to the masters of a cluster. A line begins with the number of a connection: 0, 1 and 2 are those to the
// masters, 3, 4 and 5 others to the same. $n is the id of a master, and @n its port. The slot of b is 3300, of the first master, as is f in
// another slot; c is of the second one, and a of the third one.
const clusterEdges = `
0 CLUSTER KEYSLOT a
0 CLUSTER KEYSLOT {b}x
0 GET b
0 SET b 1
0 GET a
0 GET c
0 DEL b a
0 DEL {b}1 {b}2
0 EVAL |return\x20redis.call('GET','b')| 0
0 EVAL |return\x20redis.call('GET','a')| 0
0 EVAL |return\x20redis.call('GET','a')| 1 b
0 EVAL |return\x20redis.pcall('SET','a','v').err| 1 b
0 EVAL |return\x20{redis.call('GET','b'),redis.call('GET','f')}| 0
0 EVAL |return\x20redis.call('GET','{b}1')| 1 b
0 EVAL |return\x201| 2 a b
0 EVAL |return\x201| 1 a
0 EVALSHA 0123456789012345678901234567890123456789 1 a
0 SPUBLISH a m
0 SPUBLISH b m
0 SSUBSCRIBE a
0 SSUBSCRIBE b f
0 SSUBSCRIBE b
0 RESET
0 PUBLISH a m
0 MULTI
0 GET b
0 GET a
0 EXEC
0 MULTI
0 GET b
0 GET f
0 EXEC
0 MULTI
0 GET b
0 GET {b}1
0 EXEC
0 ASKING
0 GET a
0 READONLY
0 GET b
0 GET a
0 READWRITE
0 SELECT 1
0 SELECT 0
0 KEYS *
0 CLUSTER COUNTKEYSINSLOT 3300
0 CLUSTER GETKEYSINSLOT 3300 10
0 CLUSTER GETKEYSINSLOT 99999 10
0 CLUSTER ADDSLOTS 0
0 CLUSTER ADDSLOTS x
0 CLUSTER SETSLOT 3300 MIGRATING nosuch
0 CLUSTER SETSLOT 7365 MIGRATING $1
0 CLUSTER SETSLOT 3300 IMPORTING $1
0 CLUSTER SETSLOT x NODE $1
0 CLUSTER SETSLOT 3300 FOO
0 CLUSTER SETSLOT 3300 NODE nosuch
0 CLUSTER SETSLOT 3300 NODE $1
1 CLUSTER SETSLOT 3300 IMPORTING $0
0 CLUSTER SETSLOT 3300 MIGRATING $1
0 GET b
0 GET {b}1
0 DEL b {b}1
0 DEL {b}1 {b}2
0 EVAL |return\x201| 1 {b}1
0 EVAL |return\x201| 2 b {b}1
0 EVAL |return\x20redis.call('GET','{b}1')| 1 b
0 MULTI
0 GET b
0 GET {b}1
0 EXEC
1 GET b
1 ASKING
1 GET b
1 ASKING
1 SET {b}1 2
1 GET {b}1
1 ASKING
1 PING
1 GET {b}1
1 ASKING
1 DEL {b}1 {b}2
1 ASKING
1 MULTI
1 GET {b}1
1 EXEC
1 GET {b}1
1 ASKING
1 EVAL |return\x20redis.call('GET','{b}1')| 1 {b}1
1 ASKING
1 EVAL |return\x20redis.call('GET','{b}2')| 1 {b}1
3 SSUBSCRIBE b
3 SSUBSCRIBE f
4 ASKING
4 SSUBSCRIBE b
1 ASKING
1 SPUBLISH b early
0 SPUBLISH b late
0 HSET {b}h x 1 y 2
0 ZADD {b}z 1 m inf n
0 RPUSH {b}l a b
0 PEXPIREAT {b}l 4102444800000
0 MIGRATE 127.0.0.1 @1 ~ 0 5000 KEYS b {b}h {b}z {b}l {b}nosuch
0 MIGRATE 127.0.0.1 @1 ~ 0 5000 KEYS b
1 CLUSTER SETSLOT 3300 NODE $1
0 CLUSTER SETSLOT 3300 NODE $1
0 GET b
1 GET b
1 HGETALL {b}h
1 ZRANGE {b}z 0 -1 WITHSCORES
1 LRANGE {b}l 0 -1
1 PEXPIRETIME {b}l
3 PING
4 PING
1 SPUBLISH b later
1 RESET
`

// clusterDown are commands to a master of a cluster in which a slot is nobody's.
const clusterDown = `
2 CLUSTER DELSLOTS 16000
2 CLUSTER DELSLOTS 16000
2 GET a
2 EVAL |return\x201| 1 a
2 EVAL |return\x20redis.call('GET','a')| 0
2 EVAL |return\x201| 0
2 SPUBLISH a m
2 SSUBSCRIBE a
2 MULTI
2 GET a
2 EXEC`

// clusterPlace is a cluster with connections to its masters.
type clusterPlace struct {
	lines []line
	ids   []string
	ports []string
}

// settle waits until a change of the cluster is everywhere.
type settle func()

// play returns what each line replies, with ids and addresses as numbers.
func (p *clusterPlace) play(steps []step, settled settle) []any {
	names := []string{}
	for i := range masters {
		names = append(names, p.ids[i], fmt.Sprint("$", i), "127.0.0.1:"+p.ports[i], fmt.Sprint("@", i))
	}
	inNumbers := strings.NewReplacer(names...)
	var outcomes []any
	for _, s := range steps {
		args := make([]string, len(s.args))
		for i, arg := range s.args {
			if args[i] = arg; len(arg) == 2 && arg[0] == '$' {
				args[i] = p.ids[arg[1]-'0']
			} else if len(arg) == 2 && arg[0] == '@' {
				args[i] = p.ports[arg[1]-'0']
			}
		}
		items := say(p.lines[s.conn], args)
		for i, item := range items {
			if err, ok := item.(simredis.Err); ok {
				items[i] = simredis.Err(inNumbers.Replace(string(err)))
			}
		}
		outcomes = append(outcomes, items)
		if len(args) == 5 && args[3] == "NODE" {
			settled()
		}
	}
	return outcomes
}

// clusterLine is a connection to a genuine node.
type clusterLine struct {
	*genuineLine
	addr string
}

func (l *clusterLine) redial() {
	if l.conn != nil {
		l.quit()
	}
	l.conn = dial(l.place.t, l.addr)
}

func startGenuineCluster(t *testing.T) (*clusterPlace, settle) {
	t.Helper()
	cluster := redistest.StartCluster(t)
	p := &clusterPlace{}
	for i := range 2 * masters {
		l := &clusterLine{&genuineLine{place: &genuineTalks{t: t}}, cluster.Nodes[i%masters].Addr}
		l.redial()
		p.lines = append(p.lines, l)
	}
	for i := range masters {
		id, _ := say(p.lines[i], []string{"CLUSTER", "MYID"})[0].(string)
		p.ids, p.ports = append(p.ids, id), append(p.ports, strconv.Itoa(cluster.Nodes[i].Port))
	}
	return p, func() {
		redistest.Eventually(t, "the masters agree on the slots", func() bool {
			known := map[string]bool{}
			for i := range masters {
				c := dial(t, cluster.Nodes[i].Addr)
				known[owners(c.doAll([][]string{{"CLUSTER", "SLOTS"}})[0])] = true
				c.quit()
			}
			return len(known) == 1
		})
	}
}

// owners returns which port has which slots, given a reply to CLUSTER SLOTS.
func owners(reply any) string {
	var all []string
	list, _ := reply.([]any)
	for _, element := range list {
		part, _ := element.([]any)
		master, _ := part[2].([]any)
		all = append(all, fmt.Sprint(part[0], part[1], master[1]))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func startSimulatedCluster() *clusterPlace {
	var servers []*simredis.Server
	p := &clusterPlace{}
	for i := range masters {
		s := simredis.New(func() time.Time { return began })
		servers = append(servers, s)
		s.EnableCluster("127.0.0.1", int64(i+1))
		s.Resolve = func(_ string, port int64) *simredis.Server { return servers[port-1] }
		id, _ := s.Do("CLUSTER", "MYID").(string)
		p.ids, p.ports = append(p.ids, id), append(p.ports, strconv.Itoa(i+1))
		s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*16384/masters), strconv.Itoa((i+1)*16384/masters-1))
		s.Do("CLUSTER", "MEET", "127.0.0.1", "1")
	}
	for i := range 2 * masters {
		l := &simulatedLine{place: &simulatedTalks{}, server: servers[i%masters]}
		l.redial()
		p.lines = append(p.lines, l)
	}
	return p
}

// TestClusters compares the masters of a cluster with genuine ones: on edges, and with -slots on random commands while slots move. These
// differ now and then, because a genuine node learns of a moved slot by gossip, whenever that comes.
func TestClusters(t *testing.T) {
	genuine, settled := startGenuineCluster(t)
	simulated := startSimulatedCluster()
	compareClusters(t, linesOf(clusterEdges), simulated, genuine, settled)
	if *slots {
		seed := *seedFlag
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Logf("seed %d", seed)
		compareClusters(t, newGenerator(seed, 0).cluster(max(100, *commands/100)), simulated, genuine, func() {})
	}
	compareClusters(t, linesOf(clusterDown), simulated, genuine, func() {})
}

func compareClusters(t *testing.T, steps []step, simulated, genuine *clusterPlace, settled settle) {
	t.Helper()
	first, second := simulated.play(steps, func() {}), genuine.play(steps, settled)
	for i := range steps {
		require.True(t, reflect.DeepEqual(first[i], second[i]), "step %d: %v\nsimulated %s\nreal      %s\nafter %v",
			i, steps[i], show(first[i]), show(second[i]), steps[max(0, i-20):i])
	}
}

// clusterForms are the forms of random commands. K is one of few keys, of few slots.
var clusterForms = strings.Split(`GET K
GET K
SET K v
SET K v
DEL K
DEL K K
EXISTS K K
HSET {b}h f v
EVAL |return\x201| 1 K
EVAL |return\x201| 2 K K
EVAL |return\x20redis.call('SET',ARGV[1],'v')| 1 K K
EVAL |return\x20redis.pcall('GET',ARGV[1])| 0 K
MULTI
EXEC
EXEC
DISCARD
ASKING
ASKING
READONLY
READWRITE
SPUBLISH K m
SPUBLISH K m
SSUBSCRIBE K
SUNSUBSCRIBE K
PUBLISH K m
PING
RESET
CLUSTER COUNTKEYSINSLOT 3300
CLUSTER SETSLOT 3168 MIGRATING $2
CLUSTER SETSLOT 3168 IMPORTING $0
CLUSTER SETSLOT 3168 STABLE
MIGRATE 127.0.0.1 @2 ~ 0 5000 KEYS f {f}1
MIGRATE 127.0.0.1 @0 ~ 0 5000 REPLACE KEYS f {f}1`, "\n")

// cluster returns random commands to the masters of a cluster. Slots do not change their owners, which would take a while to be known.
func (g *generator) cluster(n int) []step {
	var steps []step
	for range n {
		words := strings.Fields(pick(g, clusterForms))
		for i, word := range words {
			if word == "K" {
				words[i] = pick(g, []string{"f", "f", "{f}1", "{f}1", "{f}2", "b", "{b}1", "c", "a"})
			}
		}
		conn := pick(g, []int{0, 0, 2, 2, 1, 3, 5})
		if words[0] == "MIGRATE" { // a node that gives keys to itself hangs
			conn = map[string]int{"@2": 0, "@0": 2}[words[2]]
		}
		steps = append(steps, stepOf(strconv.Itoa(conn), words))
	}
	for i := range 2 * masters {
		steps = append(steps, stepOf(strconv.Itoa(i), []string{"RESET"}))
	}
	return steps
}

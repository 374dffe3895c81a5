package differential

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/transcript"
	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

var (
	schedules     = flag.Int("schedules", 2000, "how many schedules of the model of the lock table TestPlayedServers compares")
	firstSchedule = flag.Int("first", 1, "the first one")
)

// TestPlayedServers compares servers that tests of rlock play in Go with the genuine scripts: that of the model of the lock table, and that
// of the tests of the verbs. Whatever the tests ask them, their replies, the holders and their lease, and those who wait must be the same.
func TestPlayedServers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the tests of other packages")
	}
	for pkg, args := range map[string][]string{
		"table":  {"-run", "^TestTranscript$", "-first", strconv.Itoa(*firstSchedule), "-schedules", strconv.Itoa(*schedules)},
		"client": {"-skip", "Storm|TestSelfDeadlockIsLogged|TestAnOutageIsLogged|TestNobodyIsAccusedFalsely"}, // they ask for long
	} {
		t.Run(pkg, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "transcript")
			test := exec.Command("go", append([]string{"test", "-count=1", ".", "-record", path}, args...)...)
			test.Dir = "../../../internal/" + pkg
			out, err := test.CombinedOutput()
			require.NoError(t, err, "%s", out)
			file, err := os.Open(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, file.Close()) }()
			compared := comparePlayed(t, file)
			t.Logf("%d calls compared", compared)
			require.Greater(t, compared, 2000)
		})
	}
}

// comparePlayed compares a transcript with the genuine scripts, and returns how many calls it has.
func comparePlayed(t *testing.T, from io.Reader) (compared int) {
	t.Helper()
	byDigest := make(map[string]script)
	for _, s := range scripts() {
		byDigest[s.digest] = s
	}
	servers := make(map[string]*played)
	for decoder := json.NewDecoder(bufio.NewReader(from)); ; {
		var e transcript.Entry
		err := decoder.Decode(&e)
		if err == io.EOF {
			return compared
		}
		require.NoError(t, err)
		s := servers[e.Server]
		if s == nil {
			s = newPlayed()
			servers[e.Server] = s
		}
		s.micros = e.Micros
		switch {
		case s.over:
		case e.Over:
			s.over = true
		case e.Raw != nil:
			s.Do(e.Raw...)
		default:
			compared++
			called := byDigest[e.Script]
			genuine := s.call(called.source, &e)
			slices.Sort(e.Holders)
			if differs := s.differs(&e, &genuine); differs != "" {
				t.Errorf("%s: %s %v %v at %d, with listeners %v: %s", e.Server, called.name, e.Keys, e.Argv, e.Micros, e.Listeners, differs)
				s.over = true
			}
		}
	}
}

// played is a server with the genuine scripts, which is asked what one that a test plays was asked.
type played struct {
	*simredis.Server

	micros int64
	subs   map[string][]*simredis.Subscriber
	tokens map[int64]int64 // the genuine ones, by those of the played server, which begin with 1
	over   bool
}

func newPlayed() *played {
	p := &played{subs: make(map[string][]*simredis.Subscriber), tokens: make(map[int64]int64)}
	p.Server = simredis.New(func() time.Time { return time.UnixMicro(p.micros) })
	return p
}

// listen makes the channels have so many listeners.
func (p *played) listen(counts map[string]int64) {
	for channel, subs := range p.subs {
		for ; int64(len(subs)) > counts[channel]; subs = subs[1:] {
			p.Unsubscribe(channel, subs[0], false)
		}
		p.subs[channel] = subs
	}
	for channel, n := range counts {
		for int64(len(p.subs[channel])) < n {
			sub := &simredis.Subscriber{Send: func(string, string) {}}
			p.Subscribe(channel, sub, false)
			p.subs[channel] = append(p.subs[channel], sub)
		}
	}
}

// call runs a script as the played server was asked to, and returns what came of it.
func (p *played) call(source string, e *transcript.Entry) (genuine transcript.Entry) {
	p.listen(e.Listeners)
	raw := p.Do(append(append([]string{"EVAL", source, strconv.Itoa(len(e.Keys))}, e.Keys...), e.Argv...)...)
	list, isList := raw.([]any)
	if !isList {
		list = []any{raw}
	}
	for _, v := range list {
		n, ok := v.(int64)
		if !ok {
			n = -1 << 40 // an error
		}
		genuine.Reply = append(genuine.Reply, n)
	}
	for i, field := range words(p.Do("HGETALL", e.Keys[0])) {
		if marks := strings.HasPrefix(e.Keys[0], "redisson_unlock_latch"); i%2 == 0 && !marks && field != "mode" {
			genuine.Holders = append(genuine.Holders, field)
		}
	}
	slices.Sort(genuine.Holders)
	if len(genuine.Holders) > 0 {
		genuine.Left, _ = p.Do("PTTL", e.Keys[0]).(int64)
	}
	genuine.Line = p.waiting(e.Keys)
	return genuine
}

// waiting returns those who wait in the line or the queue, if it is one of the keys.
func (p *played) waiting(keys []string) (all []string) {
	for _, key := range keys[1:] {
		switch p.Do("TYPE", key) {
		case simredis.Status("list"):
			return words(p.Do("LRANGE", key, "0", "-1"))
		case simredis.Status("zset"):
			if !strings.Contains(key, ":waiters") { // it has the deadlines of a queue
				continue
			}
			for _, member := range words(p.Do("ZRANGE", key, "0", "-1")) {
				if field, _, ok := strings.Cut(member, "|"); ok && !strings.HasPrefix(field, "!") {
					all = append(all, field)
				}
			}
		}
	}
	return all
}

// words are the strings of a reply.
func words(raw any) []string {
	list, _ := raw.([]any)
	all := make([]string, len(list))
	for i, v := range list {
		all[i], _ = v.(string)
	}
	return all
}

// differs says how an entry differs from the genuine one.
func (p *played) differs(e, genuine *transcript.Entry) string {
	waits := slices.ContainsFunc(e.Keys, func(key string) bool {
		return strings.Contains(key, ":waiters") || strings.Contains(key, "redisson_lock_queue")
	})
	switch {
	case !slices.EqualFunc(e.Reply, genuine.Reply, p.alike):
		return fmt.Sprintf("replies %v instead of %v", e.Reply, genuine.Reply)
	case !slices.Equal(e.Holders, genuine.Holders):
		return fmt.Sprintf("has the holders %v instead of %v", e.Holders, genuine.Holders)
	case e.Left != genuine.Left:
		return fmt.Sprintf("has %d ms left instead of %d", e.Left, genuine.Left)
	case waits && !slices.Equal(e.Line, genuine.Line):
		return fmt.Sprintf("has the waiters %v instead of %v", e.Line, genuine.Line)
	}
	return ""
}

// alike reports whether two numbers say the same. A genuine token is drawn from the time.
func (p *played) alike(played, genuine int64) bool {
	if token := played > 0 && played < 1e6 && genuine > 1e9; !token {
		return played == genuine
	}
	if p.tokens[played] == 0 {
		p.tokens[played] = genuine
	}
	return p.tokens[played] == genuine
}

package exhaust

import (
	"context"
	"flag"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/core/coretest"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

var (
	scopeFlag  = flag.String("scope", "", "a scope to search, as parse says")
	faultsFlag = flag.Uint("faults", 1, "how many faults happen in it at most")
	endsFlag   = flag.Uint("ends", 1, "how many contexts end in it at most")
	kindsFlag  = flag.Uint("kinds", every, "the kinds of faults, a sum")
	limitFlag  = flag.Int("limit", 100_000_000, "how many states are visited at most")
)

// small are the scopes that a plain go test searches.
var small = []struct {
	scope        string
	faults, ends uint8
}{
	{"1+1", 2, 2}, {"11", 2, 2}, {"1+R2", 2, 1}, {"2+1", 1, 1}, {"11+1", 1, 1}, {"1+1+R1", 1, 1}, {"1+1+1", 1, 0}, {"1t+1", 1, 0},
}

// TestScopes searches the small scopes, or that of the flags: go test -run Scopes -v -args -scope 11+1+R1 -faults 2 -ends 1.
func TestScopes(t *testing.T) {
	if *scopeFlag != "" {
		visit(t, *scopeFlag, uint8(*faultsFlag), uint8(*endsFlag))
		return
	}
	for _, c := range small {
		visit(t, c.scope, c.faults, c.ends)
	}
}

func visit(t *testing.T, name string, faults, ends uint8) {
	t.Helper()
	s := parse(name)
	s.faults, s.ends, s.kinds = faults, ends, kinds(*kindsFlag)
	began := time.Now()
	res := search(s, plant{}, *limitFlag, false)
	t.Logf("%s, %d faults, %d ends: %d states, %d inputs of scripts, %d overflows, whole %v, %v", name, faults, ends,
		res.States, res.Inputs, res.Overflows, res.Whole, time.Since(began).Round(time.Millisecond))
	for what, trace := range res.Broken {
		t.Errorf("%s, with %d faults and %d ends:\n%s", what, faults, ends, strings.Join(trace, "\n"))
	}
}

// TestPlantedBugs plants one bug at a time, each of which breaks a promise.
func TestPlantedBugs(t *testing.T) {
	for name, c := range map[string]struct {
		plant
		scope        string
		faults, ends uint8
		kinds        kinds
	}{
		"notAfter is ignored":   {edits("if left < 0 or left > 60000000 then", "if false then"), "1+1", 1, 1, late},
		"again is as new":       {edits("if ARGV[4] == 'new' then", "if ARGV[4] ~= 'try' then"), "1+1", 1, 1, twice},
		"a grant has no cap":    {edits("local term = math.min(lease, 3000)", "local term = lease"), "1+1", 1, 0, every},
		"the first is not told": {edits("if head[1] and (anyway or now - head[2] > 2e6) then", "if false then"), "1+1+1", 1, 0, every},
		"a release keeps its field": {edits(
			"redis.call('HDEL', KEYS[1], ARGV[1])", "redis.call('HEXISTS', KEYS[1], ARGV[1])",
			"elseif redis.call('EXISTS', KEYS[1]) == 0 then\ntoken, left", "elseif freed == 1 or redis.call('EXISTS', KEYS[1]) == 0 then\ntoken, left",
		), "1+1", 0, 0, 0},
		"a grant for nobody is ignored":       {plant{bugs: bugs{forgetGrants: true}}, "1+1", 1, 1, every},
		"a grant in a release is for nobody":  {plant{bugs: bugs{disownLeaving: true}}, "1+1", 0, 0, 0},
		"a turn is dropped":                   {plant{bugs: bugs{dropTurn: true}}, "11", 0, 1, 0},
		"new before it is subscribed":         {plant{bugs: bugs{newEarly: true}}, "1+1", 0, 0, 0},
		"an old grant is believed":            {plant{bugs: bugs{believeOld: true}}, "1+1", 1, 0, every},
		"any 9 has it wait":                   {plant{bugs: bugs{toldByAny: true}}, "1+1+R1", 0, 1, 0},
		"who becomes the first one sleeps on": {plant{bugs: bugs{keepPoll: true}}, "1+1+R1", 1, 1, lose},
		"a message doubles the poll":          {plant{bugs: bugs{doubleAny: true}}, "1+1+1+R1", 1, 0, pause},
		"a missing reply is forgotten":        {plant{bugs: bugs{forgetOpen: true}}, "1+1", 1, 0, late},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(c.scope)
			s.faults, s.ends, s.kinds = c.faults, c.ends, c.kinds
			res := search(s, c.plant, 10_000_000, true)
			if len(res.Broken) == 0 {
				t.Errorf("not found in %d states", res.States)
			}
			for what, trace := range res.Broken {
				t.Logf("%d states: %s:\n%s", res.States, what, strings.Join(trace, "\n"))
			}
		})
	}
}

func edits(texts ...string) plant { return plant{edits: texts} }

// TestArgumentsAreThoseOfCore compares the arguments of the commands here with what core sends.
func TestArgumentsAreThoseOfCore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.NewServer("redis", 1, simnet.NewTrace(io.Discard), simnet.Faults{Latency: time.Millisecond})
		d := &recorder{args: make(map[script][]string)}
		var err error
		d.Driver, err = net.NewLink("client").Open(driver.Config{CommandTimeout: time.Second})
		require.NoError(t, err)
		s := newServer([numbers + 1]uint8{}, func(text string) string { return text })
		c := coretest.Open(core.Config{ID: id(0), CommandTimeout: time.Second, WatchdogTimeout: lease * tick}, d)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				h, err := c.Acquire(context.Background(), core.Terms{Key: "lock"})
				require.NoError(t, err)
				time.Sleep(lease * tick)
				require.NoError(t, h.Unlock(context.Background()))
			})
		}
		all.Wait()
		c.Close(context.Background())
		for sort, cmd := range map[script]command{acquire: {left: soon}, release: {next: 2, left: soon}, renew: {}} {
			if cmd.number = 1; sort == renew {
				cmd.number = 2 // the last one of each sort
			}
			want := s.args(command{script: sort, number: cmd.number, next: cmd.next, left: cmd.left})
			got := d.args[sort][2:]
			require.Len(t, got, len(want))
			for i := range want {
				if !strings.HasPrefix(want[i], "17000") { // a moment
					require.Equal(t, want[i], got[i], "argument %d of script %d", i, sort)
				}
			}
		}
	})
}

// recorder notes the commands of each script.
type recorder struct {
	driver.Driver
	mu   sync.Mutex
	args map[script][]string
}

func (r *recorder) Run(ctx context.Context, at driver.Node, c wire.Call) wire.Reply {
	r.note(&c)
	return r.Driver.Run(ctx, at, c)
}

func (r *recorder) Pipe(ctx context.Context, at driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	for i := range calls {
		r.note(&calls[i])
	}
	r.Driver.Pipe(ctx, at, calls, acks, out)
}

func (r *recorder) note(c *wire.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for sort, name := range map[script]string{acquire: "acquire by turns", release: "release by turns", renew: "renew by turns"} {
		text := core.Scripts()[name]
		if c.Script == text && (sort == renew || r.args[sort] == nil) {
			r.args[sort] = simredis.Command(c, true)
		}
	}
}

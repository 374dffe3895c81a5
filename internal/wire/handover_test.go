package wire_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestHandOverScriptsInAnyOrder runs the commands of a client in a random order, late and repeatedly. Like a client, it sends a
// number's release with a tombstone if an earlier command with that number is in doubt.
func TestHandOverScriptsInAnyOrder(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, kind := range []string{"lock", "fenced", "write", "fenced write"} {
		fenced := strings.HasPrefix(kind, "fenced")
		suffix := map[string]string{"write": ":write", "fenced write": ":write"}[kind]
		for round := range 100 {
			name := fmt.Sprintf("{%s-%d}", kind, round)
			field := func(n int) string { return fmt.Sprintf("u:%d%s", n, suffix) }
			run := func(script string, args ...any) int64 {
				source, n := testkit.Script(kind, script)
				all := []string{name, name + ":token", name + ":tombstones"}
				if !fenced {
					all = []string{name, name + ":tombstones"}
				}
				keys := append([]string{}, all[:min(n, len(all)-1)]...)
				if script == "acquire" || script == "handOver" || script == "release" && args[1] != 0 {
					keys = append(keys, all[len(all)-1])
				}
				reply, err := rdb.Eval(context.Background(), source, keys, args...).Int64()
				require.NoError(t, err, "%s %v", script, args)
				return reply
			}
			var sent []func() // commands that may arrive again
			var log []string
			inDoubt := map[int]bool{} // numbers with a command that got no reply and may arrive again at any time
			send := func(what string, n int, f func()) {
				if inDoubt[n] {
					sent = append(sent, f)
				}
				log = append(log, fmt.Sprintf("%s(%v)", what, inDoubt[n]))
				f()
			}
			again := func() {
				for range random.IntN(3) {
					if len(sent) > 0 {
						i := random.IntN(len(sent))
						log = append(log, fmt.Sprintf("again %d", i))
						sent[i]()
					}
				}
			}
			acquire := func(n int) int64 {
				r := int64(-9)
				send(fmt.Sprint("acquire ", n), n, func() { r = run("acquire", field(n), 60000, n, "c", "PUBLISH", "", "") })
				return r
			}
			handOver := func(last, n int) int64 {
				r := int64(-9)
				send(fmt.Sprint("handOver ", last, " ", n), n, func() { r = run("handOver", field(n), 60000, n, field(last)) })
				return r
			}
			holder, next := 0, 1
			alive := map[int]bool{} // numbers that are not yet released, and may be holders
			release := func(n int) {
				delete(alive, n)
				lifetime := 0 // of the tombstone; zero means none
				if inDoubt[n] {
					lifetime = 120000
				}
				f := func() { run("release", field(n), lifetime, n, "c", "PUBLISH", "") }
				send(fmt.Sprint("release ", n), n, f)
				sent = append(sent, f) // a release may always be repeated
			}
			token := int64(-1)
			for range 40 {
				again()
				switch random.IntN(7) {
				case 0:
					n := next
					next++
					alive[n], inDoubt[n] = true, random.IntN(2) == 0
					if r := acquire(n); r >= 0 {
						require.Zero(t, holder, "%v", log)
						holder = n
						if fenced {
							require.Greater(t, r, token, "%v", log)
							token = r
						}
					}
				case 1, 2:
					n := next
					next++
					if holder == 0 || inDoubt[holder] {
						continue
					}
					alive[n], inDoubt[n] = true, random.IntN(2) == 0
					if inDoubt[n] && random.IntN(4) == 0 { // n gives up before the hand-over
						release(n)
						require.EqualValues(t, -2, handOver(holder, n), "%v", log)
						continue
					}
					last := holder
					r := handOver(last, n)
					require.GreaterOrEqual(t, r, int64(0), "%v", log)
					if fenced {
						require.Greater(t, r, token, "%v", log)
						token = r
					}
					holder = n
					if random.IntN(2) == 0 {
						release(last)
					}
					delete(alive, last)
				case 3:
					if holder != 0 {
						release(holder)
						holder = 0
					}
				case 4:
					for n := range alive { // one of the others gives up
						if n != holder {
							release(n)
							break
						}
					}
				case 5:
					if random.IntN(4) == 0 {
						// This is a force unlock. The client of the former holder writes a tombstone once it learns of the
						// loss. Until then a repeated command may restore that holder, so the test releases it at once.
						run("force", "", 0, 0, "c", "PUBLISH", "", "")
						if holder != 0 {
							release(holder)
							holder = 0
						}
					}
				case 6:
					if holder != 0 {
						run("count", field(holder), 60000, holder, "c", "PUBLISH", 2)
					}
				}
				fields, err := rdb.HGetAll(context.Background(), name).Result()
				require.NoError(t, err)
				delete(fields, "mode")
				require.LessOrEqual(t, len(fields), 1, "%v", log)
				for f := range fields {
					if holder != 0 {
						require.Equal(t, field(holder), f, "%v", log)
					} else { // a repeated command gave the lock to a number that still waits
						ok := false
						for n := range alive {
							if field(n) == f {
								ok, holder = true, n
							}
						}
						require.True(t, ok, "%s is not alive: %v", f, log)
					}
				}
				if len(fields) == 0 {
					require.Zero(t, holder, "%v", log)
				} else {
					require.Positive(t, rdb.PTTL(context.Background(), name).Val())
				}
			}
		}
	}
}

// TestATicketIsToldToThoseWhoKnowOfNoLine as a release is: once a writer is gone, all the threads of a process may read. Watchers know that
// it is no reason to pump.
func TestATicketIsToldToThoseWhoKnowOfNoLine(t *testing.T) {
	t.Parallel()
	onBothLines(t, func(l *line) {
		require.Zero(l, l.try("A1").N)
		base, n := l.others(1)[0], l.names(l.sort.plain, "A")
		last, _, _ := l.holder("A1")
		for number, tells := range []bool{false, true} {
			ticket, _, _ := l.holder(fmt.Sprintf("A%d", 8+number))
			require.Zero(l, l.run(ticket.Export(n, &last, term, tells)).N)
			l.hearsFree(base)
			last = ticket
		}
		watcher := l.subscribe(n.Base(), n.Twin())
		adopter, _, _ := l.holder("B1")
		require.Zero(l, l.run(adopter.Adopt(n, last.Field, term, true)).N)
		l.hearsFree(base)
		for _, message := range l.sort.free {
			l.hears(watcher, wire.Own)
			l.hears(watcher, message)
		}
	})
}

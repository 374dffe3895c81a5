//go:build unix

package cli

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

// TestTheWrongSortOfDeployment is refused with what to do, before anything else: one node of a cluster shows a part of its locks only.
func TestTheWrongSortOfDeployment(t *testing.T) {
	t.Parallel()
	cluster, single, sentinel := redistest.StartCluster(t), redistest.Start(t), redistest.StartSentinel(t)
	failover, _ := redistest.FailoverOptions(sentinel.Client(t))
	node := cluster.Options().Addrs[0]
	client := newClient(t, cluster.Client(t))
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		hold(t, client.NewLock(name))
	}
	for _, c := range []struct{ addr, flags, want string }{
		{node, "", node + " is a node of a cluster, so it has a part of the locks only: use --cluster"},
		{failover.SentinelAddrs[0], "", failover.SentinelAddrs[0] + " is a Sentinel, which has no locks: use --sentinel-master"},
		{single.Addr, "--sentinel-master m", "no server at m of " + single.Addr + " is a Sentinel: leave --sentinel-master out"},
		{single.Addr, "--cluster", "cluster " + single.Addr + " is no cluster: leave --cluster out"},
	} {
		for _, args := range []string{"ls --all", "ls --prefix a --json", "show a", "free a --yes", "run a -- echo ran", "ui --listen 127.0.0.1:0"} {
			words := strings.Fields(args)
			args := append(append([]string{words[0]}, strings.Fields(c.flags)...), append([]string{"--addr", c.addr}, words[1:]...)...)
			if words[0] == "run" {
				args = append([]string{"run", "a", "--addr", c.addr}, append(strings.Fields(c.flags), "--", "echo", "ran")...)
			}
			code, out, errs := command(t, "127.0.0.1:1", args...)
			require.Equal(t, exitUsage, code, "%v: %s", args, errs)
			require.Empty(t, out, args)
			require.Equal(t, "rlock: "+c.want+"\n", errs, args)
		}
	}
	code, out, errs := command(t, "127.0.0.1:1", "ls", "--all", "--cluster", "--addr", node)
	require.Zero(t, code, errs)
	require.Equal(t, 7, strings.Count(out, "\n"), out)
}

// TestAnOperatorWithFewRights is told of a cluster too: the question takes no right.
func TestAnOperatorWithFewRights(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	node := cluster.MasterOf(t, "a")
	rules := []any{"ACL", "SETUSER", "operator", "reset", "on", ">secret", "~*", "-@all", "+scan", "+time", "+type", "+eval", "+evalsha"}
	require.NoError(t, node.Client(t).Do(t.Context(), rules...).Err())
	code, _, errs := command(t, node.Addr, "ls", "--all", "--url", "redis://operator:secret@"+node.Addr)
	require.Equal(t, exitUsage, code, errs)
	require.Contains(t, errs, "is a node of a cluster")
}

// TestTakenByOthers says so in a sentence, and with --quiet says nothing: cron would send it. Failures are told nevertheless.
func TestTakenByOthers(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := newClient(t, rdb)
	hold(t, client.NewLock("taken"))
	hold(t, client.NewSemaphore("permits", rlock.Total(2)), rlock.Permits(2))
	code, _, errs := command(t, addr(rdb), "run", "kept", "--at-least", "1h", "--", "true")
	require.Zero(t, code, errs)
	for args, want := range map[string]string{
		"taken --wait 0":               `lock "taken" is taken, so the program has not run`,
		"kept --wait 0":                `lock "kept" is taken, so the program has not run`,
		"taken --wait 100ms":           `lock "taken" was taken for all of --wait 100ms, so the program has not run`,
		"permits --permits 2 --wait 0": `all permits of semaphore "permits" are taken, so the program has not run`,
	} {
		args := append([]string{"run"}, strings.Fields(args)...)
		code, out, errs := command(t, addr(rdb), append(args, "--", "echo", "ran")...)
		require.Equal(t, exitNotAcquired, code)
		require.Empty(t, out)
		require.Equal(t, "rlock: "+want+"\n", errs)
		code, out, errs = command(t, addr(rdb), append(args, "--quiet", "--", "echo", "ran")...)
		require.Equal(t, exitNotAcquired, code)
		require.Empty(t, out+errs)
		code, out, errs = command(t, addr(rdb), append(args, "-q", "-E", "0", "--", "echo", "ran")...)
		require.Zero(t, code)
		require.Empty(t, out+errs)
	}
	code, _, errs = command(t, "127.0.0.1:1", "run", "job", "-q", "-E", "0", "--wait", "0", "--timeout", "500ms", "--", "echo", "ran")
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, errs, `cannot take lock "job" at 127.0.0.1:1: `)
	require.Contains(t, errs, "connection refused")
	code, _, errs = command(t, addr(rdb), "run", "job", "-q", "--", "/none")
	require.Equal(t, exitNotFound, code)
	require.NotEmpty(t, errs)
	p := program.Start(t, addr(rdb), "run", "job", "-q", "--ttl", "2s", "--", "sh", "-c", "echo ready; exec sleep 100")
	p.Says("ready")
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	require.Equal(t, exitLost, p.Code())
	require.Contains(t, p.Errs.String(), `lock "job" was lost while the program ran: `)
}

// TestFailuresNameWhatWasAskedOfWhom, and none takes longer than --timeout says.
func TestFailuresNameWhatWasAskedOfWhom(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	silent := redistest.NewProxy(t, server.Addr)
	silent.Freeze()
	secure := redistest.NewCA(t).Start(t)
	require.NoError(t, server.Client(t).Do(t.Context(), "ACL", "SETUSER", "poor", "on", ">secret", "~*", "-@all").Err())
	for flags, c := range map[string]struct {
		code int
		who  string
		why  string
	}{
		"--url rediss://" + server.Addr:             {exitUnavailable, server.Addr, "no TLS handshake within 1s; a server without TLS has a URL with redis://"},
		"--addr 127.0.0.1:1":                        {exitUnavailable, "127.0.0.1:1", "connection refused"},
		"--addr " + silent.Addr:                     {exitUnavailable, silent.Addr, "no answer within 1s"},
		"--addr " + silent.Addr + " --cluster":      {exitUnavailable, "cluster " + silent.Addr, "no answer within 1s"},
		"--addr " + secure.TLSAddr:                  {exitUnavailable, secure.TLSAddr, "TLS"},
		"--url redis://nobody:wrong@" + server.Addr: {exitFailed, server.Addr, "WRONGPASS"},
		"--url redis://poor:secret@" + server.Addr:  {exitFailed, server.Addr, "NOPERM"},
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			for args, what := range map[string]string{
				"ls --all": "list the locks", "show a": `show lock "a"`, "free a": `free lock "a"`, "doctor": "check Redis",
				"run a --wait 0": `take lock "a"`, "run a --permits 1 --wait 100ms": `take a permit of semaphore "a"`,
			} {
				args := append(strings.Fields(args), append(strings.Fields(flags), "--timeout", "1s")...)
				if args[0] == "run" {
					args = append(args, "--", "echo", "ran")
				}
				passed := redistest.Stopwatch(t)
				code, out, errs := command(t, "127.0.0.1:1", args...)
				// Also on a busy machine, that is less than what a client of Redis takes by itself.
				require.Less(t, passed(), 15*time.Second, args)
				if args[0] == "doctor" && c.code == exitFailed { // it has codes of its own for what Redis denies, and findings
					require.NotZero(t, code, args)
					continue
				}
				require.Equal(t, c.code, code, "%v: %s", args, errs)
				require.Empty(t, out, args)
				lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n") // the library may have warned of a right before
				errs = lines[len(lines)-1]
				require.True(t, strings.HasPrefix(errs, "rlock: cannot "+what+" at "+c.who+": "), "%v: %s", args, errs)
				require.Contains(t, errs, c.why, args)
				if c.why == "NOPERM" {
					require.Regexp(t, `See https://\S+/(docs/guide/operating.md#the-command|SECURITY.md#what-rlock-needs-of-redis)\n?$`, errs, args)
				}
			}
		})
	}
}

// TestWrongArguments are told in words of this command, and not of its library.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"show":                                 `NAME is missing: rlock show NAME`,
		"show a b":                             `"b" is one argument too many: rlock show NAME`,
		"free":                                 `NAME is missing: rlock free NAME`,
		"ls --all more":                        `"more" is one argument too many: rlock ls (--prefix P | --all)`,
		"ls":                                   `say which locks: --prefix P, or --all`,
		"ls --all --prefix x":                  `--prefix and --all cannot be used together`,
		"lss":                                  `there is no command "lss"; do you mean "ls"? See rlock --help`,
		"no-such-command":                      `there is no command "no-such-command". See rlock --help`,
		"help no-such-command":                 `there is no command "no-such-command". See rlock --help`,
		"completion tcsh":                      `"tcsh" is none of bash, fish, powershell and zsh. See rlock completion --help`,
		"completion bash x":                    `"x" is one argument too many: rlock completion bash`,
		"show --none":                          `show has no flag --none. See rlock show --help`,
		"show -x":                              `show has no flag -x. See rlock show --help`,
		"--none":                               `rlock has no flag --none. See rlock --help`,
		"ls --prefix":                          `--prefix needs a value. See rlock ls --help`,
		"run":                                  `NAME is missing: rlock run NAME -- COMMAND [ARGUMENT...]`,
		"run a":                                `COMMAND is missing: rlock run NAME -- COMMAND [ARGUMENT...]`,
		"run a --ttl soon -- true":             `--ttl is "soon", which is no duration such as 10s. See rlock run --help`,
		"run a --ttl 1ms -- true":              `--ttl is 1ms, less than 100ms`,
		"run a --ttl 1000000h -- true":         `--ttl is 1000000h0m0s, more than 100 years`,
		"run a --at-least 1ns -- true":         `--at-least is 1ns, less than 1ms`,
		"run a --at-least 1000000h -- true":    `--at-least is 1000000h0m0s, more than 100 years`,
		"run a --permits 3000000000 -- true":   `--permits is 3000000000, more than 2147483647`,
		"run a --permits 0 -- true":            `--permits is 0, less than 1`,
		"run a --wait soon -- true":            `--wait is "soon", neither a duration such as 10s nor forever`,
		"run a -E x -- true":                   `--conflict-exit-code is "x", which is no whole number. See rlock run --help`,
		"run a --cluster=maybe -- true":        `--cluster is "maybe", which is neither true nor false. See rlock run --help`,
		"run a --fair --permits 2 -- true":     `--fair and --permits cannot be used together`,
		"run a --at-least 1s --permits 2 -- x": `--at-least and --permits cannot be used together`,
		"ui --listen nowhere":                  `--listen is "nowhere": missing port in address`,
	} {
		code, out, errs := command(t, "127.0.0.1:1", strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args+": "+errs)
		require.Empty(t, out, args)
		require.Equal(t, "rlock: "+want+"\n", errs, args)
	}
	for _, args := range [][]string{{"show", ""}, {"free", ""}, {"run", "", "--", "true"}} {
		code, _, errs := command(t, "127.0.0.1:1", args...)
		require.Equal(t, exitUsage, code, args)
		require.Equal(t, "rlock: NAME is empty\n", errs, args)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	code, _, errs := command(t, redistest.Start(t).Addr, "ui", "--listen", taken.Addr().String())
	require.Equal(t, exitUsage, code)
	require.Equal(t, "rlock: --listen is \""+taken.Addr().String()+"\": address already in use\n", errs)
}

// TestNotHeld says so of the lock, not of its name.
func TestNotHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, args := range [][]string{{"show", "nothing"}, {"free", "nothing"}, {"free", "nothing", "--yes", "--if-holder", "a:1"}} {
		code, out, errs := command(t, server.Addr, args...)
		require.Equal(t, exitNo, code)
		require.Empty(t, out)
		require.Equal(t, "rlock: lock \"nothing\" is not held\n", errs)
	}
}

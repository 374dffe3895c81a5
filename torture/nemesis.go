package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// nemesis does one bad thing, ends it, and says what it was. What is safe lasts for less than a third of the watchdog's
// lease, so that no lock that is renewed may be lost by it.
type nemesis func(a *Arena, r *rand.Rand, e *Event)

// Of the nemeses up to N11, and of N13, N16, N20 to N22, none may let two owners in, and none but N13 may lose anybody a lock.
const (
	n1Close       = "N1 close"
	n2Drop        = "N2 drop replies"
	n3Swallow     = "N3 swallow replies"
	n4Delay       = "N4 delay"
	n4Hold        = "N4 hold requests"
	n4HoldPassing = "N4 hold hand-overs"
	n5BlackHole   = "N5 black hole"
	n6Split       = "N6 split"
	n7Flush       = "N7 script flush"
	n8KillAll     = "N8 client kill"
	n8KillPubSub  = "N8 client kill pubsub"
	n9Pause       = "N9 client pause"
	n10Busy       = "N10 busy"
	n11Stop       = "N11 stop server"
	n12Restart    = "N12 restart"
	n12Minority   = "N12 restart two of five"
	n13StopChild  = "N13 stop process"
	n13KillChild  = "N13 kill process"
	n14Failover   = "N14 failover"
	n14Die        = "N14 master dies"
	n14Hang       = "N14 master hangs"
	n15Lossy      = "N15 lossy failover"
	n16Move       = "N16 move slot"
	n17OOM        = "N17 out of memory"
	n17Evict      = "N17 eviction"
	n18Clock      = "N18 clock"
	n19FlushAll   = "N19 flush all"
	n19Delete     = "N19 delete"
	n19Steal      = "N19 steal"
	n19Force      = "N19 unlock by force"
	n20ACL        = "N20 rights"
	n21Starve     = "N21 busy pool"
	n22Replicas   = "N22 min-replicas"
	n22MaxClients = "N22 maxclients"
)

var nemeses = map[string]nemesis{
	n1Close:       closeAll,
	n2Drop:        drop,
	n3Swallow:     swallow,
	n4Delay:       delay,
	n4Hold:        holdRequests,
	n4HoldPassing: holdPassing,
	n5BlackHole:   blackHole,
	n6Split:       split,
	n7Flush:       scriptFlush,
	n8KillAll:     func(a *Arena, r *rand.Rand, e *Event) { a.clientKill(r, e, "normal", 1) },
	n8KillPubSub:  func(a *Arena, r *rand.Rand, e *Event) { a.clientKill(r, e, "pubsub", 40) },
	n9Pause:       clientPause,
	n10Busy:       busy,
	n11Stop:       stopServer,
	n12Restart:    func(a *Arena, r *rand.Rand, e *Event) { a.restart(r, e, 1) },
	n12Minority:   func(a *Arena, r *rand.Rand, e *Event) { a.restart(r, e, 2) },
	n13StopChild:  stopChild,
	n13KillChild:  killChild,
	n14Failover:   failover,
	n14Die:        func(a *Arena, r *rand.Rand, e *Event) { a.masterGoes(r, e, true) },
	n14Hang:       func(a *Arena, r *rand.Rand, e *Event) { a.masterGoes(r, e, false) },
	n15Lossy:      lossy,
	n16Move:       moveSlot,
	n17OOM:        func(a *Arena, r *rand.Rand, e *Event) { a.memory(r, e, "noeviction") },
	n17Evict:      func(a *Arena, r *rand.Rand, e *Event) { a.memory(r, e, "volatile-lru") },
	n18Clock:      setClock,
	n19FlushAll:   flushAll,
	n19Delete:     func(a *Arena, r *rand.Rand, e *Event) { a.takeAway(r, e, false) },
	n19Steal:      func(a *Arena, r *rand.Rand, e *Event) { a.takeAway(r, e, true) },
	n19Force:      force,
	n20ACL:        rights,
	n21Starve:     starve,
	n22Replicas:   minReplicas,
	n22MaxClients: maxClients,
}

// short is for how long a safe nemesis may go on.
func short(r *rand.Rand) time.Duration {
	return 50*time.Millisecond + time.Duration(r.Int64N(int64(600*time.Millisecond)))
}

func wait(d time.Duration) { pause(context.Background(), d) }

// master picks one of the nodes that take writes.
func (a *Arena) master(r *rand.Rand) (*redistest.Server, *redis.Client) {
	a.tb.Helper()
	var masters []*redistest.Server
	a.eventually("there is a master", func() bool {
		masters = a.masters()
		return len(masters) > 0
	})
	node := masters[r.IntN(len(masters))]
	return node, a.admins[node]
}

func script(c redistest.Command) bool { return c[0] == "evalsha" || c[0] == "eval" }

func every(redistest.Command) bool { return true }

func closeAll(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	n := 1 + r.IntN(5)
	for range n {
		node.Proxy.CloseAll()
		wait(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	e.What = fmt.Sprintf("%d times", n)
}

func drop(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	n := 1 + r.IntN(30)
	f := node.Proxy.DropReply(n, script)
	wait(short(r))
	f.Release()
	e.What = fmt.Sprint("up to ", n)
}

func swallow(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	n := 1 + r.IntN(8)
	f := node.Proxy.SwallowReply(n, script)
	wait(short(r))
	f.Release()
	e.What = fmt.Sprint("up to ", n)
}

func delay(a *Arena, r *rand.Rand, e *Event) {
	d := time.Duration(r.Int64N(int64(shortLease * 12 / 10)))
	node, _ := a.master(r)
	node.Proxy.Delay(d)
	wait(short(r))
	node.Proxy.Delay(0)
	e.What = fmt.Sprint("replies by ", d)
}

// acquires tells whether a command takes a lock: of all scripts these have seven arguments.
func acquires(c redistest.Command) bool {
	if !script(c) {
		return false
	}
	keys, err := strconv.Atoi(c[2])
	return err == nil && len(c)-3-keys == 7
}

// holdRequests lets requests for locks arrive when whoever sent them has given them up.
func holdRequests(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	n := 8 + r.IntN(24)
	f := node.Proxy.HoldRequest(n, acquires)
	wait(readTimeout + short(r)/2)
	f.Release()
	e.What = fmt.Sprintf("%d of up to %d", len(f.Met()), n)
}

// passes tells whether a command hands a lock over: it has no wait, which every acquire has.
func passes(c redistest.Command) bool { return acquires(c) && c[len(c)-2] == "" }

// holdPassing lets hand-overs arrive when some of those who are to get the lock have left.
func holdPassing(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	f := node.Proxy.HoldRequest(-1, passes)
	wait(readTimeout + short(r))
	f.Release()
	e.What = fmt.Sprintf("%d of them", len(f.Met()))
}

func blackHole(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	if e.What = "both ways"; r.IntN(2) == 0 {
		node.Proxy.Freeze()
		wait(short(r))
		node.Proxy.Thaw()
		return
	}
	e.What = "of replies"
	f := node.Proxy.SwallowReply(-1, every)
	wait(short(r))
	f.Release()
}

func split(a *Arena, r *rand.Rand, e *Event) {
	d := time.Duration(1+r.IntN(30)) * time.Millisecond
	node, _ := a.master(r)
	node.Proxy.Split(d)
	wait(short(r))
	node.Proxy.Split(0)
	e.What = fmt.Sprint("what the server says, ", d, " apart")
}

func scriptFlush(a *Arena, r *rand.Rand, _ *Event) {
	for range 1 + r.IntN(25) {
		_, admin := a.master(r)
		_ = admin.ScriptFlush(context.Background()).Err()
		wait(20 * time.Millisecond)
	}
}

func (a *Arena) clientKill(r *rand.Rand, e *Event, kind string, times int) {
	for range times {
		for _, node := range a.masters() {
			_ = a.admins[node].Do(context.Background(), "client", "kill", "type", kind, "skipme", "yes").Err()
		}
		wait(time.Duration(40+r.IntN(20)) * time.Millisecond)
	}
	e.What = fmt.Sprintf("%d times", times)
}

func clientPause(a *Arena, r *rand.Rand, e *Event) {
	d := short(r)
	_, admin := a.master(r)
	mode := []string{"write", "all"}[r.IntN(2)]
	_ = admin.Do(context.Background(), "client", "pause", d.Milliseconds(), mode).Err()
	wait(d)
	e.What = mode
}

func busy(a *Arena, r *rand.Rand, e *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	d := short(r)
	if e.What = "debug sleep"; r.IntN(2) == 0 {
		_ = admin.Do(ctx, "debug", "sleep", d.Seconds()).Err()
		return
	}
	e.What = "script"
	_ = admin.ConfigSet(ctx, "busy-reply-threshold", "50").Err()
	_ = admin.Eval(ctx, `
		local function ms() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
		local until_ = ms() + ARGV[1]
		while ms() < until_ do end`, nil, d.Milliseconds()).Err()
	_ = admin.ConfigSet(ctx, "busy-reply-threshold", "5000").Err()
}

func stopServer(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	d := short(r)
	node.Pause()
	wait(d)
	node.Resume()
	e.What = fmt.Sprint("for ", d)
}

func (a *Arena) restart(r *rand.Rand, e *Event, nodes int) {
	first, d := r.IntN(len(a.nodes)), short(r)
	for i := range nodes {
		a.nodes[(first+i)%len(a.nodes)].Kill()
	}
	wait(d)
	for i := range nodes {
		a.nodes[(first+i)%len(a.nodes)].Run()
	}
	e.What = fmt.Sprintf("of %d, empty, after %v", nodes, d)
}

func stopChild(a *Arena, r *rand.Rand, e *Event) {
	c := a.children[r.IntN(len(a.children))]
	d := time.Duration(r.Int64N(int64(watchdogTimeout * 3 / 2)))
	e.Site = c.site.Name
	c.signal(syscall.SIGSTOP)
	wait(d)
	c.signal(syscall.SIGCONT)
	// Its timers have run out: what it lost, it hears of now.
	e.To = now().add(watchdogTimeout)
	e.What = fmt.Sprintf("%s for %v", c.site.Name, d)
}

// killChild kills a process and starts another in its place.
func killChild(a *Arena, r *rand.Rand, e *Event) {
	i := r.IntN(len(a.children))
	c := a.children[i]
	e.Site, e.Killed, e.What = c.site.Name, true, c.site.Name
	c.kill()
	e.To = now()
	a.children = append(a.children[:i], a.children[i+1:]...)
	wait(short(r))
	a.bear(c.site.Form)
}

// failover is one that the operator asks for: the old master hands over.
func failover(a *Arena, r *rand.Rand, e *Event) {
	ctx := context.Background()
	defer a.healthy()
	if a.sentinel != nil {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: a.place.Addrs[0]})
		defer func() { _ = rdb.Close() }()
		before := a.masters()
		_ = rdb.Failover(ctx, a.place.Master).Err()
		a.eventually("another master", func() bool {
			masters := a.masters()
			return len(masters) == 1 && masters[0] != before[0]
		})
		return
	}
	master, _ := a.master(r)
	replica := a.cluster.ReplicaOf(a.tb, master)
	how := []string{"cluster", "failover"}
	if r.IntN(2) == 0 {
		how = append(how, "takeover")
	}
	e.What = strings.Join(how, " ")
	args := make([]any, len(how))
	for i := range how {
		args[i] = how[i]
	}
	_ = a.admins[replica].Do(ctx, args...).Err()
	a.eventually("another master", func() bool {
		return strings.Contains(a.admins[replica].Info(ctx, "replication").Val(), "role:master")
	})
}

func (a *Arena) eventually(what string, condition func() bool) {
	a.tb.Helper()
	redistest.EventuallyWithin(a.tb, 60*time.Second, what, condition)
}

// masterGoes kills or stops a master until another has its place.
func (a *Arena) masterGoes(r *rand.Rand, e *Event, dies bool) {
	node, _ := a.master(r)
	if dies {
		node.Kill()
	} else {
		node.Pause()
	}
	a.replaced(node)
	e.What = fmt.Sprintf("another is there after %v", now().sub(e.From))
	if dies {
		node.Run()
	} else {
		node.Resume()
	}
	a.healthy()
}

// replaced waits until as many masters as there should be are at work without one.
func (a *Arena) replaced(node *redistest.Server) {
	a.tb.Helper()
	want := 1
	if a.cluster != nil {
		want = 3
	}
	a.eventually("another master", func() bool {
		masters := a.masters()
		return len(masters) == want && !slices.Contains(masters, node)
	})
}

// lossy kills a master that no longer reaches its replicas: what was locked since is forgotten.
func lossy(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	f := node.Proxy.SwallowReply(-1, redistest.Named("replconf")) // replicas send one a second
	wait(1500 * time.Millisecond)
	node.Kill()
	e.What = fmt.Sprintf("of what happened in %v", now().sub(e.From))
	f.Release()
	a.replaced(node)
	node.Run()
	a.healthy()
}

func moveSlot(a *Arena, r *rand.Rand, e *Event) {
	share := a.scene.Mix[r.IntN(len(a.scene.Mix))]
	name := share.Names[r.IntN(len(share.Names))]
	a.cluster.MoveSlot(a.tb, name)
	e.What = "of " + name
}

// memory has Redis be out of memory for a moment.
func (a *Arena) memory(r *rand.Rand, e *Event, policy string) {
	ctx := context.Background()
	_, admin := a.master(r)
	_ = admin.ConfigSet(ctx, "maxmemory-policy", policy).Err()
	_ = admin.ConfigSet(ctx, "maxmemory", "1").Err()
	wait(short(r))
	_ = admin.ConfigSet(ctx, "maxmemory", "0").Err()
	e.What = policy
}

// setClock puts the server's clock forward or back, and later right again.
func setClock(a *Arena, r *rand.Rand, e *Event) {
	ahead := time.Duration(r.IntN(21)-10) * time.Second
	a.clock.Set(ahead)
	wait(short(r))
	a.clock.Set(0)
	e.What = fmt.Sprint("set by ", ahead)
}

func flushAll(a *Arena, _ *rand.Rand, _ *Event) {
	for _, node := range a.masters() {
		_ = a.admins[node].FlushAll(context.Background()).Err()
	}
}

// takeAway takes a lock from its keeper, who must notice.
func (a *Arena) takeAway(r *rand.Rand, e *Event, steal bool) {
	ctx := context.Background()
	name := a.keeps(r)
	_, admin := a.master(r)
	if admin.Exists(ctx, name).Val() == 0 {
		e.What = name + ", which nobody held"
		return
	}
	// At once, so that its keeper cannot come between.
	admin.Eval(ctx, `redis.call('DEL', KEYS[1])
		if ARGV[1] == '1' then redis.call('HSET', KEYS[1], 'f0000000-0000-4000-8000-000000000000:1', 1) redis.call('PEXPIRE', KEYS[1], 8000) end`,
		[]string{name}, steal)
	e.From, e.Lost, e.What = now(), name, name
	wait(noticed)
}

// force unlocks a lock of one keeper by force, through a client that is his or another's.
func force(a *Arena, r *rand.Rand, e *Event) {
	name := a.keeps(r)
	by := a.sites[r.IntN(len(a.sites))]
	from := now()
	if freed, err := by.clients[0].NewLock(name).ForceUnlock(context.Background()); err != nil || !freed {
		e.What = name + ", in vain"
		return
	}
	e.From, e.Lost, e.What = from, name, fmt.Sprint(name, " by ", by.Name)
	wait(noticed)
}

// keeps returns the name of one of the plain locks that are kept.
func (a *Arena) keeps(r *rand.Rand) string {
	return fmt.Sprintf("keep-%s-%d", a.sites[r.IntN(len(a.sites))].Name, 4*r.IntN(a.scene.Keepers/4))
}

// noticed is within what the keeper of a lock notices that it was taken from him: the next renewal, and a noisy machine.
const noticed = watchdogTimeout/3 + 600*time.Millisecond

// rights takes the right to run scripts, or to announce and to listen, from the user that all clients are.
func rights(a *Arena, r *rand.Rand, e *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	what := [][]any{{"-evalsha", "-eval"}, {"-publish"}, {"resetchannels"}}[r.IntN(3)]
	_ = admin.Do(ctx, append([]any{"acl", "setuser", "default"}, what...)...).Err()
	wait(short(r))
	_ = admin.Do(ctx, "acl", "setuser", "default", "+@all", "allchannels").Err()
	e.What = fmt.Sprint(what...)
}

// starve keeps every connection of a site's pool in a blocking command.
func starve(a *Arena, r *rand.Rand, _ *Event) {
	rdbs := a.sites[r.IntN(len(a.sites))].rdbs
	rdb := rdbs[r.IntN(len(rdbs))]
	ctx, cancel := context.WithTimeout(context.Background(), short(r))
	defer cancel()
	var wg sync.WaitGroup
	for range 2 * poolSize {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = rdb.BLPop(ctx, 100*time.Millisecond, "nothing").Err()
			}
		})
	}
	wg.Wait()
}

func minReplicas(a *Arena, r *rand.Rand, _ *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	_ = admin.ConfigSet(ctx, "min-replicas-to-write", "3").Err()
	wait(short(r))
	_ = admin.ConfigSet(ctx, "min-replicas-to-write", "0").Err()
}

// maxClients breaks the connections and lets few be opened again.
func maxClients(a *Arena, r *rand.Rand, _ *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	conn := admin.Conn() // one that stays
	defer func() { _ = conn.Close() }()
	_ = conn.ConfigSet(ctx, "maxclients", "12").Err()
	_ = conn.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err()
	wait(short(r))
	_ = conn.ConfigSet(ctx, "maxclients", "10000").Err()
}

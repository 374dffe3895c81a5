package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Check describes one check.
type Check struct {
	ID    string // short and stable
	Code  int    // the exit code of its problems and, with [Options.Strict], of its warnings
	Finds string // what it finds, for people
	Page  string // the document that explains it
}

// Checks returns all checks, the one with the worst problems first.
func Checks() []Check {
	all := make([]Check, len(checks))
	for i, c := range checks {
		all[i] = c.Check
	}
	return all
}

type check struct {
	Check

	fine    string                 // the text if nothing is found
	applies func(*deployment) bool // nil means to every deployment
	examine func(context.Context, *deployment) []Finding
}

// The documents, with the section that explains a finding.
const (
	failurePage  = "docs/reliability.md#states-of-servers-and-topologies"
	leasePage    = "docs/reliability.md#leases-and-the-watchdog"
	figuresPage  = "docs/reliability.md#figures"
	groupsPage   = "docs/reliability.md#fair-read-write-multi-and-red-locks"
	promisePage  = "docs/guide/limits.md#what-rlock-does-not-promise"
	installPage  = "docs/guide/quickstart.md#install"
	kindsPage    = "docs/guide/choosing.md#which-lock"
	tokensPage   = "docs/guide/fencing.md#can-tokens-go-back"
	serversPage  = "docs/servers.md#differences"
	needsPage    = "docs/servers.md#what-rlock-needs-of-a-server"
	triedPage    = "docs/servers.md#servers-that-we-have-tried"
	rightsPage   = "SECURITY.md#what-rlock-needs-of-redis"
	redissonPage = "docs/interop.md#what-to-set"
)

// checks has the worst problems first, because the first problem is the exit code.
var checks = []check{
	{
		Check: Check{"reach", 10, "servers of a cluster that do not reply", failurePage},
		fine:  "All servers reply.", examine: reach,
	},
	{
		Check: Check{"role", 11, "a replica, a Sentinel or one node of a cluster where the services expect a master", failurePage},
		fine:  "The services reach masters.", examine: role,
	},
	{
		Check: Check{"version", 12, "servers that are too old for rlock, or that nobody has tried with it", triedPage},
		fine:  "rlock runs on this version.", examine: version,
	},
	{
		Check: Check{"rights", 13, "rights that the user lacks", rightsPage},
		fine:  "The user has all rights that locks need.", examine: rights,
	},
	{
		Check:   Check{"try", 26, "with --try: features of rlock that do not work here, or not as well as they should", needsPage}, // which came last
		applies: func(d *deployment) bool { return d.opts.Try }, examine: try,
	},
	{
		Check: Check{"eviction", 14, "a policy by which Redis drops held locks when memory is short", promisePage},
		fine:  "Redis evicts nothing (noeviction).", examine: eviction,
	},
	{
		Check: Check{"memory", 15, "a master that is out of memory, or nearly", failurePage},
		fine:  "Redis has memory left for new locks.", examine: memory,
	},
	{
		Check: Check{"writes", 25, "a server that refuses all writes because it cannot save its data", failurePage}, // which came last
		fine:  "No failed save makes Redis refuse writes (MISCONF).", examine: writes,
	},
	{
		Check: Check{"slots", 16, "slots of a cluster that are not served, or that move", promisePage},
		fine:  "All slots are served, and none moves.", applies: (*deployment).isCluster, examine: slots,
	},
	{
		Check: Check{"clock", 17, "clocks of servers that differ from one another, or from this machine's", promisePage},
		fine:  "The clocks agree.", examine: clocks,
	},
	{
		Check: Check{"acks", 18, "too few replicas for WithReplicaAcks", promisePage},
		fine:  "Enough replicas can acknowledge.", examine: acks,
	},
	{
		Check: Check{"demotion", 19, "a master that would accept renewals after its demotion, or that refuses all writes", leasePage},
		fine:  "A master without replicas soon refuses renewals (min-replicas-to-write).", applies: (*deployment).isGuarded, examine: demotion,
	},
	{
		Check: Check{"replicas", 20, "masters without replicas, and replicas that are behind", figuresPage},
		fine:  "The replicas are up to date.", examine: replicas,
	},
	{
		Check: Check{"persistence", 21, "a member of red locks that forgets them when it restarts", kindsPage},
		fine:  "Redis persists every write (appendfsync always).", applies: func(d *deployment) bool { return d.opts.RedLock },
		examine: persistence,
	},
	{
		Check: Check{"sharded", 22, "servers of a cluster without sharded pub/sub, or clients that do not agree about it", redissonPage},
		fine:  "All masters have sharded pub/sub.", applies: (*deployment).isCluster, examine: sharded,
	},
	{
		Check: Check{"tokens", 23, "fencing tokens that pile up", tokensPage},
		fine:  "There are few fencing tokens.", examine: tokens,
	},
	{
		Check: Check{"leases", 24, "locks without a lease, which nothing but a waiter frees", failurePage},
		fine:  "All locks that were seen have leases.", examine: leases,
	},
}

// run examines, and tells of the findings, those of a try as they come.
func (c *check) run(ctx context.Context, d *deployment) (all []Finding) {
	d.tell = func(f Finding) {
		f.Check, f.Code, f.Page = c.ID, c.Code, cmp.Or(f.Page, c.Page)
		all = append(all, f)
		if d.opts.Found != nil {
			d.opts.Found(f)
		}
	}
	found := d.merged(c.examine(ctx, d))
	if len(found)+len(all) == 0 {
		found = []Finding{{Level: OK, Text: c.fine}}
	}
	if context.Cause(ctx) == nil { // otherwise the commands failed for that reason, so they say nothing about Redis
		for _, f := range found {
			d.tell(f)
		}
	}
	return all
}

// merged joins findings that are the same for all nodes of a cluster, or for all of its masters, into one.
func (d *deployment) merged(all []Finding) (kept []Finding) {
	for _, f := range all {
		said := make(map[string]bool)
		for _, other := range all {
			if other.Text == f.Text && other.Node != "" {
				said[other.Node] = true
			}
		}
		for _, group := range [][]*node{d.nodes, d.masters()} {
			if len(group) > 1 && len(said) == len(group) && !slices.ContainsFunc(group, func(n *node) bool { return !said[n.addr] }) {
				f.Node = ""
			}
		}
		if !slices.Contains(kept, f) {
			kept = append(kept, f)
		}
	}
	return kept
}

// found makes a finding about a node, or about all if that is nil.
func found(n *node, level Level, format string, args ...any) Finding {
	f := Finding{Level: level, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		f.Node = n.addr
	}
	return f
}

// at sets another page than that of the check.
func (f Finding) at(page string) Finding {
	f.Page = page
	return f
}

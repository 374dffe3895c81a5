package simnet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// redirects is how often a call follows a redirection.
const redirects = 3

// Driver sends rlock's commands over links.
type Driver struct {
	routes   *routes
	cfg      driver.Config
	sentinel bool
}

// Open makes a driver for one server, for [driver.Attach].
func (l *Link) Open(cfg driver.Config) (driver.Driver, error) {
	return &Driver{&routes{links: []*Link{l}, master: l}, cfg, false}, nil
}

// Open makes a driver for all servers of the group, given the links to them, for [driver.Attach]. Outside clusters, sentinel says whether the
// process is told by Sentinels who is the master, or finds the master by a name.
func (g *Group) Open(links []*Link, sentinel bool) driver.Open {
	return func(cfg driver.Config) (driver.Driver, error) {
		r := &routes{links: links, cluster: g.cluster, timeout: cfg.CommandTimeout}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.known = append(g.known, r)
		if !g.cluster {
			r.learn(g.master)
		}
		return &Driver{r, cfg, sentinel}, nil
	}
}

// Info implements [driver.Driver].
func (d *Driver) Info() driver.Info {
	info := driver.Share(d.cfg, cmp.Or(d.routes.links[0].server.faults.Load().Pool, 10), 0)
	info.Bounded, info.Cluster, info.Sentinel = true, d.routes.cluster, d.sentinel && !d.routes.cluster
	return info
}

// Node implements [driver.Driver].
func (d *Driver) Node(_ context.Context, key string) (driver.Node, *fault.Error) {
	if !d.routes.cluster {
		return nil, nil //nolint:nilnil // there is one server
	}
	l, err := d.routes.of(key)
	if err != nil {
		return nil, err
	}
	return node{l}, nil
}

// Refresh implements [driver.Driver].
func (d *Driver) Refresh() { d.routes.refresh(refreshPause) }

// Close implements [driver.Driver].
func (d *Driver) Close(context.Context) {}

// Run implements [driver.Driver].
func (d *Driver) Run(_ context.Context, at driver.Node, c wire.Call) wire.Reply {
	out := make([]wire.Reply, 1)
	d.pipe(at, []wire.Call{c}, nil, out)
	return out[0]
}

// Pipe implements [driver.Driver].
func (d *Driver) Pipe(_ context.Context, at driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	d.pipe(at, calls, acks, out)
}

// parcel is calls that go to one server together.
type parcel struct {
	to      *Link
	indexes []int
	full    bool // with the texts of their scripts
	asked   bool // see [request]
}

// parcels adds a call to those that go the same way.
type parcels []*parcel

func (p *parcels) add(to *Link, index int, full, asked bool) {
	for _, one := range *p {
		if one.to == to && one.full == full && one.asked == asked {
			one.indexes = append(one.indexes, index)
			return
		}
	}
	*p = append(*p, &parcel{to, []int{index}, full, asked})
}

func (d *Driver) pipe(at driver.Node, calls []wire.Call, acks *driver.Acks, out []wire.Reply) {
	sent := time.Now()
	tell := d.routes.links[0].witnessed(calls)
	var next parcels
	for i := range calls {
		if n, ok := at.(node); ok {
			next.add(n.Link, i, false, false)
		} else if l, err := d.routes.of(calls[i].Key()); err == nil {
			next.add(l, i, false, false)
		} else {
			out[i] = driver.Failed(err)
		}
	}
	for round := 0; len(next) > 0; round++ {
		next = d.sendAll(next, calls, acks, out, at == nil && round < redirects)
	}
	for i := range out {
		out[i].Took = time.Since(sent)
	}
	tell(out)
}

// sendAll sends parcels at the same time. It returns those that are to be sent now, because a script is not known, or keys are elsewhere.
func (d *Driver) sendAll(all parcels, calls []wire.Call, acks *driver.Acks, out []wire.Reply, follow bool) (next parcels) {
	if len(all) == 1 {
		d.sendOne(all[0], calls, acks, out, follow, &next)
		return next
	}
	nexts := make([]parcels, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			d.sendOne(p, calls, acks, out, follow, &nexts[i])
		})
	}
	wg.Wait()
	for i := range nexts {
		for _, n := range nexts[i] {
			for _, index := range n.indexes {
				next.add(n.to, index, n.full, n.asked)
			}
		}
	}
	return next
}

// sendOne sends a parcel.
func (d *Driver) sendOne(p *parcel, calls []wire.Call, acks *driver.Acks, out []wire.Reply, follow bool, next *parcels) {
	cmds := make([][]string, len(p.indexes))
	for i, at := range p.indexes {
		cmds[i] = simredis.Command(&calls[at], p.full)
	}
	replies, err := p.to.send(request{cmds: cmds, asked: p.asked, acks: acks}, d.cfg.CommandTimeout)
	for i, at := range p.indexes {
		if err != nil {
			out[at] = driver.Failed(err)
			continue
		}
		if refused, failed := replies[i].value.(simredis.Err); failed {
			if !p.full && driver.UnknownScript(string(refused)) {
				next.add(p.to, at, true, p.asked)
				continue
			}
			if l, asked := d.elsewhere(string(refused)); l != nil && follow {
				next.add(l, at, p.full, asked)
				continue
			}
		}
		out[at] = simredis.Replied(&calls[at], replies[i].value, d.routes.cluster)
		if acks.Waits() && out[at].Acquired() {
			out[at] = acks.Acknowledged(out[at], replies[i].replicas, nil)
		}
	}
}

// elsewhere returns the link to the server to which a node of a cluster redirects, or nil.
func (d *Driver) elsewhere(text string) (to *Link, asked bool) {
	words := strings.Fields(text)
	if !d.routes.cluster || len(words) != 3 || !slices.Contains([]string{"MOVED", "ASK"}, words[0]) {
		return nil, false
	}
	if words[0] == "MOVED" {
		d.routes.refresh(0)
	}
	return d.routes.at(words[2]), words[0] == "ASK"
}

func text(v any) string { return fmt.Sprint(v) }

// Raw implements [driver.Driver].
func (d *Driver) Raw(_ context.Context, at driver.Node, cmd ...any) (any, *fault.Error) {
	args := make([]string, len(cmd))
	for i, a := range cmd {
		args[i] = text(a)
	}
	n, ok := at.(node)
	if !ok {
		n = node{d.routes.any(args...)}
		if d.routes.cluster && len(args) > 1 {
			var err *fault.Error
			if n.Link, err = d.routes.of(args[1]); err != nil {
				return nil, err
			}
		}
	}
	for asked := false; ; {
		replies, err := n.send(request{cmds: [][]string{args}, asked: asked}, d.cfg.CommandTimeout)
		if err != nil {
			return nil, err
		}
		switch v := replies[0].value.(type) {
		case simredis.Err:
			if to, ask := d.elsewhere(string(v)); to != nil && !ok && to != n.Link {
				n.Link, asked = to, ask
				continue
			}
			return nil, driver.Rejected(v, string(v), d.routes.cluster)
		case simredis.Status:
			return string(v), nil
		}
		return replies[0].value, nil
	}
}

// Subscribe implements [driver.Driver].
func (d *Driver) Subscribe(_ context.Context, at driver.Node, sharded bool) driver.Subscription {
	if n, ok := at.(node); ok {
		return newSubscription(sharded, func([]string) *Link { return n.Link })
	}
	return newSubscription(sharded, func(channels []string) *Link { return d.routes.any(append(channels, "subscribe")...) })
}

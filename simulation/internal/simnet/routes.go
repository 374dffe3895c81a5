package simnet

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// routes is what a process knows of where keys are. It is safe for concurrent use.
type routes struct {
	links   []*Link // to all servers
	cluster bool
	timeout time.Duration

	mu      sync.Mutex
	master  *Link   // of a group that is no cluster
	slots   []*Link // of a cluster, by slot; nil before it has asked
	asked   time.Time
	loading bool // in the background
}

// node is a server of a cluster.
type node struct{ *Link }

// Addr implements [driver.Node].
func (n node) Addr() string { return n.server.addr() }

func (s *Server) addr() string { return host + ":" + strconv.FormatInt(s.port, 10) }

// learn is told of a new master.
func (r *routes) learn(master *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.master = r.links[slices.IndexFunc(r.links, func(l *Link) bool { return l.server == master })]
}

// at returns the link to an address, or nil.
func (r *routes) at(addr string) *Link {
	if i := slices.IndexFunc(r.links, func(l *Link) bool { return l.server.addr() == addr }); i >= 0 {
		return r.links[i]
	}
	return nil
}

// of returns the link to the server that has a key, as far as the process knows. It may have to ask for that first.
func (r *routes) of(key string) (*Link, *fault.Error) {
	r.mu.Lock()
	master, slots := r.master, r.slots
	r.mu.Unlock()
	if master != nil {
		return master, nil
	}
	if slots == nil {
		var err *fault.Error
		if slots, err = r.load(); err != nil {
			return nil, err
		}
	}
	if l := slots[wire.Slot(key)]; l != nil {
		return l, nil
	}
	return nil, driver.Rejected(errUnserved, errUnserved.Error(), true)
}

var errUnserved = fmt.Errorf("CLUSTERDOWN Hash slot not served")

// any returns the link to some server: of a cluster a drawn one, and otherwise the master.
func (r *routes) any(event ...string) *Link {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.master != nil {
		return r.master
	}
	return r.links[r.links[0].draw(event...).IntN(len(r.links))]
}

// load asks the nodes of a cluster, in a drawn order, which slots they have, until one replies.
func (r *routes) load() ([]*Link, *fault.Error) {
	r.mu.Lock()
	r.asked = time.Now()
	r.mu.Unlock()
	var err *fault.Error
	for _, i := range r.links[0].draw("load").Perm(len(r.links)) {
		var replies []answer
		replies, err = r.links[i].send(request{cmds: [][]string{{"CLUSTER", "SLOTS"}}, own: true}, r.timeout)
		if err != nil {
			continue
		}
		ranges, ok := replies[0].value.([]any)
		if !ok {
			err = driver.Rejected(fmt.Errorf("%v", replies[0].value), text(replies[0].value), true)
			continue
		}
		slots := make([]*Link, 16384)
		for _, one := range ranges {
			one, _ := one.([]any)
			from, _ := one[0].(int64)
			to, _ := one[1].(int64)
			owner, _ := one[2].([]any)
			l := r.at(fmt.Sprintf("%v:%v", owner[0], owner[1]))
			for slot := from; slot <= to; slot++ {
				slots[slot] = l
			}
		}
		r.mu.Lock()
		r.slots = slots
		r.mu.Unlock()
		return slots, nil
	}
	if err.Fate == fault.InDoubt {
		err.Fate = fault.NotSent // a question about the topology is not the call
	}
	return nil, err
}

// refreshPause is how long [Driver.Refresh] does nothing after the nodes were asked.
const refreshPause = 200 * time.Millisecond

// refresh asks for that again after a pause, in the background, unless somebody does.
func (r *routes) refresh(pause time.Duration) {
	r.mu.Lock()
	due := r.cluster && !r.loading && time.Since(r.asked) >= pause && !r.links[0].Dead()
	r.loading = r.loading || due
	r.mu.Unlock()
	if !due {
		return
	}
	go func() { // it ends by itself
		_, _ = r.load()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.loading = false
	}()
}

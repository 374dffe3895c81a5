package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/fault"
)

// tryPrefix begins the names of all that a try makes, behind the prefix of the services.
const tryPrefix = "rlock-doctor-try:"

// replicated is the act about WAIT.
const replicated = "replicas"

// act is one thing that is tried, with two clients, as if they were two processes.
type act struct {
	name    string
	kind    string                 // of [Kinds]: what a service must use to need it. Empty means what [Options.Acks] or any kind needs
	works   string                 // what was seen if all is well
	applies func(*deployment) bool // nil means to every deployment
	run     func(ctx context.Context, s *scene) error
	opts    func(Options) rlock.Option // one of the clients, besides those of all; nil means none
}

// degradedError means that it works, but not as well as it should.
type degradedError struct{ text string }

// Error says what is worse.
func (e *degradedError) Error() string { return e.text }

// stage is where the acts play. It knows what they make, so that it can be removed.
type stage struct {
	d      *deployment
	prefix string // of the names, without that of the services
	made   []made
	silent bool           // an earlier act heard no message
	closes sync.WaitGroup // of the clients of acts that are over
}

// made is a name that an act has used, and the ids of the clients that did.
type made struct {
	name    string
	clients []string
}

// scene is an act that is under way.
type scene struct {
	stage    *stage
	name     string
	one, two *rlock.Client
	heard    heard // how the second client got what it waited for
}

// try plays all acts, and then removes what they have made, also if ctx ends.
func try(ctx context.Context, d *deployment) []Finding {
	s := &stage{d: d, prefix: tryPrefix + rand.Text() + ":"}
	play := slices.DeleteFunc(slices.Clone(acts), func(a act) bool { return !d.plays(a) })
	for i, a := range play {
		if d.opts.Trying != nil {
			d.opts.Trying(i+1, len(play), a.name)
		}
		err := s.play(ctx, a)
		if ctx.Err() != nil {
			s.remove(context.WithoutCancel(ctx))
			return nil
		}
		d.tell(s.finding(a, err))
	}
	d.tell(s.remove(ctx))
	return nil
}

// plays reports whether an act is of use: the services may use its kind, and this sort of deployment has it.
func (d *deployment) plays(a act) bool {
	unused := a.kind != "" && d.chosen && !slices.Contains(d.opts.Kinds, a.kind)
	return !unused && (a.applies == nil || a.applies(d)) && (d.opts.only == nil || slices.Contains(d.opts.only, a.name))
}

// play runs an act with clients of its own. What it leaves behind is removed later, by its name.
func (s *stage) play(ctx context.Context, a act) error {
	sc := &scene{stage: s, name: s.prefix + strings.ReplaceAll(a.name, " ", "-")}
	for _, client := range []**rlock.Client{&sc.one, &sc.two} {
		opts := []rlock.Option{
			rlock.WithKeyPrefix(s.d.opts.Prefix), rlock.WithCommandTimeout(s.d.opts.timeout()),
			rlock.WithLogger(slog.New(slog.DiscardHandler)),
		}
		if client == &sc.two {
			opts = append(opts, rlock.WithObserver(&sc.heard))
		}
		if a.opts != nil {
			opts = append(opts, a.opts(s.d.opts))
		}
		c, err := rlock.New(s.d.rdb, opts...)
		if err != nil {
			return err
		}
		defer func() { // what is under way may take as long as the timeout, such as a release without the right to it
			s.closes.Go(func() { _ = c.Close() })
		}()
		*client = c
	}
	s.note(sc.name, sc.one, sc.two)
	return a.run(ctx, sc)
}

// note has what is under a name removed in the end.
func (s *stage) note(name string, clients ...*rlock.Client) {
	m := made{name: s.d.opts.Prefix + name}
	for _, c := range clients {
		m.clients = append(m.clients, c.ID())
	}
	s.made = append(s.made, m)
}

// finding says how an act went.
func (s *stage) finding(a act, err error) Finding {
	var worse *degradedError
	switch {
	case err == nil:
		return found(nil, OK, "%s: %s.", a.name, a.works)
	case errors.As(err, &worse):
		return found(nil, Warning, "%s: degraded: %s. %s", a.name, worse.text, s.remedy(a, err))
	}
	level := Problem
	if a.kind != "" && !slices.Contains(s.d.opts.Kinds, a.kind) && isDenied(err) || a.name == replicated && s.d.opts.Acks == 0 {
		level = Note // as the rights of other kinds, and replicas, are for the other checks
	}
	return found(nil, level, "%s: fails: %s. %s", a.name, reason(err), s.remedy(a, err))
}

// reason returns the text of an error of a call, without the name of the lock.
func reason(err error) string {
	if op := (*fault.OpError)(nil); errors.As(err, &op) {
		return op.Op + ": " + strings.TrimPrefix(why(op.Err), "rlock: ")
	}
	return why(err)
}

// remedy says what to do about an error of an act.
func (s *stage) remedy(a act, err error) string {
	var f *fault.Error
	var worse *degradedError
	switch {
	case errors.Is(err, errTogether):
		return "This server, or a proxy before it, divides the keys among several. Use a client for clusters."
	case isDenied(err) && a.name == replicated:
		return "Grant +wait on every node."
	case isDenied(err):
		return "Grant what it needs, on every node: " + s.d.grants("", cmp.Or(a.kind, "lock"))
	case a.name == replicated:
		return "Without WithReplicaAcks, a failover may lose a lock that was just acquired."
	case errors.As(err, &worse):
		return "Look for a missing right to subscribe and to publish, or for a proxy or a server that does not pass pub/sub on. It takes: " +
			s.d.grants("", cmp.Or(a.kind, "lock"))
	case errors.As(err, &f) && (f.Code == "MOVED" || f.Code == "CLUSTERDOWN" || f.Code == "CROSSSLOT"):
		return "Check again with --cluster."
	case strings.Contains(err.Error(), "not allowed from script"):
		return "This server does not let scripts call a command that rlock needs."
	case errors.As(err, &f) && f.Code == "unknown":
		return "The server, or a proxy before it, lacks a command that rlock needs."
	}
	return "Until that is mended, do not use it on this server."
}

// isDenied reports whether a right is missing.
func isDenied(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Denied()
}

// remove deletes what the acts have made, and looks whether it is gone.
func (s *stage) remove(ctx context.Context) Finding {
	s.closes.Wait() // so that nothing comes after the removal
	ctx, cancel := context.WithTimeout(ctx, 2*s.d.opts.timeout())
	defer cancel()
	var left []string
	for _, m := range s.made {
		keys := m.keys()
		if !s.each(ctx, keys, "del") {
			s.each(ctx, keys, "pexpire", 1) // a user may have no right to delete
		}
		pipe := s.d.rdb.Pipeline()
		for _, key := range keys {
			pipe.Exists(ctx, key)
		}
		replies, _ := pipe.Exec(ctx) // each has its error
		for i, reply := range replies {
			if n, ok := reply.(*redis.IntCmd); ok && n.Err() == nil && n.Val() > 0 {
				left = append(left, keys[i])
			}
		}
	}
	if len(left) == 0 {
		return found(nil, OK, "removal: nothing is left of what was tried.")
	}
	return found(nil, Warning, "removal: %d keys are left, such as %s. Delete them.", len(left), fault.Quote(left[0]))
}

// each runs a command on each of some keys, and reports whether no right to the command is missing.
func (s *stage) each(ctx context.Context, keys []string, command string, args ...any) bool {
	pipe := s.d.rdb.Pipeline()
	for _, key := range keys {
		pipe.Do(ctx, append([]any{command, key}, args...)...)
	}
	replies, _ := pipe.Exec(ctx) // each has its error
	return !slices.ContainsFunc(replies, func(reply redis.Cmder) bool {
		return denied(reply.Err()) && !strings.Contains(reply.Err().Error(), "key") // a key that it may not touch is none that it made
	})
}

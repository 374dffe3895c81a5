package goredis

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/redis/go-redis/v9"
)

// route lists the clients that run a command instead of the client that it was given to, one after the other. The first runs
// the hooks that it has, and gives the command to the second. A nil route means that there is no other client.
//
// The caller's client is always the one that a command is given to, so that its hooks see the command. It may have no
// timeout, and then a lost reply would keep a connection forever. A clone made by WithTimeout shares its connections and
// has a timeout, but no hooks.
type route []*redis.Client

// aimed is a command with a route. A user's hook may set its value, as it may with any command of rlock.
type aimed struct {
	*redis.Cmd
	route route
	retry bool
}

// NoRetry reports whether go-redis sends the command a single time.
func (a *aimed) NoRetry() bool { return !a.retry }

// aim returns a command that takes a route.
func (r route) aim(cmd noRetry) redis.Cmder {
	if r == nil {
		return cmd
	}
	return &aimed{Cmd: cmd.Cmd, route: r}
}

// onward returns the command that the first client of the route runs.
func (a *aimed) onward() redis.Cmder {
	switch {
	case len(a.route) > 1:
		return &aimed{Cmd: a.Cmd, route: a.route[1:], retry: a.retry}
	case a.retry:
		return a.Cmd
	}
	return noRetry{a.Cmd}
}

// detour is the hook that takes aimed commands along their routes. Hooks that were added before it see these commands. Hooks
// that are added later do not, because go-redis runs them inside of it. All other commands pass through it.
type detour struct{}

// ProcessHook runs an aimed command on the next client of its route.
func (detour) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a, ok := cmd.(*aimed); ok {
			err := a.route[0].Process(ctx, a.onward())
			if !undated(err) {
				return err
			}
			cmd = a.onward()
			cmd.SetErr(nil)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook runs a pipeline of aimed commands on the next client of their route, which they share. A command that
// a user's hook has put in between goes with them.
func (detour) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		first := slices.IndexFunc(cmds, func(cmd redis.Cmder) bool { _, ok := cmd.(*aimed); return ok })
		if first < 0 {
			return next(ctx, cmds)
		}
		pipe := cmds[first].(*aimed).route[0].Pipeline()
		for _, cmd := range cmds {
			if a, ok := cmd.(*aimed); ok {
				cmd = a.onward()
			}
			_ = pipe.Process(ctx, cmd) // queues; cannot fail
		}
		_, err := pipe.Exec(ctx)
		if undated(err) {
			for _, cmd := range cmds {
				cmd.SetErr(nil)
			}
			return next(ctx, cmds)
		}
		return err
	}
}

// detours remembers which redis clients have the hook. Without that, each New of rlock on the same redis client would add
// another one.
type detours struct {
	mu sync.Mutex
	on map[any]bool // by weak pointers
}

var known = detours{on: make(map[any]bool)}

// addDetour adds the hook to a redis client that has none yet. add is the client's AddHook.
func addDetour[C redis.Client | redis.ClusterClient](rdb *C, add func(redis.Hook)) {
	client := weak.Make(rdb)
	if known.add(client, func() { add(detour{}) }) {
		runtime.AddCleanup(rdb, known.remove, any(client))
	}
}

// add adds the hook to a client, and reports whether it had none.
func (d *detours) add(client any, hook func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on[client] {
		return false
	}
	hook()
	d.on[client] = true
	return true
}

func (d *detours) remove(client any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.on, client)
}

package testkit

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

func scriptsOf(k *wire.Kind) map[string]*wire.Script {
	return map[string]*wire.Script{
		"acquire": k.Acquire, "count": k.Count, "release": k.Release, "renew": k.Renew, "force": k.Force, "inspect": k.Inspect,
		"handOver": k.HandOver, "park": k.Park, "export": k.HandOff, "adopt": k.HandOff,
	}
}

// lineOf returns the scripts that a kind uses instead where its waiters stand in the line. There, a release hands over.
func lineOf(k *wire.Kind) map[string]*wire.Script {
	if k.Line == nil {
		return nil
	}
	l := k.Line
	return map[string]*wire.Script{
		"acquire": l.Acquire, "release": l.Release, "force": l.Force, "pump": l.Pump, "handOver": l.Release,
	}
}

// Script returns the source of a script of a kind, and how many keys it gets for each lock, besides the tombstones.
func Script(kind, name string) (source string, keys int) {
	s := scriptsOf(wire.Kinds[kind])[name]
	return s.Source, s.Keys
}

// Sources returns the sources of all scripts.
func Sources() (all []string) {
	for _, k := range wire.Kinds {
		for _, scripts := range []map[string]*wire.Script{scriptsOf(k), lineOf(k)} {
			for _, s := range scripts {
				if s != nil {
					all = append(all, s.Source)
				}
			}
		}
	}
	for _, others := range []map[string]*wire.Script{wire.Others, core.Scripts()} {
		for _, s := range others {
			all = append(all, s.Source)
		}
	}
	return all
}

// Runs matches the commands that run the script of that name, of any kind, with or without the line, or of no kind.
func Runs(name string) func(redistest.Command) bool {
	return func(c redistest.Command) bool {
		for _, k := range wire.Kinds {
			if runs(c, scriptsOf(k)[name]) || runs(c, lineOf(k)[name]) {
				return true
			}
		}
		return runs(c, wire.Others[name]) || runs(c, core.Scripts()[name]) || runs(c, core.Scripts()[byTurns[name]])
	}
}

// byTurns has what the scripts of internal/core are that do what a script of that name does.
var byTurns = map[string]string{
	"acquire": "acquire by turns", "release": "release by turns", "renew": "renew by turns", "force": "force by turns",
	"handOver": "release by turns", "park": "release by turns", "export": "move by turns", "adopt": "move by turns",
}

func runs(c redistest.Command, s *wire.Script) bool {
	return s != nil && (c[0] == "evalsha" && c[1] == s.Digest || c[0] == "eval" && c[1] == s.Source)
}

// AcquireByTurns runs the script by which a holder acquires a lock of internal/core, in a mode of it, whatever its result.
func AcquireByTurns(ctx context.Context, rdb redis.UniversalClient, key, field, mode, flags string) error {
	of, _ := core.Plain.Keys(key)
	keys := make([]string, len(of))
	for i, k := range of {
		keys[i], _ = k.(string)
	}
	until := time.Now().Add(10 * time.Second).UnixMicro()
	return rdb.Eval(ctx, core.Scripts()["acquire by turns"].Source, keys, field, 60_000, until, mode, flags, "").Err()
}

// RunCall runs a call, as a driver does.
func RunCall(rdb redis.UniversalClient, c wire.Call) (wire.Reply, error) {
	if c.Args.Publish == "" {
		c.Args.Publish = wire.PublishPlain
	}
	keys := make([]string, len(c.Keys))
	for i, key := range c.Keys {
		keys[i], _ = key.(string)
	}
	cmd := rdb.Eval(context.Background(), c.Script.Source, keys, c.AppendArgv(nil)...)
	if n, err := cmd.Int64(); err == nil {
		return wire.Reply{N: n}, nil
	} else if cmd.Err() != nil {
		return wire.Reply{}, cmd.Err()
	}
	list, err := cmd.Int64Slice()
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{N: list[0], List: list}, nil
}

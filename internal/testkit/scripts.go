package testkit

import (
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

func scriptsOf(k *wire.Kind) map[string]*wire.Script {
	return map[string]*wire.Script{
		"acquire": k.Acquire, "count": k.Count, "release": k.Release, "renew": k.Renew, "force": k.Force, "inspect": k.Inspect,
		"handOver": k.HandOver,
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
		for _, s := range scriptsOf(k) {
			if s != nil {
				all = append(all, s.Source)
			}
		}
	}
	return all
}

// Runs matches the commands that run the script of that name, of any kind.
func Runs(name string) func(redistest.Command) bool {
	return func(c redistest.Command) bool {
		for _, k := range wire.Kinds {
			if s := scriptsOf(k)[name]; s != nil && (c[0] == "evalsha" && c[1] == s.Digest || c[0] == "eval" && c[1] == s.Source) {
				return true
			}
		}
		return false
	}
}

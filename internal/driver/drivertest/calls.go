package drivertest

import (
	"github.com/google/uuid"

	"github.com/go-rlock/rlock/internal/wire"
)

// NewName returns a name that no other test uses.
func NewName() string { return "t-" + uuid.NewString() }

// Acquire is a call by which a holder acquires a lock for 30 s.
func Acquire(k *wire.Kind, name, holder string) wire.Call {
	names := wire.NewNames(k, name, "client")
	return wire.Call{Script: k.Acquire, Keys: k.Acquire.WithTombstones(names.Keys), Args: wire.Args{
		Holder: holder, Millis: 30_000, Number: 1000, Channel: names.Boxed, Extra: int64(0),
	}}
}

// Release is a call by which a holder releases a lock.
func Release(k *wire.Kind, name, holder string) wire.Call {
	names := wire.NewNames(k, name, "client")
	return wire.Call{Script: k.Release, Keys: k.Release.Of(names.Keys), Args: wire.Args{
		Holder: holder, Number: 1000, Channel: names.Boxed, Publish: wire.PublishPlain, Extra: int64(0),
	}}
}

// Inspect is a call that asks about a lock. It changes nothing.
func Inspect(name, holder string) wire.Call {
	return wire.Call{Script: wire.Plain.Inspect, Keys: []any{name}, Args: wire.Args{Holder: holder}}
}

// Renew is a call that renews the locks of one holder.
func Renew(holder string, names ...string) wire.Call {
	c := wire.Call{Script: wire.Plain.Renew, Argv: []any{30_000}}
	for _, name := range names {
		c.Keys, c.Argv = append(c.Keys, name), append(c.Argv, holder)
	}
	return c
}

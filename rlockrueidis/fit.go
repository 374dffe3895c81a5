package rlockrueidis

import (
	"fmt"
	"reflect"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/fault"
)

// fit returns the size of the client's pool for blocking commands, or an error if a client cannot keep a lock.
func fit(client rueidis.Client) (pool int, err error) {
	v := reflect.ValueOf(client)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return 0, invalid("the rueidis client is nil")
	}
	o := optionsOf(v)
	if o.pool <= 0 {
		o.pool = rueidis.DefaultPoolSize
	}
	switch {
	case o.lifetime:
		return 0, invalid("rueidis.ClientOption: with a ConnLifetime, rueidis may send a script twice")
	case o.redirects:
		return 0, invalid("rueidis.ClientOption: with EnableRedirect, rueidis may send a script twice")
	case o.replicaOnly:
		return 0, invalid("rueidis.ClientOption: with ReplicaOnly, nothing can be locked")
	case o.cleanup:
		return 0, invalid("rueidis.ClientOption: with a BlockingPoolCleanup, a silent server stops all commands for a second per connection")
	case o.unpiped:
		return 0, invalid("rueidis.ClientOption: with DisableAutoPipelining, rueidis does not notice that Redis has closed a connection")
	case o.resp2:
		return 0, invalid("rueidis.ClientOption: AlwaysRESP2, or a server without RESP3: rueidis could not unsubscribe safely")
	case o.pool <= subscriptions+1:
		return 0, invalid(fmt.Sprintf("rueidis.ClientOption: a BlockingPoolSize of %d is below the minimum of 4", o.pool))
	}
	return o.pool, nil
}

func invalid(text string) error { return fmt.Errorf("%w: %s", fault.ErrInvalidOption, text) }

// options are those of a client's options on which locks depend.
type options struct {
	lifetime, redirects, replicaOnly, cleanup, unpiped, resp2 bool
	pool                                                      int // of connections for blocking commands
}

// optionsOf reads options from the unexported fields of a client, because rueidis has no method for that. It looks into wrappers,
// which have a method Unwrap, or the client in a field of that name. What it does not find is zero.
func optionsOf(v reflect.Value) (o options) {
	for range 8 {
		v = pointedTo(v)
		if inside, ok := unwrapped(v); ok {
			v = reflect.ValueOf(inside)
			continue
		}
		connections := field(v, "conn")
		pool := field(connections, "dpool")
		o.lifetime = o.lifetime || truth(v, "hasLftm")
		o.redirects = o.redirects || truth(v, "enableRedirect")
		o.unpiped = o.unpiped || truth(connections, "usePool")
		o.cleanup = o.cleanup || truth(pool, "cleanup")
		o.resp2 = o.resp2 || speaksRESP2(field(connections, "muxwires"))
		o.setPool(field(pool, "cap"))
		for _, name := range []string{"opt", "mOpt"} {
			opt := field(v, name)
			o.lifetime = o.lifetime || truth(opt, "ConnLifetime")
			o.replicaOnly = o.replicaOnly || truth(opt, "ReplicaOnly")
			o.unpiped = o.unpiped || truth(opt, "DisableAutoPipelining")
			o.cleanup = o.cleanup || truth(opt, "BlockingPoolCleanup")
			o.resp2 = o.resp2 || truth(opt, "AlwaysRESP2")
			o.setPool(field(opt, "BlockingPoolSize"))
		}
		if next := field(v, "client"); next.IsValid() {
			v = next
		} else if v = field(v, "Client"); !v.IsValid() { // embedded
			return o
		}
	}
	return o
}

// unwrapped returns what the method Unwrap of a wrapper returns. It reports false if there is none.
func unwrapped(v reflect.Value) (inside rueidis.Client, ok bool) {
	if v.CanAddr() {
		v = v.Addr() // whose methods are those of the value, too
	}
	if !v.IsValid() || !v.CanInterface() {
		return nil, false
	}
	w, ok := reflect.TypeAssert[interface{ Unwrap() rueidis.Client }](v)
	if !ok {
		return nil, false
	}
	return w.Unwrap(), true
}

// setPool takes the size of the pool, unless it is known.
func (o *options) setPool(size reflect.Value) {
	if o.pool == 0 && size.IsValid() && size.CanInt() {
		o.pool = int(size.Int())
	}
}

// speaksRESP2 reports whether the first connection of a client does: then it has another one for subscriptions.
func speaksRESP2(connections reflect.Value) bool {
	if connections.Kind() != reflect.Slice || connections.Len() == 0 {
		return false
	}
	return field(field(field(connections.Index(0), "wire"), "v"), "r2p").IsValid()
}

// pointedTo follows pointers and interfaces.
func pointedTo(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// field returns what a field of a struct has or points to. It returns the zero Value if there is none.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i := range v.NumField() { // FieldByName would look into embedded fields, which may be nil
		if v.Type().Field(i).Name == name {
			return pointedTo(v.Field(i))
		}
	}
	return reflect.Value{}
}

// truth reports whether a field of a struct is true, or a number that is positive.
func truth(v reflect.Value, name string) bool {
	f := field(v, name)
	return f.IsValid() && (f.Kind() == reflect.Bool && f.Bool() || f.CanInt() && f.Int() > 0)
}

package rlockrueidis

import (
	"cmp"
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
	switch {
	case o.lifetime:
		return 0, invalid("rueidis.ClientOption: with a ConnLifetime, rueidis may send a script twice")
	case o.replicaOnly:
		return 0, invalid("rueidis.ClientOption: with ReplicaOnly, nothing can be locked")
	}
	return cmp.Or(o.pool, rueidis.DefaultPoolSize), nil
}

func invalid(text string) error { return fmt.Errorf("%w: %s", fault.ErrInvalidOption, text) }

// options are those of a client's options on which locks depend.
type options struct {
	lifetime, replicaOnly bool
	pool                  int // of connections for blocking commands
}

// optionsOf reads options from the unexported fields of a client, because rueidis has no method for that. It looks into wrappers,
// which have the client in a field of that name. What it does not find is zero.
func optionsOf(v reflect.Value) (o options) {
	for range 8 {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return o
		}
		o.lifetime = o.lifetime || truth(v, "hasLftm")
		for _, name := range []string{"opt", "mOpt"} {
			if opt := v.FieldByName(name); opt.IsValid() && opt.Kind() == reflect.Pointer && !opt.IsNil() {
				lifetime := opt.Elem().FieldByName("ConnLifetime")
				o.lifetime = o.lifetime || lifetime.IsValid() && lifetime.CanInt() && lifetime.Int() > 0
				o.replicaOnly = o.replicaOnly || truth(opt.Elem(), "ReplicaOnly")
				o.pool = cmp.Or(o.pool, number(opt.Elem(), "BlockingPoolSize"))
			}
		}
		o.pool = cmp.Or(o.pool, number(within(within(v, "conn"), "dpool"), "cap"))
		inner := v.FieldByName("client")
		if !inner.IsValid() {
			return o
		}
		v = inner
	}
	return o
}

// within returns what a field of a struct points to.
func within(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Struct {
		v = v.FieldByName(name)
	}
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// number returns a number in a field of a struct, or zero.
func number(v reflect.Value, name string) int {
	if v.Kind() != reflect.Struct {
		return 0
	}
	if v = v.FieldByName(name); v.IsValid() && v.CanInt() {
		return int(v.Int())
	}
	return 0
}

func truth(v reflect.Value, name string) bool {
	f := v.FieldByName(name)
	return f.IsValid() && f.Kind() == reflect.Bool && f.Bool()
}

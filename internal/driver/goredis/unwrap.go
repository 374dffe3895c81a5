package goredis

import (
	"context"
	"errors"
	"reflect"

	"github.com/redis/go-redis/v9"
)

// maxWrappers is how many wrappers may be around a client.
const maxWrappers = 16

// unwrap returns the client of go-redis in a client of the application: what its method Unwrap returns, or else what its struct
// embeds. Commands still go to the client of the application, which may override methods. It reports whether it has found one, or
// found that there is none, by a nil.
func unwrap(rdb redis.UniversalClient) (inside redis.UniversalClient, found bool) {
	for range maxWrappers {
		switch rdb.(type) {
		case nil, *redis.Client, *redis.ClusterClient, *redis.Ring, *redis.AutoPipeliner:
			return rdb, true
		}
		if empty(reflect.ValueOf(rdb)) {
			return nil, true
		}
		if w, ok := rdb.(interface {
			Unwrap() redis.UniversalClient
		}); ok {
			rdb = w.Unwrap()
			continue
		}
		if rdb = embedded(reflect.ValueOf(rdb)); rdb == nil {
			break
		}
	}
	return nil, false
}

// embedded returns the client that a struct embeds, or nil. The struct itself may be embedded in one.
func embedded(v reflect.Value) redis.UniversalClient {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if !v.Type().Field(i).Anonymous {
			continue
		}
		f := v.Field(i)
		if f.Kind() == reflect.Struct && f.CanAddr() {
			f = f.Addr() // the clients of go-redis have the methods of pointers
		}
		if f.CanInterface() {
			if rdb, ok := reflect.TypeAssert[redis.UniversalClient](f); ok {
				return rdb
			}
		} else if rdb := embedded(f); rdb != nil { // the field of a type that is not exported
			return rdb
		}
	}
	return nil
}

// empty reports whether a client is nil.
func empty(v reflect.Value) bool {
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil()
}

// hidden returns what is wrong with a client in which unwrap finds none, such as one that passes each method on by itself. It calls
// methods that send nothing, and that differ among the clients of go-redis. A client that panics then, as an incomplete fake does, is
// taken for one of a single server.
func hidden(rdb redis.UniversalClient) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	// Every client refuses this, so that none makes an AutoPipeliner.
	if _, err := rdb.AutoPipelineWithOptions(&redis.AutoPipelineOptions{MaxBatchSize: -1}); errors.Is(err, redis.ErrRingAutoPipelineUnsupported) {
		return errRing
	}
	single := false
	watching := rdb.Watch(context.Background(), func(*redis.Tx) error { single = true; return nil })
	if watching != nil && !single { // a client of several servers wants a key, to know which server to watch
		return invalid("%T is a client of a cluster, which rlock has to see: give it a method Unwrap() redis.UniversalClient", rdb)
	}
	return nil
}

var errRing = invalid("redis.Ring: it cannot keep a lock on one server")

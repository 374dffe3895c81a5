package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestFloorsExclude checks that the raw pairs are locks and semaphores: what is taken is refused until it is given back.
func TestFloorsExclude(t *testing.T) {
	l := testLab(t)
	for _, permits := range []int{0, 1} {
		for _, name := range []string{floor, "floor-rueidis", "layout", "layout-rueidis", "checks", "checks-rueidis"} {
			if permits > 0 && strings.HasPrefix(name, "checks") { // a recorded command of rlock for permits expires
				continue
			}
			if err := l.single.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			e, _ := entrantNamed(name)
			lib, err := e.open(Cell{Scenario: "S13", Library: name, Permits: permits, Addrs: []string{l.single.nodes[0].Options().Addr}})
			if err != nil {
				t.Fatal(name, err)
			}
			h := lib.Handle(oneName)
			for range 2 {
				if err := h.Lock(t.Context()); err != nil {
					t.Errorf("%s, %d permits: %v", name, permits, err)
				}
				if err := refused(t.Context(), lib); !errors.Is(err, errTaken) {
					t.Errorf("%s, %d permits, taken: %v", name, permits, err)
				}
				if keys := h.(*rawHandle).take.keys; permits == 0 && len(keys) > 1 { // it stands in rlock's line now
					l.single.nodes[0].Del(t.Context(), keys[1])
				}
				if err := h.Unlock(t.Context()); err != nil {
					t.Errorf("%s, %d permits: %v", name, permits, err)
				}
			}
			if permits > 0 {
				continue
			}
			pair := together(lib, []string{"a", "b"})
			if err := errors.Join(pair.Lock(t.Context()), pair.Unlock(t.Context()), pair.Lock(t.Context())); err != nil {
				t.Errorf("%s, together: %v", name, err)
			}
		}
	}
}

// refused asks for what is taken, as another holder.
func refused(ctx context.Context, lib Library) error {
	h := lib.Handle(oneName).(*rawHandle)
	h.take.args = slices.Clone(h.take.args)
	for i, arg := range h.take.args {
		if len(arg) >= len(rawPermit) { // who takes it
			h.take.args[i] = "x" + arg[1:]
		}
	}
	h.take.boxed = boxed(h.take.args)
	return h.Lock(ctx)
}

func TestAFarServerAnswersLater(t *testing.T) {
	l := testLab(t)
	const later = 50 * time.Millisecond
	rdb := redis.NewClient(&redis.Options{Addr: startFar(t.Context(), t, l.single.nodes[0].Options().Addr, later), PoolSize: 1})
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	pipe := rdb.Pipeline()
	for range 100 {
		pipe.Ping(t.Context())
	}
	if _, err := pipe.Exec(t.Context()); err != nil || time.Since(begin) < later {
		t.Errorf("a pipeline took %v: %v", time.Since(begin), err)
	}
}

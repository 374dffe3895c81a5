package testkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// Turns is what a process has done that takes turns, see childEnv.
type Turns struct {
	Waits  []time.Duration // of all turns
	Holds  []time.Duration // of those that it got, with the unlock
	Missed int             // the turns that it did not get
}

// Preferring follows the terms of a process that takes turns with rlock.WriterPreference: reads, or writes.
const Preferring = "-preferring"

// takesTurns is the program of a process that takes turns with one side of a read-write lock, between two lines that it reads. A hold takes 5
// to 65 ms, and a writer rests for up to 200 ms. In the end it prints its Turns.
func takesTurns(addr, name, terms string) error {
	locks, _, err := connect.Open(redis.NewClient(&redis.Options{Addr: addr}))
	if err != nil {
		return err
	}
	side, preferring := strings.CutSuffix(terms, Preferring)
	var opts []rlock.LockOption
	if preferring {
		opts = append(opts, rlock.WriterPreference())
	}
	rw := locks.NewRWLock(name, opts...)
	lock := rw.Reader()
	if side == "writes" {
		lock = rw.Writer()
	}
	var over atomic.Bool
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	go func() {
		in.Scan()
		over.Store(true)
	}()
	var all Turns
	for !over.Load() {
		begin := time.Now()
		hold, err := lock.Acquire(context.Background(), rlock.Wait(15*time.Second))
		all.Waits = append(all.Waits, time.Since(begin))
		switch {
		case errors.Is(err, rlock.ErrNotAcquired):
			all.Missed++
			continue
		case err != nil:
			return err
		}
		begin = time.Now()
		time.Sleep(5*time.Millisecond + rand.N(60*time.Millisecond))
		if err := hold.Unlock(context.Background()); err != nil {
			return err
		}
		all.Holds = append(all.Holds, time.Since(begin))
		if side == "writes" {
			time.Sleep(rand.N(200 * time.Millisecond))
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}

// Fencing lets a store turn a stale holder away: one that lost the lock while it was paused, and does not know yet.
//
// The store is a table in memory. In SQL its rule is the WHERE clause of
//
//	UPDATE documents SET body = $2, token = $1 WHERE id = $3 AND token <= $1
//
// with a column of 64 bits; no row updated means a later holder has written.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

var errStale = errors.New("a later holder has written")

// store keeps, with each document, the greatest token that it was written with.
type store struct {
	mu        sync.Mutex
	documents map[string]document
}

type document struct {
	body  string
	token uint64
}

func (s *store) write(id, body string, token uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.documents[id].token > token {
		return errStale
	}
	s.documents[id] = document{body, token}
	return nil
}

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	rdb, _, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	locks, err := rlock.New(rdb)
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close() }()
	lock := locks.NewFencedLock("document:" + uuid.NewString())
	documents := &store{documents: make(map[string]document)}

	slow, err := lock.Acquire(ctx, rlock.Lease(100*time.Millisecond))
	if err != nil {
		return err
	}
	fmt.Println("A slow holder takes the lock, and is paused for longer than its lease.")
	next, err := lock.Acquire(ctx) // gets it when that lease is over
	if err != nil {
		return err
	}
	fmt.Println("The next holder has a greater token:", next.Token() > slow.Token())
	if err := documents.write("7", "by the next holder", next.Token()); err != nil {
		return err
	}
	err = documents.write("7", "by the slow holder", slow.Token())
	fmt.Println("The slow one goes on and writes:", err)
	if !errors.Is(err, errStale) {
		return errors.New("a stale write was accepted")
	}
	fmt.Println("The document is", documents.documents["7"].body)
	_ = slow.Unlock(ctx) // ErrLost
	return next.Unlock(ctx)
}

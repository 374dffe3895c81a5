// Fencing lets a store reject the write of a stale holder. Such a holder lost the lock while it was paused, and does not
// know that yet.
//
// The store is a table in memory. In SQL, its rule is the WHERE clause of
//
//	UPDATE documents SET body = $3, token = $1 WHERE id = $2 AND token <= $1
//
// with a 64-bit column. If no row is updated, a later holder has written. docs/guide/fencing.md has more, and examples/jobs a database.
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

// store keeps the greatest token with which each document was written.
type store struct {
	mu        sync.Mutex
	documents map[string]document
}

type document struct {
	body  string
	token rlock.Token
}

func (s *store) write(id, body string, token rlock.Token) error {
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
	lock := locks.NewLock("document:"+uuid.NewString(), rlock.Fenced())
	documents := &store{documents: make(map[string]document)}

	slow, err := lock.Acquire(ctx, rlock.Lease(100*time.Millisecond))
	if err != nil {
		return err
	}
	fmt.Println("A slow holder takes the lock and is paused for longer than its lease.")
	next, err := lock.Acquire(ctx) // succeeds when that lease ends
	if err != nil {
		return err
	}
	defer func() { _ = next.Unlock(ctx) }()
	fmt.Println("The next holder has a greater token:", next.Token() > slow.Token())
	if err := documents.write("7", "by the next holder", next.Token()); err != nil {
		return err
	}
	err = documents.write("7", "by the slow holder", slow.Token())
	fmt.Println("The slow holder resumes and writes:", err)
	if !errors.Is(err, errStale) {
		return errors.New("a stale write was accepted")
	}
	fmt.Println("The document is", documents.documents["7"].body)
	_ = slow.Unlock(ctx) // ErrLost
	return nil
}

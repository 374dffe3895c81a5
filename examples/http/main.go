// Http is a service that takes payments. Several instances run side by side, and a request holds the lock of its invoice, so that two
// requests for one invoice do not charge twice. Start two instances, and ask both at once:
//
//	export REDIS_URL=redis://localhost:6379
//	ADDR=localhost:8081 go run ./examples/http & ADDR=localhost:8082 go run ./examples/http &
//	curl -X POST localhost:8081/invoices/42/payment & curl -X POST localhost:8082/invoices/42/payment
//
// CHARGE is how long a payment takes (500ms). If it takes longer than the other request waits, that one gets 409. End an instance by
// SIGTERM, or by kill -9, while it works: the other one gets the lock at once, or when the lease of the dead one ends.
//
// Without REDIS_URL it has an embedded Redis of its own, asks itself, and ends.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

const (
	lease    = 3 * time.Second  // for so long at most, an instance that has died is in the way
	wait     = 2 * time.Second  // a request waits for so long for another one
	patience = 20 * time.Second // after SIGTERM, requests have so long to finish; orchestrators allow 30 s
	grace    = 5 * time.Second  // and then so long to give up
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	takes, err := time.ParseDuration(cmp.Or(os.Getenv("CHARGE"), "500ms"))
	if err != nil {
		return fmt.Errorf("CHARGE: %w", err)
	}
	rdb, where, closeRedis, err := demo.Redis()
	if err != nil {
		return err
	}
	defer closeRedis()
	locks, err := rlock.New(rdb, rlock.WithWatchdogTimeout(lease))
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close() }()

	server := newServer(locks, rdb, provider{takes})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(os.Getenv("ADDR"), "localhost:0"))
	if err != nil {
		return err
	}
	fmt.Printf("listens on http://%s, locks on %s\n", listener.Addr(), where)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if os.Getenv("REDIS_URL") == "" {
		return errors.Join(demonstrate(ctx, listener.Addr().String()), shutdown(server, locks, patience))
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		stop() // a second signal ends the process at once
		return shutdown(server, locks, patience)
	}
}

func newServer(locks *rlock.Client, rdb *redis.Client, p provider) *http.Server {
	invoices := &repository{locks: locks, rdb: rdb}
	a := &api{locks: locks, invoices: invoices, shop: &shop{locks: locks, invoices: invoices, provider: p}}
	return &http.Server{Handler: a.routes(), ReadHeaderTimeout: 5 * time.Second}
}

// shutdown lets the requests under way finish. If some take too long, it ends the contexts of their locks, which tells them to give
// up. Their locks stay held until they have returned, so no other instance begins while they still work.
func shutdown(server *http.Server, locks *rlock.Client, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	late := server.Shutdown(ctx)
	ctx, cancel = context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := locks.Shutdown(ctx)
	if late != nil {
		err = errors.Join(err, server.Shutdown(ctx)) // the answers of the late ones go out
	}
	return err
}

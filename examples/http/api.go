package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-rlock/rlock"
)

// api answers requests.
type api struct {
	locks    *rlock.Client
	invoices *repository
	shop     *shop
}

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoices/{id}/payment", a.pay)
	mux.HandleFunc("GET /readyz", a.ready)
	return mux
}

// pay pays an invoice, and answers with the receipt. The lock makes one step of both. The layers below get the context of the lock,
// so they re-enter it where they lock for themselves.
func (a *api) pay(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	var receipt string
	err := invoiceLock(a.locks, id).Do(r.Context(), func(ctx context.Context) error {
		err := a.shop.pay(ctx, id)
		if err == nil {
			receipt, err = a.invoices.receipt(ctx, id)
		}
		return err
	}, rlock.Wait(wait))
	if err != nil {
		fail(w, r, err)
		return
	}
	_, _ = fmt.Fprintln(w, receipt)
}

// statusClientClosedRequest is nginx's status for a client that has left. Only logs show it.
const statusClientClosedRequest = 499

// status returns the status of an error, as in the table of docs/guide/waiting.md. The order matters, because an error may match
// several: one of rlock says more than that of a context.
func status(err error) int {
	switch {
	case errors.Is(err, rlock.ErrLost), errors.Is(err, rlock.ErrNoPermits):
		return http.StatusInternalServerError
	case errors.Is(err, rlock.ErrNotAcquired):
		return http.StatusConflict // another request works on it: Redis said so
	case errors.Is(err, rlock.ErrUnavailable), errors.Is(err, rlock.ErrClosed):
		return http.StatusServiceUnavailable // nobody knows, or this instance ends
	case errors.Is(err, rlock.ErrInvalidName):
		return http.StatusBadRequest // the name comes from the request
	case errors.Is(err, context.Canceled):
		return statusClientClosedRequest
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// fail answers a request that has failed. The client learns what it can do, and the log learns why.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	code, text, level := status(err), "something went wrong here", slog.LevelError
	switch {
	case errors.Is(err, rlock.ErrLost):
		text = "the lock was lost while the request worked: look whether the invoice is paid before you try again"
	case code == http.StatusConflict:
		text, level = "another request works on this invoice", slog.LevelInfo
	case code == http.StatusServiceUnavailable:
		text = "try again later: nothing is known about this invoice"
		w.Header().Set("Retry-After", "5") // the command timeout: a shorter outage has cost nobody anything
	case code < http.StatusInternalServerError:
		text, level = http.StatusText(code), slog.LevelInfo
	}
	slog.LogAttrs(r.Context(), level, "request failed", slog.String("path", r.URL.Path), slog.Int("status", code), slog.Any("error", err))
	http.Error(w, text, code)
}

// maxWaiting is how many requests may wait for locks before the load balancer should send further ones elsewhere.
const maxWaiting = 50

// ready is for a readiness probe. It sends nothing to Redis. An outage of Redis makes no instance unready, because the others have the
// same Redis.
func (a *api) ready(w http.ResponseWriter, _ *http.Request) {
	stats := a.locks.Stats()
	w.Header().Set("Content-Type", "application/json")
	if stats.Waiting > maxWaiting {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(stats)
}

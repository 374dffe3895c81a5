//go:build !cellonly

package main

import (
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
)

// startServer starts a server and returns its address.
func startServer(tb testing.TB) string {
	tb.Helper()
	return redistest.Start(tb).Addr
}

// startCluster starts a cluster and returns the addresses of its nodes, masters first.
func startCluster(tb testing.TB) []string {
	tb.Helper()
	return redistest.StartCluster(tb).Options().Addrs
}

//go:build cellonly

package main

import "testing"

// With the tag cellonly, bench needs only the public API of rlock. -compare builds the other checkout this way, because
// the test servers there may live elsewhere.

func startServer(tb testing.TB) string {
	tb.Helper()
	tb.Fatal("built with the tag cellonly: this program only runs cells")
	return ""
}

func startCluster(tb testing.TB) []string {
	tb.Helper()
	tb.Fatal("built with the tag cellonly: this program only runs cells")
	return nil
}

package main

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// bed is where servers live: what redistest asks of a test, without one. The embedded TB is nil; redistest calls nothing
// but what is here.
type bed struct {
	testing.TB

	log      io.Writer
	cleanups []func()
}

// Helper does nothing.
func (*bed) Helper() {}

// Cleanup keeps what is to be done in the end.
func (b *bed) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

// TempDir makes a directory that is removed in the end.
func (b *bed) TempDir() string {
	dir, err := os.MkdirTemp("", "rlock-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Skip ends the program: without a server there is nothing to measure.
func (b *bed) Skip(args ...any) { b.Fatal(args...) }

// Fatalf is Fatal with a format.
func (b *bed) Fatalf(format string, args ...any) { b.Fatal(fmt.Sprintf(format, args...)) }

// Fatal ends the program.
func (b *bed) Fatal(args ...any) {
	_, _ = fmt.Fprintln(b.log, args...)
	b.close()
	os.Exit(1)
}

// close does what was to be done in the end, the last first.
func (b *bed) close() {
	for len(b.cleanups) > 0 {
		last := len(b.cleanups) - 1
		f := b.cleanups[last]
		b.cleanups = b.cleanups[:last]
		f()
	}
}

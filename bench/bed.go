package main

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// bed owns the servers. It implements the part of testing.TB that redistest uses, outside a test. The embedded TB is nil.
type bed struct {
	testing.TB

	log      io.Writer
	cleanups []func()
}

// Helper does nothing.
func (*bed) Helper() {}

// Cleanup registers a function for close.
func (b *bed) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

// TempDir creates a directory that close removes.
func (b *bed) TempDir() string {
	dir, err := os.MkdirTemp("", "rlock-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Skip ends the program, because nothing can be measured without a server.
func (b *bed) Skip(args ...any) { b.Fatal(args...) }

// Fatalf is Fatal with a format.
func (b *bed) Fatalf(format string, args ...any) { b.Fatal(fmt.Sprintf(format, args...)) }

// Fatal ends the program.
func (b *bed) Fatal(args ...any) {
	_, _ = fmt.Fprintln(b.log, args...)
	b.close()
	os.Exit(1)
}

// close runs the registered functions, the last one first.
func (b *bed) close() {
	for len(b.cleanups) > 0 {
		last := len(b.cleanups) - 1
		f := b.cleanups[last]
		b.cleanups = b.cleanups[:last]
		f()
	}
}

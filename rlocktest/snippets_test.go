package rlocktest_test

import (
	"testing"

	"github.com/go-rlock/rlock/internal/testkit/snippets"
)

// TestSnippets compiles and runs the code in the documents that needs this module.
func TestSnippets(t *testing.T) {
	t.Parallel()
	snippets.Check(t, "rlocktest")
}

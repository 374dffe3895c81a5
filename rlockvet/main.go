// Rlockvet finds mistakes in programs that use rlock. It runs by itself, or within go vet:
//
//	go run github.com/go-rlock/rlock/rlockvet@latest ./...
//	go vet -vettool=$(which rlockvet) ./...
//
// With -fix the first form also makes the changes that are safe. The command rlockvet help lists the analyzers, and rlockvet help NAME
// says what one of them finds, and what to write instead. A finding that is none is silenced by a comment with the reason, at the end of
// its line, or in the line before:
//
//	//rlockvet:ignore NAME reason
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/go-rlock/rlock/rlockvet/analyzers"
)

func main() { multichecker.Main(analyzers.All()...) }

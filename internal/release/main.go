// Command release prepares a release, and keeps the requirements of all modules in order. It is for maintainers: see CONTRIBUTING.md.
//
//	release tidy            makes go.mod and go.sum of all modules tidy
//	release tidy-check      fails if one is not tidy
//	release prepare v0.1.0  prepares a release, and prints its tags
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	r := repository(dir)
	switch {
	case len(args) == 1 && args[0] == "tidy":
		return r.tidy(false)
	case len(args) == 1 && args[0] == "tidy-check":
		return r.tidy(true)
	case len(args) == 2 && args[0] == "prepare":
		return r.prepare(args[1], os.Stdout)
	}
	return errors.New("usage: release tidy | tidy-check | prepare v1.2.3 (make release VERSION=v1.2.3)")
}

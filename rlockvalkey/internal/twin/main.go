// Command twin writes the module rlockvalkey from the module rlockrueidis: valkey-go is rueidis with other names. Run it after every change
// of rlockrueidis, with `go generate ./...` in rlockvalkey. A test fails if it was not.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
)

//go:generate go run .

// names has the names of rueidis, and what valkey-go has for them. Of two that fit, the first counts.
var names = strings.NewReplacer(
	// the rows of SECURITY.md, which are the same for both
	`"rueidis, every kind"`, `"rueidis, every kind"`,
	`"rueidis with `, `"rueidis with `,
	"sentinels with rueidis", "sentinels with rueidis",
	"github.com/redis/rueidis", "github.com/valkey-io/valkey-go",
	"rlockrueidis", "rlockvalkey",
	"Rlockrueidis", "Rlockvalkey",
	"rueidishook", "valkeyhook",
	"rueidisotel", "valkeyotel",
	"rueidis. ", "valkey-go. ", // the end of a sentence
	"rueidis.\n", "valkey-go.\n",
	"rueidis.", "valkey.",
	"DRIVER=rueidis", "DRIVER=valkey",
	`Driver = "rueidis"`, `Driver = "valkey"`,
	"rueidis", "valkey-go",
	"RedisResult", "ValkeyResult",
	"RedisMessage", "ValkeyMessage",
	"NonRedisError", "NonValkeyError",
	"IsRedisErr", "IsValkeyErr",
	"IsRedisNil", "IsValkeyNil",
)

const header = "// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.\n\n"

// files returns the files of rlockvalkey, by their paths. source is the directory of rlockrueidis.
func files(source string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return nil, err
	}
	suites := filepath.Join(source, "internal", "suites")
	paths = append(paths, filepath.Join(suites, "connect.go"), filepath.Join(suites, "go.work"))
	all := make(map[string][]byte, len(paths))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		twin := []byte(names.Replace(string(text)))
		if strings.HasSuffix(path, ".go") {
			if twin, err = format.Source(append([]byte(header), twin...)); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		relative, err := filepath.Rel(source, path)
		if err != nil {
			return nil, err
		}
		all[names.Replace(relative)] = twin
	}
	return all, nil
}

// outdated returns the files of a directory that are not as files has them.
func outdated(dir string, all map[string][]byte) (paths []string) {
	for path, twin := range all {
		if text, err := os.ReadFile(filepath.Join(dir, path)); err != nil || !bytes.Equal(text, twin) {
			paths = append(paths, path)
		}
	}
	return paths
}

// main writes the files that are outdated. It runs in its own directory, as go generate does.
func main() {
	all, err := files("../../../rlockrueidis")
	if err == nil {
		err = write("../..", all)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir string, all map[string][]byte) error {
	for _, path := range outdated(dir, all) {
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, all[path], 0o644); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
)

// here returns this checkout.
func here() repository { return repository(testkit.Must(filepath.Abs(testkit.Repository()))) }

// read returns a file of the repository.
func (r repository) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(r.join(file))
	require.NoError(t, err)
	return string(text)
}

// versions returns the versions of modules of this repository that a go.mod or a go.work names.
func versions(text string) (found []string) {
	for _, m := range own.FindAllStringSubmatch(text, -1) {
		found = append(found, m[2])
	}
	return found
}

// TestModulesRequireOneRelease checks that all modules require the same version of each other, and that none has a replacement: a
// reader of a published go.mod gets what it requires, and go install refuses one with replacements.
func TestModulesRequireOneRelease(t *testing.T) {
	t.Parallel()
	r := here()
	dirs, err := r.modules()
	require.NoError(t, err)
	require.Subset(t, dirs, published)
	var all []string
	for _, name := range []string{"go.mod", "go.work"} {
		for _, file := range testkit.Must(r.named(name)) {
			text := r.read(t, file)
			all = append(all, versions(text)...)
			if name == "go.mod" {
				require.NotContains(t, text, "replace", file)
				require.NotContains(t, text, "exclude", file)
			}
		}
	}
	require.Greater(t, len(all), len(published))
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), 1, "versions of modules of rlock in go.mod and go.work")
	for i, dir := range published {
		for _, other := range published[i+1:] {
			require.NotContains(t, r.read(t, path.Join(dir, "go.mod")), modulePath(other)+" v", "%s is tagged before %s", dir, other)
		}
	}
}

// TestEveryModuleIsListed checks the lists of modules: that of the Makefile, and those in the go.work files.
func TestEveryModuleIsListed(t *testing.T) {
	t.Parallel()
	r := here()
	dirs, err := r.modules()
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?m)^MODULES = (.*)$`).FindStringSubmatch(r.read(t, "Makefile"))
	require.ElementsMatch(t, dirs, append(strings.Fields(listed[1]), "."), "MODULES in the Makefile")
	for _, dir := range dirs {
		work := dir
		for work != "." && !exists(r.join(work, "go.work")) {
			work = path.Dir(work)
		}
		used := regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(r.read(t, path.Join(work, "go.work")), -1)
		require.True(t, slices.ContainsFunc(used, func(m []string) bool { return path.Join(work, m[1]) == dir }),
			"%s/go.work, which the go command reads in %s, does not use it", work, dir)
	}
}

// TestWorkspaceKeepsTheLeastVersions checks that the go.work of the root has the modules tested with the oldest versions of client
// libraries that they require, although in a workspace the newest one wins.
func TestWorkspaceKeepsTheLeastVersions(t *testing.T) {
	t.Parallel()
	r := here()
	for dir, library := range map[string]string{
		".": "github.com/redis/go-redis/v9", "rlockrueidis": "github.com/redis/rueidis", "rlockvalkey": "github.com/valkey-io/valkey-go",
		"rlockcron": "github.com/go-co-op/gocron/v2", "rlockotel": "go.opentelemetry.io/otel",
	} {
		out, err := r.run(dir, nil, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", library)
		require.NoError(t, err)
		require.Contains(t, r.read(t, path.Join(dir, "go.mod")), strings.TrimSpace(out), "the version in use")
	}
}

// TestVersionsPageIsCurrent compares docs/versions.md with what it is about.
func TestVersionsPageIsCurrent(t *testing.T) {
	t.Parallel()
	r := here()
	page := r.read(t, "docs/versions.md")
	least := func(dir, pattern string) string {
		return regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(r.read(t, path.Join(dir, "go.mod")))[1]
	}
	for name, version := range map[string]string{
		"Go":        least(".", `^go (\d+\.\d+)\.0$`),
		"go-redis":  least(".", `/go-redis/v9 (v\S+)$`),
		"rueidis":   least("rlockrueidis", `/rueidis (v\S+)$`),
		"valkey-go": least("rlockvalkey", `/valkey-go (v\S+)$`),
	} {
		require.Contains(t, page, "\n| "+name+" | "+version+" | ")
	}
	require.Contains(t, page, "driver.RlockAndRlockrueidis"+edition.FindString(r.read(t, editionFile))+"\n")
	marked := regexp.MustCompile(`func (\w+)\(`)
	for _, file := range testkit.Must(filepath.Glob(r.join("*.go"))) {
		for part := range strings.SplitSeq(r.read(t, filepath.Base(file)), "\n\n") {
			if strings.Contains(part, "\n// Experimental: ") {
				require.Contains(t, page, "`"+marked.FindStringSubmatch(part)[1]+"`", "an experimental option")
			}
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

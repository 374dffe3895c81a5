package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// copied returns a repository with the module files of this one, and with a commit.
func copied(t *testing.T) repository {
	t.Helper()
	from, to := here(), repository(t.TempDir())
	files := []string{"CHANGELOG.md", editionFile}
	for _, name := range []string{"go.mod", "go.sum", "go.work"} {
		found, err := from.named(name)
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		to.write(t, file, from.read(t, file))
	}
	to.git(t, "init", "--quiet")
	to.commit(t)
	return to
}

func (r repository) write(t *testing.T, file, text string) {
	t.Helper()
	dir := file[:strings.LastIndex("/"+file, "/")]
	require.NoError(t, os.MkdirAll(r.join(dir), 0o755))
	require.NoError(t, os.WriteFile(r.join(file), []byte(text), 0o600))
}

func (r repository) git(t *testing.T, args ...string) {
	t.Helper()
	_, err := r.run(".", nil, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	require.NoError(t, err)
}

func (r repository) commit(t *testing.T) {
	t.Helper()
	r.git(t, "add", "--all")
	r.git(t, "commit", "--quiet", "--message", "a commit")
}

func (r repository) refuses(t *testing.T, version, why string) {
	t.Helper()
	var out strings.Builder
	require.ErrorContains(t, r.prepare(version, &out), why)
	require.Empty(t, out.String())
}

// TestPrepareRefuses checks what keeps a release from being tagged.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	r := copied(t)
	r.refuses(t, "0.1.0", `a version is v1.2.3 or v1.2.3-rc.1, not "0.1.0"`)
	r.refuses(t, "", `not ""`)
	r.refuses(t, "v7.8.9", `CHANGELOG.md has no section "## 7.8.9"`)

	r.write(t, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- it is faster\n\n## 7.8.9\n\n- it is\n")
	r.refuses(t, "v7.8.9", "commit these changes first:\n M CHANGELOG.md")
	r.commit(t)
	r.refuses(t, "v7.8.9", "Unreleased: they belong to 7.8.9")

	r.write(t, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 7.8.9 (today)\n\n- it is\n")
	r.commit(t)
	r.git(t, "tag", "v7.8.0")
	r.write(t, editionFile, strings.ReplaceAll(r.read(t, editionFile), "MinorVersion", "MinorVersion9"))
	r.commit(t)
	r.refuses(t, "v7.8.9", "driver modules of v7.8.0 would not compile with v7.8.9")

	r.git(t, "tag", "v7.8.9")
	r.refuses(t, "v7.8.9", "the tag v7.8.9 exists already")
}

// TestRequireSetsOneVersion checks that each go.mod and go.work gets the version of the release, and nothing else changes.
func TestRequireSetsOneVersion(t *testing.T) {
	t.Parallel()
	r := copied(t)
	set, err := r.require("v7.8.9-rc.1")
	require.NoError(t, err)
	require.True(t, set)
	for _, name := range []string{"go.mod", "go.work"} {
		files, err := r.named(name)
		require.NoError(t, err)
		for _, file := range files {
			for _, version := range versions(r.read(t, file)) {
				require.Equal(t, "v7.8.9-rc.1", version, file)
			}
		}
	}
	set, err = r.require(versions(here().read(t, "go.work"))[0])
	require.NoError(t, err)
	require.True(t, set)
	out, err := r.run(".", nil, "git", "status", "--porcelain")
	require.NoError(t, err)
	require.Empty(t, out, "the old version again, so the old files again")
}

func TestTagsAreOfEachModuleAndTheRootsIsFirst(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, announce("v7.8.9", &out))
	require.Contains(t, out.String(), " v7.8.9\n  git tag --annotate --message 'rlock v7.8.9' rlockrueidis/v7.8.9\n")
	require.Contains(t, out.String(), "\n  git push origin v7.8.9\n  git push origin rlockrueidis/v7.8.9 ")
	require.Contains(t, out.String(), " cmd/rlock/v7.8.9 ")
}

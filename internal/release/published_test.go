package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// site is a machine that knows rlock only as published: by a module proxy of files.
type site struct {
	t     *testing.T
	repo  repository
	proxy string
	bin   string   // of go install
	env   []string // of every command
}

// newSite publishes all modules. Everything else comes from what the go command of this machine has downloaded: there is no network.
func newSite(t *testing.T, version string) *site {
	t.Helper()
	if os.Getenv("RLOCK_PUBLISHED") == "" {
		t.Skip("takes a minute, and needs what the modules require to be downloaded: run make published")
	}
	s := &site{t: t, repo: here(), proxy: t.TempDir(), bin: t.TempDir()}
	for _, dir := range published {
		stand, err := s.repo.standIn(dir, t.TempDir())
		require.NoError(t, err)
		_, err = s.repo.run(dir, []string{"GOWORK=off", "GOFLAGS=-modfile=" + stand}, "go", "list", "-deps", "./...") // downloads what is missing
		require.NoError(t, err)
		require.NoError(t, s.repo.publish(s.proxy, dir, version, nil))
	}
	cache := s.goEnv("GOMODCACHE")
	s.env = []string{
		"GOPROXY=file://" + s.proxy + ",file://" + filepath.Join(cache, "cache", "download"), "GOSUMDB=off", "GOTOOLCHAIN=local",
		"GOPATH=" + t.TempDir(), "GOMODCACHE=" + t.TempDir(), "GOBIN=" + s.bin, "GOCACHE=" + s.goEnv("GOCACHE"),
		"GOENV=off", "GOWORK=off", "GO111MODULE=", "PATH=" + s.bin + string(filepath.ListSeparator) + os.Getenv("PATH"),
		// So that the build cache serves other runs, also those of CI, and the files can be deleted.
		"GOFLAGS=-trimpath -modcacherw " + os.Getenv("GOFLAGS"),
	}
	return s
}

func (s *site) goEnv(name string) string {
	s.t.Helper()
	out, err := s.repo.run(".", nil, "go", "env", name)
	require.NoError(s.t, err)
	return strings.TrimSpace(out)
}

// shell runs a line in a directory, as a reader would type it.
func (s *site) shell(dir, line string) (out string, err error) {
	return repository(dir).run(".", s.env, "sh", "-ec", line)
}

// empty returns the directory of a module that requires nothing yet.
func (s *site) empty() string {
	s.t.Helper()
	dir := s.t.TempDir()
	_, err := s.shell(dir, "go mod init example.org/shop")
	require.NoError(s.t, err)
	return dir
}

// command is a line that a page tells the reader to type.
type command struct{ page, line string }

// modules returns the paths of the modules of rlock that the line names.
func (c command) modules() (paths []string) {
	for word := range strings.FieldsSeq(c.line) {
		if name, _, _ := strings.Cut(word, "@"); strings.HasPrefix(name, rootModule) {
			paths = append(paths, name)
		}
	}
	return paths
}

var (
	fence    = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	goLine   = regexp.MustCompile(`(?m)^(?:go (?:get|install|run) .*` + regexp.QuoteMeta(rootModule) + `|go vet -vettool).*$`)
	prints   = regexp.MustCompile("<!-- snippet: prints (\".*\") -->\n```go\n")
	language = regexp.MustCompile(`^(sh|bash|console)?$`)
)

// pages returns the texts of all pages that tell a reader what to do, by their paths.
func pages(t *testing.T, r repository) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guide/*.md"} {
		for _, file := range testkit.Must(filepath.Glob(r.join(pattern))) {
			relative := filepath.ToSlash(testkit.Must(filepath.Rel(string(r), file)))
			all[relative] = r.read(t, relative)
		}
	}
	return all
}

// commands returns what the pages tell the reader to type.
func commands(t *testing.T, r repository) (all []command) {
	t.Helper()
	for page, text := range pages(t, r) {
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			if !language.MatchString(block[1]) {
				continue
			}
			for _, line := range goLine.FindAllString(block[2], -1) {
				line, _, _ = strings.Cut(line, " #")
				all = append(all, command{page, strings.TrimSpace(line)})
			}
		}
	}
	// One that installs a program comes before one that uses it.
	slices.SortFunc(all, func(a, b command) int { return strings.Compare(a.line+a.page, b.line+b.page) })
	return slices.CompactFunc(all, func(a, b command) bool { return a.line == b.line })
}

// TestPagesSayHowToGetEveryModule checks that each module that users take has a line in a page, which TestPublished then runs.
func TestPagesSayHowToGetEveryModule(t *testing.T) {
	t.Parallel()
	var named []string
	for _, c := range commands(t, here()) {
		named = append(named, c.modules()...)
	}
	for _, dir := range published {
		require.Contains(t, named, modulePath(dir))
	}
	for _, name := range named {
		require.True(t, slices.ContainsFunc(published, func(dir string) bool { return modulePath(dir) == name }), "%s is not published", name)
	}
}

// TestPublished does what the pages tell the reader to type, in empty modules and with rlock as published.
func TestPublished(t *testing.T) {
	version := versions(here().read(t, "go.work"))[0]
	s := newSite(t, version)
	shop := s.empty() // has a program already
	_, err := s.shell(shop, "go get "+rootModule)
	require.NoError(t, err)
	program, says := readme(t, s.repo)
	server := redistest.Start(t)
	program = strings.ReplaceAll(program, "localhost:6379", server.Addr)
	require.NoError(t, os.WriteFile(filepath.Join(shop, "main.go"), []byte(program), 0o600))

	t.Run("the program of README", func(t *testing.T) {
		_, err := s.shell(shop, "go build -o program . && go vet .")
		require.NoError(t, err)
		out, err := s.shell(shop, "./program")
		require.NoError(t, err)
		require.Equal(t, says, strings.TrimSpace(out))
		_, err = s.shell(shop, "go mod tidy && go build .") // as a reader does in the end
		require.NoError(t, err)
	})
	for i, c := range commands(t, s.repo) {
		t.Run(fmt.Sprintf("%d %s", i, strings.ReplaceAll(c.line, "/", ".")), func(t *testing.T) {
			verb := strings.Fields(c.line)[1]
			dir := shop
			if verb == "get" {
				dir = s.empty()
			}
			_, err := s.shell(dir, c.line)
			require.NoError(t, err, "%s: %s", c.page, c.line)
			for _, module := range c.modules() {
				switch verb {
				case "get":
					s.imports(t, dir, module, version)
				case "install":
					s.installed(t, module, version)
					_, err := s.shell(dir, "go install "+module+"@"+version)
					require.NoError(t, err)
				}
			}
		})
	}
	t.Run("a version of rlock that the driver modules do not fit", s.misfit)
}

// misfit checks what a user reads who takes another minor version of rlock alone, one that driver modules do not fit.
func (s *site) misfit(t *testing.T) {
	t.Helper()
	const other = "v0.9999.0"
	require.NoError(t, s.repo.publish(s.proxy, ".", other, func(file string, text []byte) []byte {
		if file == editionFile {
			return edition.ReplaceAll(text, []byte("MustHaveTheSameMinorVersion9999"))
		}
		return text
	}))
	for _, name := range []string{"rlockrueidis", "rlockvalkey"} {
		dir := s.empty()
		_, err := s.shell(dir, "go get "+modulePath(name)+" && go get "+rootModule+"@"+other)
		require.NoError(t, err)
		out, err := s.shell(dir, "go build "+modulePath(name))
		require.Error(t, err)
		title := strings.ToUpper(name[:1]) + name[1:]
		require.Regexp(t, `^# `+modulePath(name)+`\n.*agreement\.go:\d+:\d+: undefined: driver\.RlockAnd`+title+`MustHaveTheSameMinorVersion\d+\n`, out)
	}
}

// imports checks that a program can import a module, in the version.
func (s *site) imports(t *testing.T, dir, module, version string) {
	t.Helper()
	text := fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", module)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600))
	out, err := s.shell(dir, "go build -o program . && ./program && go list -m "+rootModule+" "+module)
	require.NoError(t, err)
	require.Contains(t, out, rootModule+" "+version+"\n")
	require.Contains(t, out, module+" "+version+"\n")
}

// installed checks that a command was installed in the version, and that rlock says so itself.
func (s *site) installed(t *testing.T, module, version string) {
	t.Helper()
	out, err := s.shell(s.bin, "go version -m "+path.Base(module))
	require.NoError(t, err)
	require.Contains(t, out, "\tmod\t"+module+"\t"+version)
	if path.Base(module) == "rlock" {
		out, err = s.shell(s.bin, "rlock --version")
		require.NoError(t, err)
		require.Equal(t, "rlock version "+version, strings.TrimSpace(out))
	}
}

// readme returns the program of README, and what it prints.
func readme(t *testing.T, r repository) (program, says string) {
	t.Helper()
	text := r.read(t, "README.md")
	at := prints.FindStringSubmatchIndex(text)
	require.NotNil(t, at, "README has a program, and says what it prints")
	program, _, _ = strings.Cut(text[at[1]:], "```\n")
	says, err := strconv.Unquote(text[at[2]:at[3]])
	require.NoError(t, err)
	return program, says
}

package rlockotel_test

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
)

// program is a user's. It prints the version of the scope that the metrics and the spans have.
const program = `package main

import (
	"fmt"

	"github.com/go-rlock/rlock/rlockotel"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
)

type meters struct{ noopmetric.MeterProvider }

func (m meters) Meter(name string, opts ...metric.MeterOption) metric.Meter {
	c := metric.NewMeterConfig(opts...)
	fmt.Println(name, c.InstrumentationVersion())
	return m.MeterProvider.Meter(name, opts...)
}

type tracers struct{ nooptrace.TracerProvider }

func (t tracers) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	c := trace.NewTracerConfig(opts...)
	fmt.Println(name, c.InstrumentationVersion())
	return t.TracerProvider.Tracer(name, opts...)
}

func main() { rlockotel.Observe(rlockotel.WithMeterProvider(meters{}), rlockotel.WithTracerProvider(tracers{})) }
`

// TestTheVersionOfADependency has a program take this checkout as v0.1.0 from a module proxy of files, as users take a release.
func TestTheVersionOfADependency(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program, and all that it needs")
	}
	proxy, dir := t.TempDir(), t.TempDir()
	publish(t, proxy, "github.com/go-rlock/rlock", testkit.Repository())
	publish(t, proxy, "github.com/go-rlock/rlock/rlockotel", filepath.Join(testkit.Repository(), "rlockotel"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	run := func(in string, env []string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
		return string(out)
	}
	env := []string{
		"GOWORK=off", "GONOSUMDB=github.com/go-rlock", "GOFLAGS=-mod=mod -modcacherw " + os.Getenv("GOFLAGS"), "GOMODCACHE=" + filepath.Join(proxy, "cache"),
		"GOPROXY=file://" + proxy + "," + strings.TrimSpace(run(".", nil, "env", "GOPROXY")),
	}
	run(dir, env, "mod", "init", "example.com/shop")
	// The others are those of this module, where they are, because they are compiled already.
	for line := range strings.Lines(run(".", nil, "list", "-m", "-f", "{{.Path}} {{.Version}} {{.Dir}}", "all")) {
		other := strings.Fields(line)
		if len(other) < 3 || strings.HasPrefix(other[0], "github.com/go-rlock/") {
			continue
		}
		if _, err := os.Stat(filepath.Join(other[2], "go.mod")); err != nil {
			continue // a module of old, which another one of the workspace needs
		}
		run(dir, env, "mod", "edit", "-require="+other[0]+"@"+other[1], "-replace="+other[0]+"="+other[2])
	}
	run(dir, env, "get", "github.com/go-rlock/rlock/rlockotel@v0.1.0")
	const line = "github.com/go-rlock/rlock/rlockotel v0.1.0\n"
	require.Contains(t, run(dir, env, "run", "."), line+line)
}

// publish puts the files of a module into a proxy, as its v0.1.0.
func publish(t *testing.T, proxy, path, dir string) {
	t.Helper()
	const version = "v0.1.0"
	at := filepath.Join(proxy, path, "@v")
	require.NoError(t, os.MkdirAll(at, 0o700))
	mod := filepath.Join(at, version+".mod")
	require.NoError(t, os.WriteFile(mod, testkit.Must(os.ReadFile(filepath.Join(dir, "go.mod"))), 0o600))
	if path != "github.com/go-rlock/rlock" { // as a release does
		edit := exec.CommandContext(t.Context(), "go", "mod", "edit", "-dropreplace=github.com/go-rlock/rlock",
			"-require=github.com/go-rlock/rlock@"+version, mod)
		out, err := edit.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, os.WriteFile(filepath.Join(at, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o600))
	file := testkit.Must(os.Create(filepath.Join(at, version+".zip")))
	archive := zip.NewWriter(file)
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		if entry.IsDir() {
			_, other := os.Stat(filepath.Join(name, "go.mod"))
			if name != dir && (other == nil || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		text := testkit.Must(os.ReadFile(name))
		if name == filepath.Join(dir, "go.mod") {
			text = testkit.Must(os.ReadFile(mod))
		}
		within := testkit.Must(filepath.Rel(dir, name))
		_, err = testkit.Must(archive.Create(path + "@" + version + "/" + filepath.ToSlash(within))).Write(text)
		return err
	}))
	require.NoError(t, archive.Close())
	require.NoError(t, file.Close())
}

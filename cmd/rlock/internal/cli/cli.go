// Package cli is the command rlock: its subcommands, flags, output and exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/cmd/rlock/internal/child"
	"github.com/go-rlock/rlock/cmd/rlock/internal/deploy"
)

// app is one run of the command.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File
	getenv         func(string) string

	config    deploy.Config
	keyPrefix string
}

// Main runs the command with these arguments, and returns its exit code.
func Main(args []string, stdin, stdout, stderr *os.File, getenv func(string) string) int {
	redis.SetLogger(silent{}) // errors that matter are returned
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: getenv}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	speak(root)
	err := root.Execute()
	code, text := outcome(err)
	if text != "" {
		a.say("%s", strings.TrimPrefix(text, "rlock: "))
	}
	var e *exit
	if errors.As(err, &e) && e.interrupted {
		die(syscall.SIGINT)
	}
	return code
}

// say writes one line to stderr.
func (a *app) say(format string, args ...any) {
	text := strings.Join(strings.FieldsFunc(fmt.Sprintf(format, args...), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	_, _ = fmt.Fprintln(a.stderr, "rlock: "+text)
}

const long = `rlock shows the locks that are in Redis, those of the Go library rlock and of Redisson alike, frees them, and runs programs under them.

Redis is the one at REDIS_URL, such as redis://user:password@host:6379/0, or at --url or --addr. A password belongs into the
environment or into a file (--password-file), not on the command line, where every user of the machine can read it.

Exit codes: 0 done · 1 no, such as a lock that is not there · 64 wrong arguments · 69 Redis is unavailable · 70 another error.
128 and the number of the signal: interrupted.
rlock run and rlock doctor have more.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "rlock", Short: "See, free and use the locks in Redis", Long: long, Version: version(),
		SilenceErrors: true, SilenceUsage: true,
	}
	f, c := root.PersistentFlags(), &a.config
	f.StringVar(&c.URL, "url", "", "Redis, as redis://, rediss:// or unix:// (default: REDIS_URL, or redis://localhost:6379)")
	f.StringSliceVar(&c.Addrs, "addr", nil, "`host:port` instead of the URL's; several for a cluster or for Sentinels")
	f.BoolVar(&c.Cluster, "cluster", false, "it is a Redis Cluster")
	f.StringVar(&c.SentinelMaster, "sentinel-master", "", "the addresses are Sentinels, which know the master by this `name`")
	f.StringVar(&c.User, "user", "", "user of Redis (default: the URL's, or REDIS_USERNAME)")
	f.StringVar(&c.PasswordFile, "password-file", "", "`file` with the password (default: the URL's, or REDIS_PASSWORD)")
	f.StringVar(&c.SentinelUser, "sentinel-user", "", "user of the Sentinels")
	f.StringVar(&c.SentinelPasswordFile, "sentinel-password-file", "", "`file` with their password (default: REDIS_SENTINEL_PASSWORD)")
	f.BoolVar(&c.TLS, "tls", false, "use TLS, as rediss:// does")
	f.StringVar(&c.CAFile, "tls-ca", "", "PEM `file` of the certificate authority (default: those of the system)")
	f.StringVar(&c.CertFile, "tls-cert", "", "PEM `file` of the client's certificate")
	f.StringVar(&c.KeyFile, "tls-key", "", "PEM `file` of its key")
	f.StringVar(&c.ServerName, "tls-server-name", "", "`name` in the server's certificate, if it is not the host")
	f.DurationVar(&c.Timeout, "timeout", 3*time.Second, "how long a connection may take, and how long a reply")
	f.StringVar(&a.keyPrefix, "key-prefix", "", "what the services give to WithKeyPrefix; names are then without it")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return named(cmd.Flags()) }
	root.AddCommand(a.run(), a.list(), a.show(), a.free(), a.doctor(), a.ui(), a.demo(), a.script())
	return root
}

// named refuses a flag that is given an empty value, except for a part of a name. An unset variable of a shell must not lead to another Redis,
// have another user examined, or have the page listen everywhere.
func named(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "key-prefix", "prefix", "match":
			return
		}
		values := []string{f.Value.String()}
		if all, ok := f.Value.(pflag.SliceValue); ok {
			values = all.GetSlice()
		}
		if f.Changed && (len(values) == 0 || slices.Contains(values, "")) {
			err = usage(fmt.Errorf("--%s is empty", f.Name))
		}
	})
	return err
}

// open connects. finish closes all.
func (a *app) open(opts ...rlock.Option) (rdb redis.UniversalClient, locks *rlock.Client, where string, finish func(), err error) {
	if a.config.Timeout < 10*time.Millisecond {
		return nil, nil, "", nil, usage(fmt.Errorf("--timeout is %v, less than 10ms", a.config.Timeout))
	}
	rdb, where, err = a.config.Open(a.getenv)
	if err != nil {
		return nil, nil, "", nil, usage(err)
	}
	opts = append(opts, rlock.WithKeyPrefix(a.keyPrefix), rlock.WithCommandTimeout(a.config.Timeout), rlock.WithLogger(slog.New(&lines{a: a})))
	locks, err = rlock.New(rdb, opts...)
	if err != nil {
		_ = rdb.Close()
		return nil, nil, "", nil, err
	}
	return rdb, locks, where, func() { _ = locks.Close(); _ = rdb.Close() }, nil
}

// withCatalog runs a subcommand that reads what is in Redis, until it is interrupted. what says what it does.
func (a *app) withCatalog(what string, run func(ctx context.Context, c *catalog.Catalog) error) error {
	rdb, locks, where, finish, err := a.open()
	if err != nil {
		return err
	}
	defer finish()
	return a.withSignals(func(ctx context.Context) error {
		note, err := a.config.Check(ctx, rdb, where)
		if note != "" {
			a.say("warning: %s", note)
		}
		if err == nil {
			err = run(ctx, a.catalog(rdb, locks))
		}
		return a.asked(what, where, err)
	})
}

func (a *app) catalog(rdb redis.UniversalClient, locks *rlock.Client) *catalog.Catalog {
	return catalog.New(rdb, locks, a.keyPrefix).Within(a.config.Timeout)
}

// withSignals runs something until it is interrupted. Its error is then that of the signal.
func (*app) withSignals(run func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as by nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(&exit{code: exitSignal + int(number), err: errInterrupted, interrupted: number == syscall.SIGINT && child.Terminal()})
		case <-ctx.Done():
		}
	}()
	err := run(ctx)
	if by := (*exit)(nil); errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &by) {
		return by
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// released is the version of a program that was not built by go install, such as one that is attached to a release: see .goreleaser.yaml.
var released string

func version() string {
	if released != "" {
		return released
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "unknown"
}

// silent is a logger for go-redis, which would write to stderr on its own.
type silent struct{}

// Printf drops a line.
func (silent) Printf(context.Context, string, ...any) {}

// lines is a handler that writes a warning as one line.
type lines struct{ a *app }

// Enabled implements [slog.Handler].
func (*lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	text := strings.TrimPrefix(r.Message, "rlock: ")
	if strings.HasPrefix(text, "lock lost") {
		return nil // the command says so when it ends
	}
	r.Attrs(func(attr slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", attr.Key, attr.Value)
		return true
	})
	l.a.say("%s", text)
	return nil
}

// WithAttrs implements [slog.Handler].
func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements [slog.Handler].
func (l *lines) WithGroup(string) slog.Handler { return l }

// errWrite marks an error of the output, such as a pipe that was closed.
var errWrite = errors.New("write")

// output writes to a file, with errors that are marked.
type output struct{ file *os.File }

// Write implements [io.Writer].
func (o output) Write(text []byte) (int, error) {
	n, err := o.file.Write(text)
	if err != nil {
		err = fmt.Errorf("%w: %w", errWrite, err)
	}
	return n, err
}

func (a *app) print(to *os.File, text string) error {
	_, err := io.WriteString(output{to}, text)
	return err
}

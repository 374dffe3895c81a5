package contract

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// class is an error that callers can tell from others, with what it means to them. The words are those of the page.
type class struct {
	name   string
	what   string // what happened
	holder string // which owner may hold the lock now
	retry  string // whether a retry is safe
	http   string
	grpc   string
	scenes []scene // which provoke it
}

const (
	bug       = "No: the program needs a change."
	nobodyNew = "as before the call"
)

var classes = []class{
	{
		name: "ErrNotAcquired", what: "Another owner held the lock until the wait was over, or the context ended. Redis said so. " +
			"In the second case it matches the error and the cause of the context, too.",
		holder: "another owner", retry: "Yes. Nothing was done.", http: "409", grpc: "ABORTED", scenes: refusals,
	},
	{
		name: "ErrUnavailable", what: "Redis gave no usable answer in time: no reply, no connection, or a temporary error.",
		holder: "Unknown. After an acquisition, not this owner: a late grant is released in the background. " +
			"After an unlock, not this owner: the lock is free when the lease ends, at the latest.",
		retry: "Yes, after a pause. Nothing was done under the lock. An unlock needs no retry.", http: "503 with Retry-After",
		grpc: "UNAVAILABLE", scenes: outages,
	},
	{
		name: "ErrNotReplicated", what: "Fewer replicas have acknowledged the acquisition than `WithReplicaAcks` asks for, so rlock released it. " +
			"It matches `ErrUnavailable` too.",
		holder: "not this owner", retry: "Yes, after a pause.", http: "503 with Retry-After", grpc: "UNAVAILABLE", scenes: unreplicated,
	},
	{
		name: "ErrLost", what: "The lock was held, and ended before its unlock. Its lease ran out, or another process freed it. " +
			"It matches `ErrNotHeld` too.",
		holder: "perhaps another owner, since an unknown moment", http: "500", grpc: "ABORTED",
		retry: "Only if the work may be done twice, or if its fencing token protects it.", scenes: losses,
	},
	{
		name: "ErrNotHeld", what: "There is nothing to unlock or to extend: this owner has not locked it, or has unlocked it already. Nothing was sent.",
		holder: nobodyNew, retry: bug, http: "500", grpc: "INTERNAL", scenes: unheld,
	},
	{
		name: "ErrClosed", what: "The client is closed, or shuts down. This process takes no locks any more; unlocks still work.",
		holder: nobodyNew, retry: "Yes, on another instance.", http: "503", grpc: "UNAVAILABLE", scenes: closed,
	},
	{
		name: "ErrNoPermits", what: "Nobody has set the semaphore up. It matches `ErrNotAcquired` too.",
		holder: "nobody", retry: "Once somebody has set it up: see `Total`.", http: "500", grpc: "FAILED_PRECONDITION", scenes: unset,
	},
	{
		name: "ErrReentered", what: "The owner holds the lock already, and the handle is `NonReentrant`.",
		holder: "this owner, as before", retry: bug, http: "500", grpc: "INTERNAL", scenes: reentered,
	},
	{
		name: "ErrUpgrade", what: "The owner holds the read lock and asked for the write lock: it would wait for itself.",
		holder: "this owner holds the read lock, as before", retry: "After it has unlocked the read lock.", http: "500",
		grpc: "INTERNAL", scenes: upgraded,
	},
	{
		name: "ErrInvalidName", what: "The name cannot be the name of a lock. Nothing was sent.",
		holder: nobodyNew, retry: bug, http: "400 if the name comes from the request, otherwise 500",
		grpc: "INVALID_ARGUMENT or INTERNAL", scenes: invalidNames,
	},
	{
		name: "ErrInvalidOption", what: "An option or argument cannot work. Nothing was sent, unless only Redis could tell, as of a change that gives a semaphore too many permits: then nothing was changed.",
		holder: nobodyNew, retry: bug, http: "500", grpc: "INTERNAL", scenes: invalidOptions,
	},
	{
		name: "context.Canceled", what: "The caller's context was canceled, before the call or before Redis could reply. That says nothing about Redis or the lock.",
		holder: "not this owner", retry: "Yes.", http: "499, or none: nobody listens", grpc: "CANCELED", scenes: ended,
	},
	{
		name: "context.DeadlineExceeded", what: "The caller's deadline had passed before the call, which sent nothing.",
		holder: "not this owner", retry: "Yes.", http: "504", grpc: "DEADLINE_EXCEEDED", scenes: late,
	},
	{
		name: "an error of Redis", what: "Redis refused the command for a reason that does not pass by itself: a missing right, " +
			"a key that is no lock, no memory. It names the key. Find it with `errors.As` and a `redis.Error`.",
		holder: nobodyNew, retry: "No: an operator has to act. As 503 it would hide.", http: "500", grpc: "INTERNAL", scenes: replies,
	},
}

// known lists the errors that the page compares with errors.Is.
var known = []struct {
	name string
	is   func(error) bool
}{
	{"ErrNotAcquired", is(rlock.ErrNotAcquired)},
	{"ErrUnavailable", is(rlock.ErrUnavailable)},
	{"ErrNotReplicated", is(rlock.ErrNotReplicated)},
	{"ErrLost", is(rlock.ErrLost)},
	{"ErrNotHeld", is(rlock.ErrNotHeld)},
	{"ErrClosed", is(rlock.ErrClosed)},
	{"ErrNoPermits", is(rlock.ErrNoPermits)},
	{"ErrReentered", is(rlock.ErrReentered)},
	{"ErrUpgrade", is(rlock.ErrUpgrade)},
	{"ErrInvalidName", is(rlock.ErrInvalidName)},
	{"ErrInvalidOption", is(rlock.ErrInvalidOption)},
	{"context.Canceled", is(context.Canceled)},
	{"context.DeadlineExceeded", is(context.DeadlineExceeded)},
	{"an error of Redis", as[redis.Error]},
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

// TestThePageHasEveryError provokes each error on a real server, and compares the page with what came.
func TestThePageHasEveryError(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	redistest.NeedsRealServer(t, "the texts of its errors, also of a cluster")
	meanings := table("error", "meaning", "holder now", "retry", "HTTP", "gRPC")
	texts := make([][]string, len(classes))
	t.Run("scenes", func(t *testing.T) {
		for i, c := range classes {
			meanings += row("`"+c.name+"`", c.what, c.holder, c.retry, c.http, c.grpc)
			texts[i] = make([]string, len(c.scenes))
			for k, s := range c.scenes {
				t.Run(s.what, func(t *testing.T) {
					t.Parallel()
					err := s.run(newStage(t))
					require.Error(t, err)
					found := matches(err)
					require.Contains(t, found, c.name, "%v", err)
					require.False(t, is(rlock.ErrNotAcquired)(err) && is(rlock.ErrUnavailable)(err), "%v", err)
					texts[i][k] = row(s.what, "`"+strings.Join(found, "`, `")+"`", "`"+normalized(err.Error())+"`")
				})
			}
		}
	})
	if t.Failed() || slices.Contains(texts[0], "") { // without a server, the scenes are skipped
		return
	}
	examples := table("call", "matches", "text")
	for _, rows := range texts {
		examples += strings.Join(rows, "")
	}
	section(t, guide, "meanings", strings.ReplaceAll(meanings, "`an error of Redis`", "an error of Redis"))
	section(t, page, "texts", strings.ReplaceAll(examples, "`an error of Redis`", "an error of Redis"))
}

// matches returns the names of everything that an error matches.
func matches(err error) (names []string) {
	for _, k := range known {
		if k.is(err) {
			names = append(names, k.name)
		}
	}
	return names
}

// The parts of a text that differ from run to run.
var (
	uuids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ports     = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	durations = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`)
	scripts   = regexp.MustCompile(` script: [0-9a-f]{40}, on @user_script:\d+\.`)
)

// normalized returns a text as it is in every run.
func normalized(text string) string {
	text = uuids.ReplaceAllString(text, "<uuid>")
	text = ports.ReplaceAllString(text, "127.0.0.1:6379")
	text = durations.ReplaceAllString(text, "<time>")
	text = scripts.ReplaceAllString(text, "")
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}

// TestEveryErrorIsOnThePage compares the classes with the errors that the package exports.
func TestEveryErrorIsOnThePage(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(testkit.Repository(), "errors.go"), nil, 0)
	require.NoError(t, err)
	have := make(map[string]bool)
	for _, c := range classes {
		have[c.name] = true
		require.NotEmpty(t, c.scenes, c.name)
	}
	for _, d := range file.Decls {
		list, ok := d.(*ast.GenDecl)
		if !ok || list.Tok != token.VAR {
			continue
		}
		for _, spec := range list.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				require.True(t, !name.IsExported() || have[name.Name], "the page lacks %s", name.Name)
			}
		}
	}
}

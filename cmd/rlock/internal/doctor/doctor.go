// Package doctor examines a deployment of Redis: whether it is as rlock's documents say that it must be. Unless it is asked to try
// locks, it only reads, in steps that take Redis a few milliseconds at most.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// ErrDenied means that Redis replied, but lets the user do nothing: the name or the password is wrong, or missing. It is also what a
// user gets who may not ask a cluster for its nodes.
var ErrDenied = errors.New("Redis denies this user every command") //nolint:staticcheck // Redis is a name

// Level says how bad it is what a [Finding] says.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Note    Level = "note"    // worth knowing; it may be as it should be
	Warning Level = "warning" // locks work, and will not under some failure or in the long run
	Problem Level = "problem" // locks do not work as promised
	Unknown Level = "unknown" // it could not be checked, for example because the user may not ask
)

// Finding is what one check found.
type Finding struct {
	// Check is the id of the check, and Code its exit code: see [Checks].
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Node is the address of the server, or empty for all of them together. The master that Sentinel names is "master".
	Node string `json:"node"`
	// Text is one line: what is the case, why that matters to locks, and what to do.
	Text string `json:"text"`
	// Page is the document that explains it: its path in rlock's repository, and the anchor.
	Page string `json:"page"`
	Code int    `json:"code"`
}

// Options say what the services that use this deployment do. The zero value is what rlock does by default.
type Options struct {
	// Prefix is that of [rlock.WithKeyPrefix]. Tokens and locks of other names do not count. Rights are asked for the name rlock-doctor,
	// which need not exist.
	Prefix string
	// Lease is the shortest lease in use. Zero means 30 s, the default of [rlock.WithWatchdogTimeout].
	Lease time.Duration
	// Acks is how many replicas acquisitions wait for: see [rlock.WithReplicaAcks].
	Acks rlock.Replicas
	// Kinds are what must work for the user: see [Kinds]. None means locks. Rights that other kinds need are a note.
	Kinds []string
	// User is the user of the services, if it is not the one that asks. That takes the right to use ACL DRYRUN, which Redis has since 7.0.
	User string
	// RedLock means that this deployment is one member of red locks.
	RedLock bool
	// Try has two clients lock and unlock each kind, under names of their own that begin with Prefix and rlock-doctor-try. All that they make
	// is removed again. It acts as the user of the client, so not together with User.
	Try bool
	// Timeout is the command timeout of these clients. Zero means 5 s.
	Timeout time.Duration
	// Strict makes warnings count for [Report.ExitCode].
	Strict bool

	// Found is told each finding as it is known, and Trying which act of a try begins, by its number and name. Both may be nil.
	Found  func(Finding)
	Trying func(n, of int, name string)

	limits limits   // for tests; zero means usual
	only   []string // for tests: the acts of a try; nil means all
}

// Report is the result of an examination.
type Report struct {
	// Nodes are the addresses of the servers that were asked, masters first.
	Nodes []string `json:"nodes"`
	// Findings are in the order of [Checks], and then in that of Nodes. Each check has at least one, unless it does not apply to this
	// sort of deployment.
	Findings []Finding `json:"findings"`
	Strict   bool      `json:"strict"`
}

// ExitCode returns 0 if there is no problem, and otherwise the code of the first one: checks come in the order of how bad their problems
// are. With [Options.Strict], a warning counts if there is no problem. What could not be checked never counts.
func (r Report) ExitCode() int {
	levels := []Level{Problem}
	if r.Strict {
		levels = append(levels, Warning)
	}
	for _, level := range levels {
		for _, f := range r.Findings {
			if f.Level == level {
				return f.Code
			}
		}
	}
	return 0
}

// timeout returns the command timeout of the clients of a try.
func (o Options) timeout() time.Duration { return cmp.Or(o.Timeout, 5*time.Second) }

const defaultLease = 30 * time.Second // of rlock and Redisson

// Examine checks a deployment. A [redis.FailoverClient] knows the master alone, so its replicas are seen through the master's eyes.
//
// The error matches [rlock.ErrUnavailable] if no server replies, [ErrDenied] if they deny everything, and [rlock.ErrInvalidOption] for
// options that cannot be. A user with few rights gets a report in which much is [Unknown], and leaves entries in ACL LOG. If ctx ends, the report has what was found until then, and the error is that of ctx. A server that hangs holds
// Examine up until the timeouts of rdb.
func Examine(ctx context.Context, rdb redis.UniversalClient, opts Options) (Report, error) {
	if opts.Lease == 0 {
		opts.Lease = defaultLease
	}
	chosen := len(opts.Kinds) > 0
	if opts.Kinds = named(opts.Kinds); len(opts.Kinds) == 0 {
		opts.Kinds = []string{"lock"}
	}
	if err := opts.check(); err != nil {
		return Report{}, err
	}
	d, err := open(ctx, rdb, opts)
	if err != nil {
		return Report{}, err
	}
	d.chosen = chosen
	report := Report{Nodes: d.addresses(), Findings: []Finding{}, Strict: opts.Strict}
	for _, c := range checks {
		if c.applies != nil && !c.applies(d) {
			continue
		}
		found := c.run(ctx, d)
		if err := context.Cause(ctx); err != nil {
			return report, err
		}
		report.Findings = append(report.Findings, found...)
	}
	return report, nil
}

func (o Options) check() error {
	for _, kind := range o.Kinds {
		if _, ok := rowsOf(kind); !ok {
			return fmt.Errorf("%w: there is no kind %q", rlock.ErrInvalidOption, kind)
		}
	}
	if o.Try && o.User != "" {
		return fmt.Errorf("%w: a try acts as the user that connects, and not as another one", rlock.ErrInvalidOption)
	}
	if o.Lease < 0 || o.Acks < rlock.AllReplicas {
		return fmt.Errorf("%w: a negative lease or number of replicas", rlock.ErrInvalidOption)
	}
	return nil
}

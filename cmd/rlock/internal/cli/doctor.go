package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/doctor"
)

// exitDenied is the exit code if Redis lets the user do nothing.
const exitDenied = 77

// pages is where the documents are.
const pages = "https://github.com/go-rlock/rlock/blob/main/"

func (a *app) doctor() *cobra.Command {
	opts := doctor.Options{}
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check that a deployment of Redis is fit for locks", Args: takes(),
		Long: `doctor checks a deployment against rlock's documents, and says for each finding which page explains it. It only reads, so it can stand in a
deploy pipeline: the exit code is 0 if there is no problem, and otherwise that of the first one. With --strict, a warning counts if there
is no problem. What could not be checked never counts. 77 means that Redis lets the user do nothing.

With --try, it also takes and releases each kind of lock, with two clients and under names of its own, and says what works on this
server. That takes about 10 s, and longer where something fails. The keys begin with the key prefix and rlock-doctor-try:, and are removed at the end, also after Ctrl-C.

The checks, with their exit codes:
` + checks(),
		Example: "  rlock doctor --acks 1 --lease 10s\n  rlock doctor --strict --json | jq -r '.findings[] | select(.level == \"warning\").text'",
		RunE: func(*cobra.Command, []string) error {
			if opts.Lease < minTTL {
				return usage(fmt.Errorf("--lease is %v, less than %v", opts.Lease, minTTL))
			}
			opts.Prefix = a.keyPrefix
			rdb, _, where, finish, err := a.open()
			if err != nil {
				return err
			}
			defer finish()
			opts.Timeout = a.config.Timeout
			var report doctor.Report
			err = a.withSignals(func(ctx context.Context) (err error) {
				report, err = doctor.Examine(ctx, rdb, opts)
				return err
			})
			switch {
			case errors.Is(err, doctor.ErrDenied):
				return &exit{code: exitDenied, err: err}
			case err != nil:
				return a.asked("check Redis", where, err)
			}
			if err := a.print(a.stdout, reportText(&report, asJSON)); err != nil {
				return err
			}
			if code := report.ExitCode(); code != 0 {
				return &exit{code: code}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.DurationVar(&opts.Lease, "lease", 30*time.Second, "the shortest lease that the services use (WithWatchdogTimeout)")
	f.Var((*acks)(&opts.Acks), "acks", "how many replicas the services wait for (WithReplicaAcks), or all (AllReplicas)")
	f.StringSliceVar(&opts.Kinds, "kinds", nil, "what the services use, of "+strings.Join(doctor.Kinds(), ", ")+" (default: lock)")
	f.StringVar(&opts.User, "services-user", "", "examine the rights of this user of Redis instead of one's own")
	f.BoolVar(&opts.RedLock, "redlock", false, "this is one member of red locks")
	f.BoolVar(&opts.Try, "try", false, "take and release each kind of lock too, on keys that are removed again")
	f.BoolVar(&opts.Strict, "strict", false, "a warning counts for the exit code")
	f.BoolVar(&asJSON, "json", false, "one object")
	return cmd
}

// acks is a number of replicas, as a flag.
type acks int

// String returns the number.
func (a *acks) String() string {
	if *a == rlock.AllReplicas {
		return "all"
	}
	return strconv.Itoa(int(*a))
}

// Set takes a number in.
func (a *acks) Set(text string) error {
	if text == "all" {
		*a = rlock.AllReplicas
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return errors.New("neither a number nor all")
	}
	*a = acks(n)
	return nil
}

// Type returns what the help calls it.
func (*acks) Type() string { return "number" }

func checks() string {
	var text strings.Builder
	for _, c := range doctor.Checks() {
		fmt.Fprintf(&text, "  %-12s %d  %s\n", c.ID, c.Code, c.Finds)
	}
	return strings.TrimRight(text.String(), "\n")
}

// reportText returns what doctor prints: for people, what is as it should be in a line each, and the others with their page.
func reportText(r *doctor.Report, asJSON bool) string {
	if asJSON {
		text, _ := json.Marshal(r) // which has nothing that cannot be encoded
		return string(text) + "\n"
	}
	var text strings.Builder
	for _, f := range r.Findings {
		where := ""
		if f.Node != "" {
			where = f.Node + ": "
		}
		fmt.Fprintf(&text, "%-8s %-12s %s%s\n", f.Level, f.Check, where, f.Text)
		if f.Level != doctor.OK {
			fmt.Fprintf(&text, "%-21s  %s%s\n", "", pages, f.Page)
		}
	}
	return text.String()
}

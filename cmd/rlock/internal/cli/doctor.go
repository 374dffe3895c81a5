package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
is no problem. What could not be checked never counts. 77 means that Redis lets the user do nothing. With --kinds, it also prints the line
that grants a user what these need.

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
			var failed error
			if !asJSON {
				opts.Found = func(f doctor.Finding) { failed = cmp.Or(failed, a.print(a.stdout, a.finding(&f))) }
				if terminal(a.stderr) {
					opts.Trying = func(n, of int, name string) {
						_ = a.print(a.stderr, fmt.Sprintf("\r\x1b[Ktrying %d of %d: %s …\r", n, of, name))
					}
				}
			}
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
			case asJSON:
				text, _ := json.Marshal(report) // which has nothing that cannot be encoded
				failed = a.print(a.stdout, string(text)+"\n")
			}
			if failed != nil {
				return failed
			}
			if code := report.ExitCode(); code != 0 {
				return &exit{code: code}
			}
			return nil
		},
	}
	doctorFlags(cmd, &opts)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one object")
	return cmd
}

// doctorFlags adds the flags that set options of the examination.
func doctorFlags(cmd *cobra.Command, opts *doctor.Options) {
	f := cmd.Flags()
	f.DurationVar(&opts.Lease, "lease", 30*time.Second, "the shortest lease that the services use (WithWatchdogTimeout)")
	f.Var((*acks)(&opts.Acks), "acks", "how many replicas the services wait for (WithReplicaAcks), or all (AllReplicas)")
	f.StringSliceVar(&opts.Kinds, "kinds", nil, "what the services use, of "+strings.Join(doctor.Kinds(), ", ")+" (default: lock)")
	f.StringVar(&opts.User, "services-user", "", "examine the rights of this user of Redis instead of one's own")
	f.BoolVar(&opts.RedLock, "redlock", false, "this is one member of red locks")
	f.BoolVar(&opts.Try, "try", false, "take and release each kind of lock too, on keys that are removed again")
	f.BoolVar(&opts.Strict, "strict", false, "a warning counts for the exit code")
	completes(cmd, "kinds", doctor.Kinds()...)
}

// acks is a number of replicas, as a flag.
type acks rlock.Replicas

// String returns the number.
func (a *acks) String() string {
	if rlock.Replicas(*a) == rlock.AllReplicas {
		return "all"
	}
	return strconv.Itoa(int(*a))
}

// Set takes a number in.
func (a *acks) Set(text string) error {
	if text == "all" {
		*a = acks(rlock.AllReplicas)
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

// finding returns what doctor prints of one: what is as it should be in a line, and the others with their page.
func (a *app) finding(f *doctor.Finding) string {
	where, begin, end := "", "", ""
	if f.Node != "" {
		where = f.Node + ": "
	}
	if color := map[doctor.Level]string{doctor.Problem: "\x1b[31m", doctor.Warning: "\x1b[33m"}[f.Level]; color != "" && terminal(a.stdout) && a.getenv("NO_COLOR") == "" {
		begin, end = color, "\x1b[0m"
	}
	text := fmt.Sprintf("%s%-8s%s %-12s %s%s\n", begin, f.Level, end, f.Check, where, f.Text)
	if terminal(a.stderr) && terminal(a.stdout) {
		text = "\r\x1b[K" + text // over what is being tried
	}
	if f.Level != doctor.OK {
		text += fmt.Sprintf("%-21s  %s%s\n", "", pages, f.Page)
	}
	return text
}

// terminal reports whether a file is a terminal, or another device of characters.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// listFlags are the flags of ls.
type listFlags struct {
	catalog.Filter

	kind, order      string
	all, asJSON      bool
	contended, watch bool
	narrowed         bool
}

func (a *app) list() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use: "ls (--prefix P | --all)", Short: "List the locks and semaphores that are held", Args: takes(),
		Long: `ls lists the locks and semaphores that are held or waited for, of rlock and of Redisson. It only reads, by SCAN, in small pieces.

--match finds names by their words, in any case. A word with a star stands for the whole name: orders:* or *:42. The lock with exactly
this name comes first. --sort keeps all rows in memory, and prints them at the end. --watch lists again every 2 s, until Ctrl-C.

A kind has the name that it has in metrics and logs. WAITING counts processes. For a fair lock, it counts calls, and says of how many
processes they are. A lock that is kept by AtLeast or --at-least after its use has no holder, and says who has had it.

Redis has no list of locks. ls recognizes them by their contents. A fair lock for which nobody waits looks like any other lock, and so does
a spin lock. A lock that has ever had a token is shown as fenced. A semaphore of which no permit is out, a plain semaphore and a latch are
not listed, because they look like any other counter; show tells of one. Names that begin like the other keys of Redisson
(redisson_lock_token: and the like) are not listed. A lock may come twice, or not at all, if Redis resizes its table, or if the lock is
taken and freed, meanwhile.`,
		Example: "  rlock ls --prefix orders:\n  rlock ls --all --contended --watch\n  rlock ls --all --json | jq -r 'select(.waiting_processes > 10) | .name'",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			f.narrowed = cmd.Flags().Changed("prefix")
			if f.contended {
				f.Waiting = 1
			}
			f.Kind = catalog.Kind(f.kind)
			return f.check()
		},
		RunE: func(*cobra.Command, []string) error {
			return a.withCatalog("list the locks", func(ctx context.Context, c *catalog.Catalog) error { return a.listAll(ctx, c, &f) })
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.Prefix, "prefix", "", "what the names begin with")
	fs.BoolVar(&f.all, "all", false, "all names")
	fs.StringVar(&f.Text, "match", "", "`TEXT` of words that are in the names")
	fs.BoolVar(&f.contended, "contended", false, "only those that somebody waits for")
	fs.StringVar(&f.kind, "kind", "", "only this `KIND`: "+strings.Join(catalog.Kinds(), ", "))
	fs.StringVar(&f.Holder, "holder", "", "only those with `TEXT` in the holder: a service, a host, a client")
	fs.StringVar(&f.order, "sort", "", "`ORDER`: name, waiting (most first) or lease (what ends next first)")
	fs.BoolVar(&f.watch, "watch", false, "list again every 2 s")
	fs.BoolVar(&f.asJSON, "json", false, "an object for each lock, one a line, as Redis returns them")
	completes(cmd, "kind", catalog.Kinds()...)
	completes(cmd, "sort", "name", "waiting", "lease")
	return cmd
}

// check refuses what cannot be.
func (f *listFlags) check() error {
	switch {
	case f.narrowed && f.all:
		return exclude("prefix", "all")
	case !f.narrowed && !f.all:
		return usage(errors.New("say which locks: --prefix P, or --all"))
	case f.watch && f.asJSON:
		return exclude("watch", "json")
	case f.order != "" && orders[f.order] == nil:
		return usage(errors.New("--sort is name, waiting or lease"))
	case f.kind != "" && !slices.Contains(catalog.Kinds(), f.kind):
		return usage(fmt.Errorf("--kind is %q, none of %s", f.kind, strings.Join(catalog.Kinds(), ", ")))
	}
	return nil
}

// again is how often --watch lists.
const again = 2 * time.Second

// listAll lists once, or again and again.
func (a *app) listAll(ctx context.Context, c *catalog.Catalog, f *listFlags) error {
	for {
		out := bufio.NewWriter(output{a.stdout})
		if f.watch {
			_, _ = out.WriteString("\x1b[H\x1b[2J" + time.Now().Format(time.TimeOnly) + "\n")
		}
		if err := a.listOnce(ctx, c, f, out); err != nil || !f.watch {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// orders are what a list can be sorted by. Rows that are equal are in the order of their names.
var orders = map[string]func(a, b catalog.Row) int{
	"name":    func(catalog.Row, catalog.Row) int { return 0 },
	"waiting": func(a, b catalog.Row) int { return cmp.Compare(b.Waiters, a.Waiters) },
	"lease":   func(a, b catalog.Row) int { return cmp.Compare(ending(&a), ending(&b)) },
}

// ending returns when a lease ends, if it ends.
func ending(r *catalog.Row) time.Duration {
	if r.Lease < 0 || r.Holders == 0 {
		return 1<<63 - 1
	}
	return r.Lease
}

// block is how many rows are sorted and aligned together without --sort, so that the memory is bounded.
const block = 1000

// listOnce lists what is there.
func (*app) listOnce(ctx context.Context, c *catalog.Catalog, f *listFlags, out *bufio.Writer) error {
	var rows []catalog.Row
	by, objects, headed := orders[cmp.Or(f.order, "name")], json.NewEncoder(out), false
	flush := func() error {
		if f.order != "" || !f.asJSON {
			slices.SortFunc(rows, func(a, b catalog.Row) int { return cmp.Or(by(a, b), strings.Compare(a.Name, b.Name)) })
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		if !headed && !f.asJSON && len(rows) > 0 {
			_, _ = fmt.Fprintln(table, "NAME\tKIND\tLEASE\tWAITING\tHOLDERS\tHOLDER")
			headed = true
		}
		for i := range rows {
			if f.asJSON {
				if err := objects.Encode(rowJSON(&rows[i])); err != nil {
					return err
				}
				continue
			}
			if _, err := fmt.Fprintln(table, strings.Join(cells(&rows[i]), "\t")); err != nil {
				return err
			}
		}
		rows = rows[:0]
		return table.Flush()
	}
	for row, err := range c.Find(ctx, f.Filter) {
		if err == nil {
			if rows = append(rows, row); f.order == "" && len(rows) == block {
				err = flush()
			}
		}
		if err != nil { // what was found before is worth showing
			_, _ = flush(), out.Flush()
			return err
		}
	}
	return errors.Join(flush(), out.Flush())
}

func cells(r *catalog.Row) []string {
	holder, holders := who(r.Client, r.Identity), r.Holders
	switch {
	case r.Kept:
		holder, holders = "kept by "+holder, 0
	case r.Kind == catalog.Semaphore && r.Holder != "":
		holder = strings.TrimSuffix("permit "+r.Holder+", "+holder, ", ")
	}
	if holders > 1 {
		holder += " …"
	}
	return []string{shown(r.Name), string(r.Kind), leaseText(r.Lease), waitingText(r), strconv.Itoa(holders), holder}
}

// waitingText returns how many wait, and what they are.
func waitingText(r *catalog.Row) string {
	calls, processes := r.Waiting()
	many := func(n int, one, more string) string {
		if n == 1 {
			return "1 " + one
		}
		return strconv.Itoa(n) + " " + more
	}
	switch {
	case r.Waiters == 0:
		return "0"
	case r.Waiters < 0:
		return "not known: the user may not ask (+pubsub)"
	case calls < 0:
		return many(processes, "process", "processes")
	case processes < 0:
		return many(calls, "call", "calls")
	}
	return many(calls, "call", "calls") + " of " + many(processes, "process", "processes")
}

// leaseText returns a lease for people.
func leaseText(d time.Duration) string {
	if d < 0 {
		return "none"
	}
	return d.Truncate(100 * time.Millisecond).String()
}

// shown returns a text of Redis as it may be shown on a terminal: in quotes, if it has anything in it that does not print.
func shown(text string) string {
	for _, r := range text {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

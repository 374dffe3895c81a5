package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

func (a *app) list() *cobra.Command {
	var prefix, match, order string
	var all, asJSON bool
	cmd := &cobra.Command{
		Use: "ls (--prefix P | --all)", Short: "List the locks and semaphores that are held", Args: takes(),
		Long: `ls lists the locks and semaphores that are held or waited for, of rlock and of Redisson. It only reads, by SCAN, in small pieces.

--match finds names by their words, in any case. A word with a star stands for the whole name: orders:* or *:42. The lock with exactly
this name comes first. --sort keeps all rows in memory, and prints them at the end.

A kind has the name that it has in metrics and logs. WAITING counts processes. For a fair lock, it counts calls, and says of how many
processes they are. A lock that is kept by AtLeast or --at-least after its use says so beside its last holder.

Redis has no list of locks. ls recognizes them by their contents. A fair lock for which nobody waits looks like any other lock, and so does
a spin lock. A lock that has ever had a token is shown as fenced. A semaphore of which no permit is out, a plain semaphore for which nobody waits and a latch are not listed, because they look like any
other counter. While a slot of a cluster moves, the semaphores of that slot, and the tokens and waiters of its locks, may be missing. Names
that begin like the other keys of Redisson (redisson_lock_token: and the like) are not listed. A lock may come twice, or not at all, if Redis resizes its table, or if the lock is taken and freed, meanwhile.`,
		Example: "  rlock ls --prefix orders:\n  rlock ls --all --json | jq -r 'select(.waiting_processes > 10) | .name'",
		PreRunE: func(*cobra.Command, []string) error { return checkOrder(order) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch narrowed := cmd.Flags().Changed("prefix"); {
			case narrowed && all:
				return exclude("prefix", "all")
			case !narrowed && !all:
				return usage(errors.New("say which locks: --prefix P, or --all"))
			}
			return a.withCatalog("list the locks", func(ctx context.Context, c *catalog.Catalog) error {
				out := bufio.NewWriter(output{a.stdout})
				var to sink = &table{out: out}
				if asJSON {
					to = &objects{json.NewEncoder(out)}
				}
				to = inOrder(to, order)
				for row, err := range c.Find(ctx, prefix, match) {
					if err == nil {
						err = to.add(row)
					}
					if err != nil { // what was found before is worth showing
						_, _ = to.end(), out.Flush()
						return err
					}
				}
				return errors.Join(to.end(), out.Flush())
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "what the names begin with")
	cmd.Flags().StringVar(&match, "match", "", "`TEXT` of words that are in the names")
	cmd.Flags().StringVar(&order, "sort", "", "`ORDER`: name, waiting (most first) or lease (what ends next first)")
	cmd.Flags().BoolVar(&all, "all", false, "all names")
	cmd.Flags().BoolVar(&asJSON, "json", false, "an object for each lock, one a line, as Redis returns them")
	return cmd
}

// sink takes the rows of a list.
type sink interface {
	add(row catalog.Row) error
	end() error
}

// objects writes rows as JSON.
type objects struct{ to *json.Encoder }

func (o *objects) add(row catalog.Row) error { return o.to.Encode(rowJSON(&row)) }

func (o *objects) end() error { return nil }

// aligned is how many rows a table aligns, and sorts unless they are. It prints any further rows as they are found, so that its memory is bounded.
const aligned = 1000

// table writes rows for people.
type table struct {
	out    *bufio.Writer
	rows   []catalog.Row
	sorted bool
	widths []int // nil until the first rows are written
}

func (t *table) add(row catalog.Row) error {
	if t.widths != nil {
		return t.write(cells(&row))
	}
	if t.rows = append(t.rows, row); len(t.rows) < aligned {
		return nil
	}
	return t.end()
}

func (t *table) end() error {
	if t.widths != nil || len(t.rows) == 0 {
		return nil
	}
	if !t.sorted {
		slices.SortFunc(t.rows, func(a, b catalog.Row) int { return strings.Compare(a.Name, b.Name) })
	}
	lines := [][]string{{"NAME", "KIND", "LEASE", "WAITING", "HOLDERS", "HOLDER"}}
	for i := range t.rows {
		lines = append(lines, cells(&t.rows[i]))
	}
	t.rows, t.widths = nil, make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			t.widths[i] = max(t.widths[i], min(60, utf8.RuneCountInString(cell)))
		}
	}
	for _, line := range lines {
		if err := t.write(line); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) write(line []string) error {
	for i, cell := range line {
		text := cell
		if i < len(line)-1 {
			text += strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(cell))+2)
		}
		if _, err := t.out.WriteString(text); err != nil {
			return err
		}
	}
	return t.out.WriteByte('\n')
}

func cells(r *catalog.Row) []string {
	holder := who(r.Client, r.Identity)
	switch {
	case r.Kept:
		holder = "kept by " + holder
	case r.Kind == catalog.Semaphore && r.Holder != "":
		holder = strings.TrimSuffix("permit "+r.Holder+", "+holder, ", ")
	}
	if r.Holders > 1 {
		holder += " …"
	}
	return []string{shown(r.Name), string(r.Kind), leaseText(r.Lease), waitingText(r), strconv.Itoa(r.Holders), holder}
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

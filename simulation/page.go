package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
)

// The columns of a row of the page of planted bugs.
const (
	columnName = iota
	columnWhat
	columnFound
	columnPromise
	columns
)

// rows are those of the table of a page, by the mutant.
type rows map[string][columns]string

// readRows returns the rows of a page, and what stands before its table.
func readRows(text string) (before string, of rows) {
	of = make(rows)
	var b strings.Builder
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "| "):
			b.WriteString(line)
		case len(cells) == columns:
			var row [columns]string
			for i, c := range cells {
				row[i] = strings.TrimSpace(c)
			}
			of[row[columnName]] = row
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n\n", of
}

const (
	head = "| mutant | bug | found after | by the promise |"
	rule = "| --- | --- | --- | --- |"
)

// note writes what came of a hunt into the page, unless that is empty. Rows of mutants that are no more go.
func note(page string, m mutants.Mutant, t *total, limit time.Duration) error {
	if page == "" {
		return nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, of := readRows(string(text))
	of[m.Name] = row(m, t, limit)
	var b strings.Builder
	b.WriteString(before + head + "\n" + rule + "\n")
	for _, one := range allMutants() {
		if r, ok := of[one.Name]; ok {
			r[columnWhat] = cell(one.What)
			b.WriteString("| " + strings.Join(r[:], " | ") + " |\n")
		}
	}
	return os.WriteFile(page, []byte(b.String()), 0o600)
}

// row is the row of a mutant after a hunt. A limit of zero means that it was not hunted.
func row(m mutants.Mutant, t *total, limit time.Duration) [columns]string {
	r := [columns]string{m.Name, cell(m.What), fmt.Sprintf("not in %v", limit), "found by " + cmp.Or(m.By, "nothing that was tried")}
	if limit == 0 {
		r[columnFound] = "not hunted"
	}
	if why := cmp.Or(elsewhere[m.Name], rare[m.Name]); why != "" {
		r[columnPromise] = cell(why) + "; " + r[columnPromise]
	}
	if len(t.broken) > 0 {
		what, _ := promise(t.broken[0])
		r[columnFound] = fmt.Sprintf("%.1f s, %d seeds", t.cpu.Seconds(), t.seeds)
		r[columnPromise] = cell(regexp.MustCompile(`^the process ended.*`).ReplaceAllString(strings.SplitN(what, "\n", 2)[0], "the process lives"))
	}
	return r
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "/") }

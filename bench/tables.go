package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// writeTables writes all results as Markdown.
func writeTables(out io.Writer, results []result) error {
	var b strings.Builder
	for _, r := range results {
		b.WriteString(r.markdown())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r result) markdown() string {
	var b strings.Builder
	sc := r.scenario
	fmt.Fprintf(&b, "## %s. %s\n\n%s %s\n\n", sc.id, sc.title, sc.how, sc.conditions())
	if sc.worst {
		b.WriteString(r.grid())
		return b.String()
	}
	for _, s := range r.sizes {
		b.WriteString(s.table(sc))
	}
	return b.String()
}

// grid returns a Markdown table of the main metric, with a line per size and a column per library.
func (r result) grid() string {
	sc := r.scenario
	heads := []string{sc.id + ", " + sc.head}
	for _, e := range entrants() {
		if e.enters(sc) {
			heads = append(heads, e.name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	for _, s := range r.sizes {
		cells := []string{s.id}
		for _, library := range heads[1:] {
			cell := figure(summary(s.samples.values(library, sc.head), sc.worst, sc.lowIsGood))
			if note := s.notes[library]; note != "" {
				cell += " (" + note + ")"
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String() + "\n"
}

// conditions describes how the scenario ran.
func (sc scenario) conditions() string {
	where := "Client and server share the cores."
	if sc.pinned {
		where = "Client and server are on one core."
	}
	if sc.rounds == 1 {
		return where + " 1 round."
	}
	if sc.worst {
		return fmt.Sprintf("%s Worst of %d rounds.", where, sc.rounds)
	}
	return fmt.Sprintf("%s Median of %d rounds.", where, sc.rounds)
}

// table returns a Markdown table with a line per library: its figure, the ratios, and the other columns.
func (s sizeResult) table(sc scenario) string {
	var peers []string
	for _, e := range entrants() {
		if e.peer {
			peers = append(peers, e.name)
		}
	}
	var b strings.Builder
	heads := append([]string{sc.id + ", " + s.id, sc.head, "to the floor", "to the best peer"}, sc.columns...)
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	for _, e := range entrants() {
		values := s.samples.values(e.name, sc.head)
		note := s.notes[e.name]
		if len(values) == 0 {
			if note != "" {
				fmt.Fprintf(&b, "| %s | %s |%s\n", e.name, note, strings.Repeat(" |", len(heads)-2))
			}
			continue
		}
		cells := []string{
			e.name, figure(median(values)),
			ratio(s.samples.ratio(e.name, floor, sc.head)) + s.samples.ratioRange(e.name, sc.head),
			ratio(s.samples.ratioToBest(e.name, peers, sc.head, sc.lowIsGood)),
		}
		for _, column := range sc.columns {
			cells = append(cells, s.cell(e.name, column))
		}
		if note != "" {
			cells[0] += " (" + note + ")"
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String() + "\n"
}

// cell formats a library's figure, or its list of figures.
func (s sizeResult) cell(library, column string) string {
	values := s.samples.values(library, column)
	if len(values) > 0 {
		return figure(median(values))
	}
	var list []string
	for i := 1; ; i++ {
		values := s.samples.values(library, fmt.Sprintf("%s %d", column, i))
		if len(values) == 0 {
			return strings.Join(list, " / ")
		}
		list = append(list, fmt.Sprintf("%.0f", median(values)))
	}
}

// figure formats a number with about three digits.
func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case math.IsInf(v, 0):
		return "∞"
	case v == math.Trunc(v) && math.Abs(v) < 1000:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 1000:
		return thousands(v)
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func ratio(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

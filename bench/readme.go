package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// readmeRow is a row of README's table of figures. It repeats figures of the report, and -check watches each of rlock's.
type readmeRow struct {
	what, unit     string
	scenario, size string
	column         int // of the report's table: figureColumn or ratioColumn
}

// The columns of a table of the report that README repeats.
const (
	figureColumn = 1
	ratioColumn  = 2
)

func readmeRows() []readmeRow {
	return []readmeRow{
		{"one caller, another name each time", "time of a pair, × raw; less is better", "S1", "distinct names", ratioColumn},
		{"64 goroutines, each its own name", "pairs/s, × raw; more is better", "S2", "64", ratioColumn},
		{"128 goroutines, one name", "hand-offs/s, × raw; more is better", "S3", "128 × 0s", ratioColumn},
		{"64 clients, one name, held for 1 ms", "hand-offs/s, × raw; more is better", "S9", "64 × 1ms", ratioColumn},
		{"10,000 locks held and renewed", "heap bytes of a lock; less is better", "S6", "10000", figureColumn},
	}
}

// readmeTable returns README's table of figures, from the text of the report.
func readmeTable(report string) (string, error) {
	libraries := []string{"rlock", "bsm/redislock", "redsync", "rueidislock", "rueidislock-m1"}
	var b strings.Builder
	heads := append([]string{"", ""}, libraries...)
	heads[len(heads)-1] = "rueidislock, one key"
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	for _, row := range readmeRows() {
		figures, err := row.read(report)
		if err != nil {
			return "", err
		}
		cells := []string{fmt.Sprintf("[%s](%s)", row.what, row.link()), row.unit}
		for _, library := range libraries {
			cells = append(cells, figures[library])
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String(), nil
}

// read returns the row's figures by library. A library without a figure has a dash.
func (row readmeRow) read(report string) (map[string]string, error) {
	_, after, found := strings.Cut(report, fmt.Sprintf("| %s, %s |", row.scenario, row.size))
	if !found {
		return nil, fmt.Errorf("the report has no table %s, %s", row.scenario, row.size)
	}
	table, _, _ := strings.Cut(after, "\n\n")
	figures := make(map[string]string)
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		library, _, _ := strings.Cut(strings.TrimSpace(cells[0]), " (")
		figures[library] = "–"
		if cells := slices.DeleteFunc(cells, func(s string) bool { return strings.TrimSpace(s) == "" }); len(cells) > ratioColumn {
			figures[library] = strings.Fields(cells[row.column])[0]
		}
	}
	return figures, nil
}

// link returns the address of the row's scenario in the report, from README.
func (row readmeRow) link() string {
	sc, _ := scenarioOf(scenarios(), row.scenario)
	heading := strings.ToLower(sc.id + ". " + sc.title)
	anchor := strings.NewReplacer(" ", "-", ".", "", ",", "").Replace(heading)
	return "docs/benchmarks.md#" + anchor
}

// The table stands between these lines of README.
const (
	readmeBegin = "<!-- The table is written by make bench. -->\n\n"
	readmeEnd   = "\n<!-- The end of the table. -->"
)

// writeReadme puts the table of figures into README, if the file exists.
func writeReadme(file, report string) error {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	table, err := readmeTable(report)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), readmeBegin)
	_, after, ends := strings.Cut(rest, readmeEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table of figures", file)
	}
	return os.WriteFile(file, []byte(before+readmeBegin+table+readmeEnd+after), 0o644)
}

package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// contenders are the libraries of the comparison in README, as the report and README name them.
var contenders = []struct{ inReport, name string }{
	{"rlock", "rlock"},
	{"bsm/redislock", "bsm/redislock"},
	{"redsync", "redsync"},
	{"rueidislock", "rueidislock"},
	{"rueidislock-m1", "rueidislock, one key"},
}

// cells are the tables of the report that the picture shows.
var cells = []struct{ name, heading string }{
	{"S3, 128 × 0s", "without work under the lock"}, {"S3, 128 × 2ms", "with 2 ms of work under the lock"},
}

// waitTimes are for how long goroutines waited, in ms: half of the waits were shorter than half, and 99 of 100 shorter than most.
type waitTimes struct{ half, most float64 }

// readWaits returns the waits that the report of the benchmarks has, by cell and contender.
func readWaits(report string) ([][]waitTimes, error) {
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	all := make([][]waitTimes, len(cells))
	for i, cell := range cells {
		table := tableOf(string(text), cell.name)
		for _, c := range contenders {
			half, errHalf := table.figure(c.inReport, "p50 wait ms")
			most, errMost := table.figure(c.inReport, "p99 wait ms")
			if errHalf != nil || errMost != nil {
				return nil, fmt.Errorf("%s: no waits of %s in the table %s", report, c.inReport, cell.name)
			}
			all[i] = append(all[i], waitTimes{half, most})
		}
	}
	return all, nil
}

// table is a table of a document, by its rows and then columns.
type table map[string]map[string]string

// tableOf returns the table of which the first column has that heading.
func tableOf(document, heading string) table {
	_, rest, _ := strings.Cut(document, "\n| "+heading+" |")
	rest, _, _ = strings.Cut(rest, "\n\n")
	rows := strings.Split(rest, "\n")
	columns := strings.Split(strings.Trim(rows[0], "| "), " | ")
	t := make(table)
	for _, row := range rows[1:] {
		values := strings.Split(strings.Trim(row, "| "), " | ")
		t[values[0]] = make(map[string]string)
		for i, column := range columns {
			if i+1 < len(values) {
				t[values[0]][column] = values[i+1]
			}
		}
	}
	return t
}

func (t table) figure(row, column string) (float64, error) {
	return strconv.ParseFloat(strings.ReplaceAll(t[row][column], ",", ""), 64)
}

// waits shows for how long goroutines wait for a lock that many want.
func waits(figures [][]waitTimes) *picture {
	p := newPicture("waits", 380, "How long a goroutine waits",
		"128 goroutines of one process want one lock, again and again. On one machine, measured by `make bench`.",
		"Two charts of the waiting times with four libraries, one of them in two configurations. With rlock, the wait that 99 of 100 stay "+
			"below is near the one that half of them stay below. With the others, it is several times as long. The figures are those of the "+
			"tables of S3 in docs/benchmarks.md.")
	const left, wide, between, top, step = 176.0, 268.0, 64.0, 118.0, 36.0
	bottom := top + float64(len(contenders))*step
	for i, c := range contenders {
		s := body
		if i == 0 {
			s = head
		}
		p.write(s, margin, top+float64(i)*step+22, c.name)
	}
	for i, cell := range cells {
		x := left + float64(i)*(wide+between)
		p.write(head, x, top-14, cell.heading)
		p.waitChart(rect{x, top, wide, bottom - top}, step, figures[i])
	}
	y := bottom + 52
	p.ring(neutral, margin+6, y-4)
	p.write(note, margin+20, y, "half of the waits are shorter")
	p.dot(neutral, margin+226, y-4)
	p.write(note, margin+240, y, "99 of 100 waits are shorter")
	return p
}

// waitChart draws a row for each contender, from the wait that half of them stay below to the one that almost all do.
func (p *picture) waitChart(r rect, step float64, figures []waitTimes) {
	highest := 0.0
	for _, f := range figures {
		highest = max(highest, f.most)
	}
	tick := niceStep(highest)
	at := func(ms float64) float64 { return r.x + ms/highest*(r.w-76) }
	for ms := 0.0; ms <= highest; ms += tick {
		p.behind("grid", point{at(ms), r.y}, point{at(ms), r.bottom()})
		p.centre(note, at(ms), r.bottom()+18, thousands(ms)+" ms")
	}
	for i, f := range figures {
		colour := neutral
		if i == 0 {
			colour = held
		}
		y := r.y + (float64(i)+.5)*step
		p.boxes = append(p.boxes, box{rect{at(f.half), y - 1.5, at(f.most) - at(f.half), 3}, "dot soft " + colour, 0})
		p.ring(colour, at(f.half), y)
		p.dot(colour, at(f.most), y)
		p.write(note, at(f.most)+11, y+4, thousands(f.most)+" ms")
		p.opaque(p.texts[len(p.texts)-1].extent().grown(4)) // the grid
	}
}

const dotRadius = 5.0

func (p *picture) dot(colour string, x, y float64) {
	p.boxes = append(p.boxes, box{rect{x, y, 0, 0}.grown(dotRadius), "dot " + colour, dotRadius})
}

func (p *picture) ring(colour string, x, y float64) {
	p.boxes = append(p.boxes, box{rect{x, y, 0, 0}.grown(dotRadius - 1), "ring " + colour, dotRadius - 1})
}

// niceStep returns a step of 1, 2 or 5 times a power of ten, of which three or fewer reach the highest value.
func niceStep(highest float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(highest/3)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power*3 >= highest*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// thousands prints a figure as the report does.
func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if v >= 1000 {
		s = s[:len(s)-3] + "," + s[len(s)-3:]
	}
	return s
}

package main

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is one plot, with a row per library and a mark per size.
type chart struct {
	file, title, axis string
	result            result
	value             func(s sizeResult, library string) float64
	reference         float64 // the value of a reference line; zero means none
}

// charts returns the plots of a scenario. The one with failing waiters is a table only.
func charts(r result) []chart {
	sc := r.scenario
	if sc.worst {
		return nil
	}
	better := "right is better"
	if sc.lowIsGood {
		better = "left is better"
	}
	list := []chart{{
		file: sc.id + ".svg", title: sc.id + ". " + sc.title, result: r, reference: 1,
		axis: fmt.Sprintf("%s, to the floor (%s)", sc.head, better),
		value: func(s sizeResult, library string) float64 {
			return s.samples.ratio(library, floor, sc.head)
		},
	}}
	if slices.Contains(sc.columns, mWait99) {
		list = append(list, chart{
			file: sc.id + "-p99.svg", title: sc.id + ". " + sc.title + ": the longest waits", result: r,
			axis: mWait99 + " (left is better)",
			value: func(s sizeResult, library string) float64 {
				if library == floor {
					return math.NaN() // it never waits
				}
				return median(s.samples.values(library, mWait99))
			},
		})
	}
	if sc.id == "S7" { // it has no floor
		list[0].reference, list[0].axis = 0, sc.head+" (left is better)"
		list[0].value = func(s sizeResult, library string) float64 { return median(s.samples.values(library, sc.head)) }
	}
	return list
}

// palette holds colours that colour-blind readers can also distinguish (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{R: 0, G: 114, B: 178, A: 255},
	color.RGBA{R: 213, G: 94, B: 0, A: 255},
	color.RGBA{R: 0, G: 158, B: 115, A: 255},
	color.RGBA{R: 204, G: 121, B: 167, A: 255},
	color.RGBA{R: 230, G: 159, B: 0, A: 255},
	color.RGBA{R: 86, G: 180, B: 233, A: 255},
}

var marks = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
}

// draw writes the chart into a directory, as SVG. It reports whether there was anything to draw.
func (c chart) draw(dir string) (drawn bool, err error) {
	p := plot.New()
	p.Title.Text = c.title
	p.X.Label.Text, p.Y.Label.Text = c.axis, "library"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	p.Legend.Top, p.Legend.Left = false, false
	p.Add(plotter.NewGrid())
	var names []string
	for _, e := range slices.Backward(entrants()) { // the first one is on top
		names = append(names, e.name)
	}
	low, high := c.reference, c.reference
	for i, s := range c.result.sizes {
		if s.unplotted {
			continue
		}
		var dots plotter.XYs
		for row, name := range names {
			v := c.value(s, name)
			if !(v > 0) || math.IsInf(v, 0) {
				continue
			}
			if low == 0 {
				low, high = v, v
			}
			low, high = min(low, v), max(high, v)
			dots = append(dots, plotter.XY{X: v, Y: float64(row)})
		}
		if len(dots) == 0 {
			continue
		}
		drawn = true
		scatter, err := plotter.NewScatter(dots)
		if err != nil {
			return false, err
		}
		scatter.GlyphStyle = draw.GlyphStyle{
			Color: palette[i%len(palette)], Radius: vg.Points(4), Shape: marks[i%len(marks)],
		}
		p.Add(scatter)
		p.Legend.Add(s.id, scatter)
	}
	if !drawn {
		return false, nil
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = low/1.3, high*1.3
	p.Y.Min, p.Y.Max = -0.7-float64(len(c.result.sizes))*0.4, float64(len(names))-0.3 // the legend is below the rows
	if c.reference > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: c.reference, Y: -0.5}, {X: c.reference, Y: p.Y.Max}})
		if err != nil {
			return false, err
		}
		p.Add(line)
	}
	return true, p.Save(18*vg.Centimeter, 11*vg.Centimeter, filepath.Join(dir, c.file))
}

// logTicks marks 1, 2 and 5 of each power of ten.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * math.Pow(10, power); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", math.Round(v*1e6)/1e6)})
			}
		}
	}
	return ticks
}

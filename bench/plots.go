package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart is one plot: a row per library and a mark per size, or else a curve per library across the sizes.
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
	high, low := "right is better", "left is better"
	if sc.across != "" {
		high, low = "higher is better", "lower is better"
	}
	better := high
	if sc.lowIsGood {
		better = low
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
			axis: fmt.Sprintf("%s (%s)", mWait99, low),
			value: func(s sizeResult, library string) float64 {
				if library == floor {
					return math.NaN() // it never waits
				}
				return median(s.samples.values(library, mWait99))
			},
		})
	}
	if sc.id == "S7" { // it has no floor
		list[0].reference, list[0].axis = 0, fmt.Sprintf("%s (%s)", sc.head, low)
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
	color.RGBA{R: 0, G: 0, B: 0, A: 255},
}

var marks = []draw.GlyphDrawer{
	draw.CircleGlyph{},
	draw.SquareGlyph{},
	draw.TriangleGlyph{},
	draw.RingGlyph{},
	draw.BoxGlyph{},
	draw.PyramidGlyph{},
	draw.CrossGlyph{},
	draw.PlusGlyph{},
}

func style(i int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: palette[i%len(palette)], Radius: vg.Points(4), Shape: marks[i%len(marks)]}
}

// points returns the figures of the plotted sizes of each library that has any, in the order of the entrants, and the range of
// all. A figure that cannot be drawn is NaN.
func (c chart) points() (names []string, sizes []sizeResult, figures map[string][]float64, low, high float64) {
	for _, s := range c.result.sizes {
		if !s.unplotted {
			sizes = append(sizes, s)
		}
	}
	figures = make(map[string][]float64)
	low, high = c.reference, c.reference
	for _, e := range entrants() {
		some := false
		values := make([]float64, len(sizes))
		for i, s := range sizes {
			v := c.value(s, e.name)
			if !(v > 0) || math.IsInf(v, 0) {
				values[i] = math.NaN()
				continue
			}
			if low == 0 {
				low, high = v, v
			}
			some, values[i], low, high = true, v, min(low, v), max(high, v)
		}
		if some {
			names, figures[e.name] = append(names, e.name), values
		}
	}
	return names, sizes, figures, low / 1.3, high * 1.3
}

// draw writes the chart into a directory, as SVG. It reports whether there was anything to draw.
func (c chart) draw(dir string) (drawn bool, err error) {
	names, sizes, figures, low, high := c.points()
	if len(names) == 0 {
		return false, nil
	}
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.Title.Padding = c.title+"\n"+c.axis, vg.Points(8)
	p.Add(plotter.NewGrid())
	height := 9 * vg.Centimeter
	if c.result.scenario.across != "" {
		err = c.curves(p, &legend, names, sizes, figures, low, high)
	} else {
		slices.Reverse(names) // the first one is on top
		err = c.rows(p, &legend, names, sizes, figures, low, high)
		height = vg.Length(3+max(len(names), len(sizes))) * 0.75 * vg.Centimeter
	}
	if err != nil {
		return false, err
	}
	return true, save(p, legend, height, filepath.Join(dir, c.file))
}

// rows draws a row for each library, with a mark for each size.
func (c chart) rows(
	p *plot.Plot, legend *plot.Legend, names []string, sizes []sizeResult, figures map[string][]float64, low, high float64,
) error {
	for i, s := range sizes {
		var dots plotter.XYs
		for row, name := range names {
			if v := figures[name][i]; !math.IsNaN(v) {
				dots = append(dots, plotter.XY{X: v, Y: float64(row)})
			}
		}
		if len(dots) == 0 {
			continue
		}
		scatter, err := plotter.NewScatter(dots)
		if err != nil {
			return err
		}
		scatter.GlyphStyle = style(i)
		p.Add(scatter)
		if len(sizes) > 1 {
			legend.Add(s.id, scatter)
		}
	}
	p.NominalY(names...)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	p.X.Min, p.X.Max = low, high
	p.Y.Min, p.Y.Max = -0.5, float64(len(names))-0.5
	return c.mark(p, plotter.XYs{{X: c.reference, Y: p.Y.Min}, {X: c.reference, Y: p.Y.Max}})
}

// curves draws a curve for each library, across the sizes. The floor is the reference line.
func (c chart) curves(
	p *plot.Plot, legend *plot.Legend, names []string, sizes []sizeResult, figures map[string][]float64, low, high float64,
) error {
	at := func(i int) float64 { return float64(sizes[i].goroutines) }
	names = slices.DeleteFunc(names, func(name string) bool { return name == floor })
	for i, name := range names {
		var dots plotter.XYs
		for k, v := range figures[name] {
			if !math.IsNaN(v) {
				dots = append(dots, plotter.XY{X: at(k), Y: v})
			}
		}
		line, points, err := plotter.NewLinePoints(dots)
		if err != nil {
			return err
		}
		points.GlyphStyle = style(i)
		line.Color, line.Width = points.Color, vg.Points(1.5)
		p.Add(line, points)
		legend.Add(name, line, points)
	}
	var ticks []plot.Tick
	for i := range sizes {
		ticks = append(ticks, plot.Tick{Value: at(i), Label: fmt.Sprint(at(i))})
	}
	p.X.Scale, p.X.Tick.Marker, p.X.Label.Text = plot.LogScale{}, plot.ConstantTicks(ticks), c.result.scenario.across
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = at(0)/1.2, at(len(sizes)-1)*1.2, low, high
	return c.mark(p, plotter.XYs{{X: p.X.Min, Y: c.reference}, {X: p.X.Max, Y: c.reference}})
}

// mark draws the reference line, if there is one.
func (c chart) mark(p *plot.Plot, ends plotter.XYs) error {
	if c.reference == 0 {
		return nil
	}
	line, err := plotter.NewLine(ends)
	if err != nil {
		return err
	}
	line.Width = vg.Points(1.5)
	p.Add(line)
	return nil
}

// save writes a plot with its legend beside it, on a white ground, so that both can be read on a dark page too.
func save(p *plot.Plot, legend plot.Legend, height vg.Length, file string) error {
	const width, beside = 20 * vg.Centimeter, 5 * vg.Centimeter
	img := vgsvg.New(width, height)
	page := draw.New(img)
	page.SetColor(color.White)
	page.Fill(page.Path())
	p.Draw(draw.Crop(page, vg.Points(6), -beside, vg.Points(6), -vg.Points(6)))
	legend.Top, legend.Left, legend.Padding = true, true, vg.Points(4)
	legend.TextStyle.Font.Size = vg.Points(10)
	legend.Draw(draw.Crop(page, width-beside+vg.Points(8), 0, 0, -vg.Points(40)))
	var text bytes.Buffer
	if _, err := img.WriteTo(&text); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
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

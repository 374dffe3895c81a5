package dashboard

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The picture, in px. Grafana's grid has 24 columns.
const (
	width, margin, gap    = 1000, 12, 8
	header, footer        = 62, 30
	column, row           = (width - 2*margin + gap) / 24.0, 27.0
	above, below, beside  = 38, 48, 14 // what is around the axes of a panel
	apart                 = 6          // an axis from its labels
	letter                = 6.3        // the width of a letter of the labels
	headroom              = 1.05       // above the highest value
	colours               = 6
	mostTicks, mostLabels = 5, 7
)

//go:embed picture.svg.tmpl
var pictureText string

var picture = template.Must(template.New("picture").Parse(pictureText))

// px is a length or a place. It prints with a tenth of a pixel.
type px float64

// String implements [fmt.Stringer].
func (p px) String() string { return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64) }

// view is what the template draws.
type view struct {
	Title, Outage           string
	Width, Height, CaptionY px
	Panels                  []panelView
}

type panelView struct {
	Title, Description       string
	Of                       string // the panel, for the tests
	X, Y, W, H               px
	Left, Top, Right, Bottom px // of the lines
	OutX, OutW               px
	XTicks, YTicks           []tick
	Lines                    []line
	LabelX, LegendY, PlotH   px
}

type tick struct {
	At    px
	Label string
}

type line struct {
	Name       string
	Colour     int
	Path, Area string
}

// draw returns the picture of a dashboard.
func draw(t *testing.T, b board, lines map[string][]series, r span) []byte {
	t.Helper()
	v := view{Title: b.Title, Width: width}
	v.Outage = fmt.Sprintf("Redis does not answer (%.0f s to %.0f s)",
		r.out.Sub(r.start).Seconds(), r.back.Sub(r.start).Seconds())
	for _, p := range b.Panels {
		pv := newPlot(p, lines[p.Title], r).view(p)
		of, err := json.Marshal(p)
		require.NoError(t, err)
		pv.Of = string(of)
		v.Height = max(v.Height, pv.Y+pv.H+footer)
		v.Panels = append(v.Panels, pv)
	}
	v.CaptionY = v.Height - 11
	var svg bytes.Buffer
	require.NoError(t, picture.Execute(&svg, v))
	return svg.Bytes()
}

// plot has the lines of a panel and the scale of its axes.
type plot struct {
	span
	lines               []series
	unit                string
	top, step           float64 // of the values
	left, right, bottom float64
}

func newPlot(p panel, lines []series, r span) *plot {
	d := p.FieldConfig.Defaults
	l := &plot{
		span: r, lines: lines, unit: d.Unit, top: 1, step: 1,
		right: p.GridPos.W*column - gap - beside - apart, bottom: p.GridPos.H*row - gap - below,
	}
	if highest := headroom * stack(lines, d.Custom.Stacking.Mode == "normal"); highest > 0 {
		l.step = niceStep(highest, mostTicks)
		if l.unit == "short" {
			l.step = max(l.step, 1) // it counts
		}
		l.top = math.Ceil(highest/l.step) * l.step
	}
	widest := 0
	for _, tick := range l.yTicks() {
		widest = max(widest, utf8.RuneCountInString(tick.Label))
	}
	l.left = beside + letter*float64(widest) + apart
	return l
}

// stack puts the lines upon each other, if they are to be stacked, and returns the highest value.
func stack(lines []series, stacked bool) (highest float64) {
	sum := make(map[int64]float64)
	for i := range lines {
		s := &lines[i]
		s.low = make([]float64, len(s.points))
		for k, point := range s.points {
			if stacked {
				s.low[k] = sum[point.T]
				sum[point.T] += point.F
			}
			highest = max(highest, s.low[k]+point.F)
		}
	}
	return highest
}

// niceStep returns the smallest step of 1, 2 or 5 times a power of ten that divides a range into at most n parts, or nearly so.
func niceStep(most float64, n int) float64 {
	least := most / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

func (l *plot) x(ms int64) px {
	part := float64(ms-l.start.UnixMilli()) / float64(l.end.UnixMilli()-l.start.UnixMilli())
	return px(l.left + part*(l.right-l.left))
}

func (l *plot) y(v float64) px { return px(l.bottom - v/l.top*(l.bottom-above)) }

func (l *plot) yTicks() (all []tick) {
	for i := 0; float64(i) <= l.top/l.step+1e-9; i++ {
		v := float64(i) * l.step
		all = append(all, tick{l.y(v), label(v, l.unit)})
	}
	return all
}

func (l *plot) xTicks() (all []tick) {
	took := l.end.Sub(l.start).Seconds()
	step := niceStep(took, mostLabels)
	for i := 0; float64(i)*step <= took*(1+1e-3); i++ {
		at := l.start.Add(time.Duration(float64(i) * step * float64(time.Second)))
		all = append(all, tick{l.x(at.UnixMilli()), short(float64(i)*step) + " s"})
	}
	return all
}

// label returns a value in a unit of Grafana.
func label(v float64, unit string) string {
	switch {
	case unit == "percentunit":
		return short(v*100) + "%"
	case unit == "ops":
		return short(v) + " ops/s"
	case unit != "s":
		return short(v)
	case v == 0 || v >= 1:
		return short(v) + " s"
	case v >= 1e-3:
		return short(v*1e3) + " ms"
	default:
		return short(v*1e6) + " µs"
	}
}

func short(v float64) string {
	if v >= 1000 {
		return short(v/1000) + " K"
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// view returns what the template draws of a panel.
func (l *plot) view(p panel) panelView {
	v := panelView{
		Title: p.Title, Description: p.Description,
		X: px(margin + p.GridPos.X*column), Y: px(header + p.GridPos.Y*row),
		W: px(p.GridPos.W*column - gap), H: px(p.GridPos.H*row - gap),
		Left: px(l.left), Top: above, Right: px(l.right), Bottom: px(l.bottom),
		XTicks: l.xTicks(), YTicks: l.yTicks(),
	}
	v.OutX = l.x(l.out.UnixMilli())
	v.OutW = l.x(l.back.UnixMilli()) - v.OutX
	v.LabelX, v.LegendY, v.PlotH = v.Left-apart, v.H-12, v.Bottom-v.Top
	for i, s := range l.lines {
		path, area := l.paths(s)
		v.Lines = append(v.Lines, line{Name: s.name, Colour: i % colours, Path: path, Area: area})
	}
	return v
}

// paths returns the line of a series, and the area below it. Where the series has no value, both have a gap.
func (l *plot) paths(s series) (path, area string) {
	var paths, areas strings.Builder
	var up, down []string
	flush := func() {
		if len(up) == 0 {
			return
		}
		slices.Reverse(down)
		fmt.Fprintf(&paths, "M%sh0L%s", up[0], strings.Join(up, " ")) // a point alone is a dot
		fmt.Fprintf(&areas, "M%sL%sZ", strings.Join(up, " "), strings.Join(down, " "))
		up, down = nil, nil
	}
	for k, point := range s.points {
		if k > 0 && point.T-s.points[k-1].T > l.pace.Milliseconds()*3/2 {
			flush()
		}
		x := l.x(point.T)
		up = append(up, fmt.Sprintf("%v,%v", x, l.y(s.low[k]+point.F)))
		down = append(down, fmt.Sprintf("%v,%v", x, l.y(s.low[k])))
	}
	flush()
	return paths.String(), areas.String()
}

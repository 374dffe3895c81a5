package main

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// look is the style of all pictures, for light and dark pages.
//
//go:embed look.css
var look string

// svg returns the picture as a file.
func (p *picture) svg() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]s %[2]s" width="%[1]s" height="%[2]s" role="img">`+"\n",
		px(p.width), px(p.height))
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", html.EscapeString(p.title), html.EscapeString(p.desc))
	fmt.Fprintf(&b, "<style>\n%s</style>\n", look)
	b.WriteString(`<rect class="canvas" width="100%" height="100%"/>` + "\n")
	for _, l := range p.back {
		fmt.Fprintf(&b, `<path class="%s" d="%s"/>`+"\n", l.class, l.path())
	}
	for _, r := range p.boxes {
		fmt.Fprintf(&b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s"/>`+"\n",
			r.class, px(r.x), px(r.y), px(r.w), px(r.h), px(r.radius))
	}
	for _, l := range p.lines {
		fmt.Fprintf(&b, `<path class="%s" d="%s"/>`+"\n", l.class, l.path())
		if l.head {
			fmt.Fprintf(&b, `<path class="tip %s" d="%s"/>`+"\n", l.class, l.tip())
		}
	}
	for _, t := range p.texts {
		fmt.Fprintf(&b, `<text class="%s" x="%s" y="%s"%s>%s</text>`+"\n", t.class, px(t.x), px(t.y), t.anchored(), t.spans())
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// px prints a length or a place, with a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func (t text) anchored() string {
	if t.anchor == "start" {
		return ""
	}
	return ` text-anchor="` + t.anchor + `"`
}

func (t text) spans() string {
	var b strings.Builder
	for i, part := range strings.Split(t.content, "`") {
		if i%2 == 1 {
			fmt.Fprintf(&b, `<tspan class="code">%s</tspan>`, html.EscapeString(part))
		} else {
			b.WriteString(html.EscapeString(part))
		}
	}
	return b.String()
}

const tipLength, tipHalf = 9.0, 4.0

// toward returns the point that is at a distance from one point in the direction of another.
func (from point) toward(to point, distance float64) point {
	length := math.Hypot(to.x-from.x, to.y-from.y)
	return point{from.x + (to.x-from.x)/length*distance, from.y + (to.y-from.y)/length*distance}
}

// path returns the way of the line. It ends within its arrowhead, because its end is wider than the tip.
func (l line) path() string {
	last := len(l.points) - 1
	var b strings.Builder
	for i, at := range l.points {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%s,%s", px(at.x), px(at.y))
		case i < last:
			in, out := at.toward(l.points[i-1], rounding), at.toward(l.points[i+1], rounding)
			fmt.Fprintf(&b, "L%s,%sQ%s,%s %s,%s", px(in.x), px(in.y), px(at.x), px(at.y), px(out.x), px(out.y))
		default:
			if l.head {
				at = at.toward(l.points[i-1], tipLength-1)
			}
			fmt.Fprintf(&b, "L%s,%s", px(at.x), px(at.y))
		}
	}
	return b.String()
}

// tip returns the arrowhead.
func (l line) tip() string {
	end, before := l.points[len(l.points)-1], l.points[len(l.points)-2]
	base := end.toward(before, tipLength)
	dx, dy := (end.x-base.x)/tipLength*tipHalf, (end.y-base.y)/tipLength*tipHalf
	return fmt.Sprintf("M%s,%sL%s,%sL%s,%sZ", px(end.x), px(end.y), px(base.x-dy), px(base.y+dx), px(base.x+dy), px(base.y-dx))
}

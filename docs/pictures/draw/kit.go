package main

import (
	"slices"
	"strings"
)

// picture is what a drawing consists of, from the back to the front.
type picture struct {
	file        string // its name, without .svg
	title, desc string // for readers who cannot see it
	width       float64
	height      float64
	back        []line // behind the boxes
	boxes       []box
	lines       []line
	texts       []text
}

// The colours, by what they stand for in all pictures.
const (
	held    = "c0" // a holder, and what succeeds
	inGo    = "c1" // a process with rlock
	waiting = "c2"
	failing = "c3"
	inJava  = "c4"
	redis   = "c5"
	neutral = "n"
)

const (
	pageWidth = 800.0 // about the width of a page on GitHub, so that a picture is shown in its own size
	margin    = 24.0
	rounding  = 6.0 // of the corners of lines
)

// newPicture returns a picture with a heading, and a sentence below it.
func newPicture(file string, height float64, heading, sentence, desc string) *picture {
	p := &picture{file: file, title: heading, desc: desc, width: pageWidth, height: height}
	p.write(title, margin, 38, heading)
	p.write(note, margin, 59, sentence)
	return p
}

type point struct{ x, y float64 }

type rect struct{ x, y, w, h float64 }

func (r rect) right() float64  { return r.x + r.w }
func (r rect) bottom() float64 { return r.y + r.h }
func (r rect) middle() point   { return point{r.x + r.w/2, r.y + r.h/2} }

// grown returns the rectangle with a margin around it.
func (r rect) grown(by float64) rect { return rect{r.x - by, r.y - by, r.w + 2*by, r.h + 2*by} }

func (r rect) overlaps(o rect) bool {
	return r.x < o.right() && o.x < r.right() && r.y < o.bottom() && o.y < r.bottom()
}

func (r rect) contains(o rect) bool {
	return r.x <= o.x && o.right() <= r.right() && r.y <= o.y && o.bottom() <= r.bottom()
}

// box is a rectangle, and class is how it looks: see the style.
type box struct {
	rect
	class  string
	radius float64
}

// card draws a plain box.
func (p *picture) card(r rect) { p.boxes = append(p.boxes, box{r, "box", 6}) }

// tint draws a box of a colour.
func (p *picture) tint(r rect, colour string) { p.boxes = append(p.boxes, box{r, "tint " + colour, 4}) }

// ground draws the ground of a part of the picture, behind what is in it.
func (p *picture) ground(r rect, colour string) {
	p.boxes = slices.Insert(p.boxes, 0, box{r, "tint faint " + colour, 6})
}

// dashed draws a box of a colour for a time in which nothing is done.
func (p *picture) dashed(r rect, colour string) {
	p.boxes = append(p.boxes, box{r, "tint dashed " + colour, 4})
}

// waiter draws a box for those who wait, with a text in its middle.
func (p *picture) waiter(r rect, s string) {
	p.dashed(r, waiting)
	p.centre(body, r.middle().x, r.middle().y+4.5, s)
}

// opaque hides what is behind a box that is drawn after it.
func (p *picture) opaque(r rect) { p.boxes = append(p.boxes, box{r, "canvas", 4}) }

// chip draws a box of a colour with a text in its middle.
func (p *picture) chip(r rect, colour, s string) {
	p.tint(r, colour)
	p.centre(body, r.middle().x, r.middle().y+4.5, s)
}

// line is drawn from point to point, with round corners.
type line struct {
	points []point
	class  string
	head   bool // it ends in an arrowhead
}

// behind draws a line behind the boxes.
func (p *picture) behind(class string, points ...point) {
	p.back = append(p.back, line{points: points, class: class})
}

// rule draws a line.
func (p *picture) rule(class string, points ...point) {
	p.lines = append(p.lines, line{points: points, class: class})
}

// arrow draws a line with an arrowhead.
func (p *picture) arrow(class string, points ...point) {
	p.lines = append(p.lines, line{points: points, class: "line " + class, head: true})
}

// style is a sort of text. Its class is in the style of the pictures.
type style struct {
	class string
	size  float64
	bold  bool
}

var (
	title = style{"title", 18, true}
	head  = style{"head", 14, true}
	body  = style{"body", 13, false}
	note  = style{"note", 12, false}
)

// text is a line of text. Code in it is between backticks.
type text struct {
	style
	x, y    float64 // of the baseline
	anchor  string
	content string
}

// width returns how much room the text needs, whichever font the reader has.
func (t text) width() (sum float64) {
	for i, part := range strings.Split(t.content, "`") {
		sum += t.advance(part, i%2 == 1)
	}
	return sum
}

func (s style) advance(part string, isCode bool) float64 {
	widths := regular
	if s.bold {
		widths = bold
	}
	if isCode {
		return float64(len([]rune(part))) * codeAdvance * codeSize * s.size
	}
	sum := 0.0
	for _, r := range part {
		sum += widths.of(r)
	}
	return sum * s.size
}

// extent returns the room of the text, from the height of its capitals to its descenders.
func (t text) extent() rect {
	w := t.width()
	x := t.x
	switch t.anchor {
	case "middle":
		x -= w / 2
	case "end":
		x -= w
	}
	return rect{x, t.y - 0.76*t.size, w, t.size}
}

func (p *picture) write(s style, x, y float64, content string) {
	p.texts = append(p.texts, text{s, x, y, "start", content})
}

func (p *picture) centre(s style, x, y float64, content string) {
	p.texts = append(p.texts, text{s, x, y, "middle", content})
}

func (p *picture) writeEnd(s style, x, y float64, content string) {
	p.texts = append(p.texts, text{s, x, y, "end", content})
}

// advances has how wide characters are, by width in parts of the size of the font.
type advances map[string]float64

// The widths are those that Chromium measures with DejaVu Sans, rounded up. The other fonts of the style are narrower.
var (
	regular = advances{
		"'ijl": .28, "IJ ,.·’": .32, "/:;\\|f-()[]t!": .40, "r\"": .46, "*_`–sz“”?": .53,
		"cLFkvxy": .59, "PTYaoeESbdghnpqu$0123456789{}µ": .64, "KAVBRXZC": .70, "UHNDGOQ&": .79,
		"w#+<=>^~×→←✓✕≤M": .86,
	}
	bold = advances{
		"'ijl ": .35, "IJ,.·’/:;\\|-": .42, "f!()[]tr": .49, "*_`–\"?zc": .59, "sLvxy": .65, "akEFTe“”o$0123456789": .70,
		"hnu{}SYbdgpqCPZµB": .76, "AKRVXUGDN": .84, "#+<=>^~×→←✓✕≤HOQ&w": .92,
	}
)

const (
	widest      = 1.1
	codeAdvance = 0.61
	codeSize    = 0.94 // to the text around it
)

func (a advances) of(r rune) float64 {
	for letters, width := range a {
		if strings.ContainsRune(letters, r) {
			return width
		}
	}
	return widest
}

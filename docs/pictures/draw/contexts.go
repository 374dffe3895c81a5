package main

// contextNode is a context, as the picture names it, and the calls with it, one after the other.
type contextNode struct {
	name, made string // made is how it was made
	meaning    string
	parent     string // the name of another one, or empty
	inDo       bool   // the calls are made while Do holds the lock
	calls      []contextCall
}

type contextCall struct {
	code   string
	effect effect
}

type effect int

const (
	acquires effect = iota
	reenters
	waitsForItself
)

// effects has how the picture shows an effect.
var effects = []struct{ colour, text string }{
	acquires: {inGo, "acquires"}, reenters: {held, "re-enters"}, waitsForItself: {failing, "waits for itself"},
}

var contextTree = []contextNode{
	{name: "ctx", made: "a plain context", meaning: "each call is an owner of its own", calls: []contextCall{
		{"lock.Lock(ctx)", acquires}, {"lock.Lock(ctx)", waitsForItself},
	}},
	{name: "owner", made: "`WithOwner(ctx)`", meaning: "all calls are one owner, as in a thread", parent: "ctx", calls: []contextCall{
		{"lock.Lock(owner)", acquires}, {"lock.Lock(owner)", reenters},
	}},
	{
		name: "held", made: "`lock.Do(ctx, func(held …) …)`", meaning: "carries the hold of this lock", parent: "ctx", inDo: true,
		calls: []contextCall{
			{"lock.Lock(held)", reenters}, {"other.Lock(held)", acquires}, {"lock.Lock(ctx)", waitsForItself},
		},
	},
	{name: "same", made: "`EnsureOwner(held)`", meaning: "an owner that keeps the hold", parent: "held", inDo: true, calls: []contextCall{
		{"lock.Lock(same)", reenters},
	}},
	{name: "fresh", made: "`WithOwner(held)`", meaning: "another owner, without the hold", parent: "held", inDo: true, calls: []contextCall{
		{"lock.Lock(fresh)", waitsForItself},
	}},
}

// The places of the picture of the contexts.
const (
	nodeIndent, nodeWide, nodeTall = 40.0, 272.0, 46.0
	callTall, callAt, effectAt     = 34.0, 448.0, 612.0
	effectWide                     = 148.0
	nodeGap, inDoTop               = 18.0, 36.0 // inDoTop is the room for the heading of the part in Do
)

// contexts shows which calls re-enter a lock, and which wait for themselves.
func contexts() *picture {
	p := newPicture("contexts", 560, "Which call re-enters",
		"The context decides, not the goroutine. Arrows lead to contexts made from others. Calls follow each other, from the top.",
		"A tree of contexts. With a plain context, a second call for the same lock waits for the first. With the context of WithOwner, "+
			"it re-enters. With the context that Do passes to its function, a call for the same lock re-enters, and one for another lock "+
			"acquires that; a call with the plain context outside waits for itself. EnsureOwner inside Do makes an owner that re-enters; "+
			"WithOwner there makes another owner, which waits for itself.")
	nodes := make(map[string]rect)
	indent := map[string]float64{"": -nodeIndent}
	last := make(map[string]string) // the last one that is made of each
	for _, node := range contextTree {
		last[node.parent] = node.name
	}
	y := 86.0
	var inDo rect
	for _, node := range contextTree {
		if node.inDo && inDo.w == 0 {
			inDo = rect{margin + nodeIndent - 16, y, effectAt + effectWide - margin - nodeIndent + 32, 0}
			p.write(head, inDo.x+16, y+23, "while `Do` holds the lock")
			y += inDoTop
		}
		indent[node.name] = indent[node.parent] + nodeIndent
		r := rect{margin + indent[node.name], y, nodeWide, nodeTall}
		nodes[node.name] = r
		p.node(node, r)
		if from, ok := nodes[node.parent]; ok {
			p.branch(from, r, last[node.parent] == node.name)
		}
		y += max(nodeTall, float64(len(node.calls))*callTall) + nodeGap
	}
	inDo.h = y - inDo.y - 2
	p.ground(inDo, held)
	p.height = inDo.bottom() + margin
	return p
}

// node draws a context and its calls.
func (p *picture) node(node contextNode, r rect) {
	p.card(r)
	p.write(head, r.x+12, r.y+19, "`"+node.name+"`")
	p.writeEnd(note, r.right()-12, r.y+19, node.made)
	p.write(note, r.x+12, r.y+36, node.meaning)
	for i, call := range node.calls {
		middle := r.middle().y + float64(i)*callTall
		if i == 0 {
			p.rule("thin", point{r.right(), middle}, point{callAt - 10, middle})
		} else {
			p.rule("thin", point{callAt - 26, r.middle().y}, point{callAt - 26, middle}, point{callAt - 10, middle})
		}
		p.write(body, callAt, middle+4.5, "`"+call.code+"`")
		e := effects[call.effect]
		p.chip(rect{effectAt, middle - 13, effectWide, 26}, e.colour, e.text)
	}
}

// branch draws the arrow from a context to one that is made from it.
func (p *picture) branch(from, to rect, last bool) {
	x := from.x + nodeIndent/2 - 4
	if last {
		p.arrow(neutral, point{x, from.bottom()}, point{x, to.middle().y}, point{to.x, to.middle().y})
	} else {
		p.arrow(neutral, point{x, to.middle().y}, point{to.x, to.middle().y})
	}
}

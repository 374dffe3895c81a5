package main

// need is something that a user wants, and the kind that does it.
type need struct {
	want string
	use  string
}

// The needs, in the words and the order of README. Those of locks follow from a need of their own: one at a time.
var (
	oneAtATime = []need{
		{"nothing else", "`NewLock`"},
		{"late writes must be refused", "`NewFencedLock`"},
		{"first come, first served across processes", "`NewFairLock`"},
		{"many may read, or one may write", "`NewRWLock`"},
		{"several locks, or none of them", "`NewMultiLock`"},
		{"on several independent masters", "`NewRedLock`"},
	}
	otherNeeds = []need{
		{"at most n at a time", "`NewSemaphore`"},
		{"wait until n parts are done", "`NewCountDownLatch`"},
		{"one process leads, for as long as it lives", "`NewElection`"},
		{"one of many processes does each job", "`TryDo` with `AtLeast`"},
	}
)

// choosing leads from a need to the kind that meets it.
func choosing() *picture {
	p := newPicture("choosing", 562, "Which lock", "If in doubt, NewLock.",
		"A tree of decisions. One at a time and nothing else: NewLock. One at a time, and late writes must be refused: NewFencedLock. "+
			"In the order of arrival over all processes: NewFairLock. Many readers or one writer: NewRWLock. Several locks or none: "+
			"NewMultiLock. Several independent masters: NewRedLock. At most n at a time: NewSemaphore. Wait until n parts are done: "+
			"NewCountDownLatch. One process leads: NewElection. One of many processes does each job: TryDo with AtLeast.")
	const top, step, tall = 86.0, 42.0, 32.0
	const trunk, first, second, use = 40.0, 64.0, 242.0, 596.0
	row := func(i int) float64 { return top + float64(i)*step }
	p.card(rect{margin, row(0), 186, tall})
	p.write(head, margin+14, row(0)+21, "What do you need?")
	ask := func(x float64, i int, n need) {
		r := rect{x, row(i), use - 36 - x, tall}
		p.card(r)
		p.write(body, r.x+14, r.y+20.5, n.want)
		p.arrow(neutral, point{r.right(), r.middle().y}, point{use, r.middle().y})
		p.chip(rect{use, row(i), pageWidth - margin - use, tall}, inGo, n.use)
	}
	branch := func(x float64, from float64, i int, to float64, last bool) {
		middle := row(i) + tall/2
		if last {
			p.arrow(neutral, point{x, from}, point{x, middle}, point{to, middle})
		} else {
			p.arrow(neutral, point{x, middle}, point{to, middle})
		}
	}

	locks := rect{first, row(1), 142, tall}
	p.card(locks)
	p.write(body, locks.x+14, locks.y+20.5, "one at a time")
	branch(trunk, 0, 1, first, false)
	for i, n := range oneAtATime {
		ask(second, 1+i, n)
		if i == 0 {
			p.arrow(neutral, point{locks.right(), locks.middle().y}, point{second, locks.middle().y})
		} else {
			branch(locks.right()+18, locks.middle().y, 1+i, second, i == len(oneAtATime)-1)
		}
	}
	for i, n := range otherNeeds {
		line := 1 + len(oneAtATime) + i
		ask(first, line, n)
		branch(trunk, row(0)+tall, line, first, i == len(otherNeeds)-1)
	}
	return p
}

package main

// fencing shows how a store refuses the late write of a paused holder.
func fencing() *picture {
	p := newPicture("fencing", 552, "A late write is refused",
		"The store keeps the token of the latest write, and refuses a write with a lower one.",
		"A sequence of four parties: holder 1, Redis, holder 2 and the store. Holder 1 acquires the lock with token 7, and is paused for longer than its lease. "+
			"Its lease ends in Redis. Holder 2 acquires the lock with token 8, and writes with it; the store accepts, and keeps 8. "+
			"Holder 1 goes on, and writes with token 7. The store refuses that, because 7 is lower than 8.")
	const one, server, two, store = 110.0, 304.0, 498.0, 692.0
	const top, bottom = 84.0, 528.0
	for _, party := range []struct {
		x            float64
		name, colour string
	}{{one, "holder 1", inGo}, {server, "Redis", redis}, {two, "holder 2", inGo}, {store, "your store", neutral}} {
		p.tint(rect{party.x - 76, top, 152, 34}, party.colour)
		p.centre(head, party.x, top+22, party.name)
		p.behind("thin", point{party.x, top + 34}, point{party.x, bottom})
	}
	send := func(colour string, from, to, y float64, s string) {
		p.arrow(colour, point{from, y}, point{to, y})
		p.centre(body, (from+to)/2, y-8, s)
	}
	at := func(x, y, tall float64) rect { return rect{x - 70, y, 140, tall} }
	chip := func(x, y float64, colour, s string) {
		p.opaque(at(x, y, 28))
		p.chip(at(x, y, 28), colour, s)
	}

	send(neutral, one, server, 152, "acquire")
	send(held, server, one, 186, "token 7")
	paused := at(one, 204, 210)
	p.opaque(paused)
	p.dashed(paused, neutral)
	p.centre(body, one, paused.middle().y-4, "paused for longer")
	p.centre(body, one, paused.middle().y+15, "than its lease")
	chip(server, 220, failing, "the lease ends")
	send(neutral, two, server, 284, "acquire")
	send(held, server, two, 318, "token 8")
	send(neutral, two, store, 352, "write, token 8")
	chip(store, 366, held, "keeps 8")
	send(neutral, one, store, 446, "write, token 7")
	send(failing, store, one, 504, "refused")
	chip(store, 460, failing, "7 is lower than 8")
	return p
}

package main

// The places of the picture of the parties.
const (
	processTop, processTall, processWide = 84.0, 190.0, 176.0
	redisTop, redisTall                  = 376.0, 136.0
	chipTall                             = 28.0
)

// parties shows who takes part, and the connections between them.
func parties() *picture {
	p := newPicture("parties", 596, "Who takes part",
		"Four processes use the lock invoice:42. Redis alone decides which of them has it.",
		"Three Go processes with rlock and one Java process with Redisson share a Redis. Process A holds the lock invoice:42, and "+
			"renews and releases it by commands. Process B has two waiters, of which only the first stands in the line in Redis. "+
			"Process C stands behind it. On a connection for messages, each of B and C learns that the lock is its own. The "+
			"Java process listens to Redisson's channel, and learns there that the lock is free.")
	p.process(0, "process A", "Go", inGo, "rlock client")
	p.chip(stood(0, 1), held, "holds the lock")
	p.commands(0, "renew,", "release")

	p.process(1, "process B", "Go", inGo, "rlock client")
	p.waiter(stood(1, 0), "second waiter")
	p.waiter(stood(1, 1), "first waiter")
	p.arrow(neutral, point{stood(1, 0).middle().x, stood(1, 0).bottom()}, point{stood(1, 1).middle().x, stood(1, 1).y})
	p.commands(1, "acquire:", "refused")
	p.messages(1, "the lock", "is yours")

	p.process(2, "process C", "Go", inGo, "rlock client")
	p.waiter(stood(2, 1), "waiter")
	p.commands(2, "acquire:", "refused")
	p.messages(2, "the lock", "is yours")

	p.process(3, "process D", "Java", inJava, "Redisson")
	p.waiter(stood(3, 1), "waiter")
	p.commands(3, "acquire:", "refused")
	p.messages(3, "the lock", "is free")

	p.inRedis(rect{margin, redisTop, pageWidth - 2*margin, redisTall})
	p.legend(542)
	return p
}

func column(i int) rect {
	return rect{margin + float64(i)*(processWide+16), processTop, processWide, processTall}
}

// stood returns the place of a goroutine in a process, from the top down.
func stood(process, row int) rect {
	r := column(process)
	return rect{r.x + 14, r.y + 42 + float64(row)*(chipTall+20), processWide - 28, chipTall}
}

// process draws a process with its client.
func (p *picture) process(i int, name, language, colour, client string) {
	r := column(i)
	p.card(r)
	p.write(head, r.x+14, r.y+25, name)
	p.writeEnd(note, r.right()-14, r.y+25, language)
	p.chip(stood(i, 2), colour, client)
	p.arrow(neutral, point{r.middle().x, stood(i, 1).bottom()}, point{r.middle().x, stood(i, 2).y})
}

// commands draws the way of a process's commands to Redis.
func (p *picture) commands(process int, first, second string) {
	x := column(process).middle().x - 9
	p.arrow(neutral, point{x, processTop + processTall}, point{x, redisTop})
	p.writeEnd(note, x-9, 320, first)
	p.writeEnd(note, x-9, 336, second)
}

// messages draws the way of messages to a process.
func (p *picture) messages(process int, first, second string) {
	x := column(process).middle().x + 9
	p.arrow("dashed "+neutral, point{x, redisTop}, point{x, processTop + processTall})
	p.write(note, x+9, 320, first)
	p.write(note, x+9, 336, second)
}

// inRedis draws what Redis has of the lock.
func (p *picture) inRedis(r rect) {
	p.ground(r, redis)
	p.write(head, r.x+16, r.y+26, "Redis")
	const gap = 16.0
	wide := (r.w - 4*gap) / 3
	part := func(i int, heading string) rect {
		card := rect{r.x + gap + float64(i)*(wide+gap), r.y + 40, wide, r.h - 56}
		p.card(card)
		p.write(head, card.x+14, card.y+25, heading)
		return card
	}
	key := part(0, "the key `invoice:42`")
	p.write(body, key.x+14, key.y+47, "the holder: A, locked once")
	p.write(body, key.x+14, key.y+66, "the lease: ends in 28 s")
	queue := part(1, "the line")
	for i, name := range []string{"1.  B", "2.  C"} {
		p.waiter(rect{queue.x + 14 + float64(i)*76, queue.y + 38, 66, chipTall}, name)
	}
	channels := part(2, "the channels")
	p.write(body, channels.x+14, channels.y+47, "B and C: one each")
	p.write(body, channels.x+14, channels.y+66, "D: Redisson's")
}

// legend explains the two sorts of lines.
func (p *picture) legend(y float64) {
	p.rule("line "+neutral, point{margin, y - 4}, point{margin + 36, y - 4})
	p.write(note, margin+48, y, "commands, through the pool of your Redis client, like all of its other commands")
	y += 22
	p.rule("line dashed "+neutral, point{margin, y - 4}, point{margin + 36, y - 4})
	p.write(note, margin+48, y, "messages, through one connection per client and Redis node, while somebody waits")
}

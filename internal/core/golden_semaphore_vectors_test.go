package core_test

// plainVectors are those of the specification for plain semaphores, and some of rlock's own. A line is
//
//	call = reply -> state ! messages // where Redisson differs: reason
//
// The state is the number of free permits, its lifetime if it has one, and the permits that are out, by their holders, each with what is
// left of its lease in seconds: over, if that is over, and never, if it has none. - means that there is no key. Without a state nothing
// changes. A line that begins with "java" runs Redis commands instead. A refusal is "no", with the hint in seconds.
var plainVectors = []struct{ claim, lines string }{
	{"1 nobody has set it up", `
		get 11 1 = -1 // 0, as for any refusal
		drain 1 = 0
		give 2 2 = 1 -> 2 ! 2 // nil
		set 3 10 = 2 // 0: the reply is how many there were
	`},
	{"2 it counts", `
		set 1 10 = -1 -> 10 ! 10 // 1
		set 2 15 = 10 // 0
		get 11 3 = 1 -> 7
		get 12 8 = 0
		get 13 7 = 1 -> 0
		set 3 5 = 0
		give 4 2 = 1 -> 2 ! 2
		give 5 1 = 1 -> 3 ! 3
		drain 6 = 3 -> 0
		drain 7 = 0
	`},
	{"3 there may be fewer than none", `
		java SET $ 0 -> 0
		add 1 4 = 1 -> 4 ! 4 // nil
		add 2 -6 = 1 -> -2 // ! -2: Redisson's listeners fail at it
		give 3 1 = 1 -> -1 // ! -1
		drain 4 = -1 -> 0
	`},
	{"4 more permits set it up", `
		add 1 4 = 1 -> 4 ! 4
		java DEL $ -> -
		add 2 0 = 1 -> 0 // ! 0: nobody can use it
	`},
	{"5 it may expire", `
		set 1 5 60000 = -1 -> 5 60s ! 5
		get 11 1 = 1 -> 4 60s
		give 2 1 = 1 -> 5 60s ! 5
		add 3 1 = 1 -> 6 60s ! 6 // 6: it expires no more
		drain 4 = 6 -> 0 60s // 0
	`},
	{"6 the ends of the range", `
		set 1 -3 = -1 -> -3 // ! -3; a client does not send it
		java SET $ 2147483647 -> 2147483647
		give 2 1 = 0 // 2147483648, which Redisson reads as a negative number
	`},
	{"7 what is not a count stays as it is", `
		java SET $ abc -> abc
		get 11 1 = ERR the value is not a count: "abc"
		give 1 1 = ERR the value is not a count: "abc"
		add 2 1 = ERR the value is not a count: "abc"
		set 3 1 = ERR the value is not a count: "abc" // 0: the user should know
		drain 4 = ERR the value is not a count: "abc" // abc, and sets it to 0
		free = ERR the value is not a count: "abc"
		java SET $ 2.5 -> 2.5
		add 5 1 = ERR the value is not a count: "2.5" // 3.5
		java HSET $ j:1 1 -> hash
		get 12 1 = WRONGTYPE
		give 6 1 = WRONGTYPE
		set 7 1 = WRONGTYPE
		drain 8 = WRONGTYPE
		delete 9 = WRONGTYPE
	`},
	{"rlock's own: a repeated call replies the same and changes nothing", `
		set 1 5 = -1 -> 5 ! 5
		set 1 5 = -1
		add 2 2 = 1 -> 7 ! 7
		add 2 2 = 1
		get 11 3 = 1 -> 4
		get 11 3 = 1
		give 3 1 = 1 -> 5 ! 5
		give 3 1 = 1
		drain 4 = 5 -> 0
		drain 4 = 5
		undo 11 3 = 1 -> 3 ! 3
		undo 11 3 = 0
		get 11 3 = 0
		delete 5 = 1 -> -
		delete 5 = 1
		set 1 5 = -1
	`},
}

// leasedVectors are those for semaphores whose permits have leases.
var leasedVectors = []struct{ claim, lines string }{
	{"9 nobody has set it up", `
		acquire A 1 10 = unset // nil, as if all permits were out for good
		count = 0 0
		release A 1 = 0
		back 1 A = 0
	`},
	{"10 permits have leases", `
		set 1 3 = -1 -> 3 ! 3 // 1
		acquire A 1 30 = ok -> 2 A:30
		acquire B 2 50 = ok -> 0 A:30 B:50 B:50
		acquire D 1 10 = no 30 // the time when the lease of A ends
		over A -> 0 A:over B:50 B:50
		acquire E 2 10 = no 50 -> 1 B:50 B:50 ! 1
		take D -> 0 B:50 B:50 D:never
		acquire E 1 10 = no 50
	`},
	{"11 a permit may have no lease", `
		java SET $ 0 -> 0
		take D -> -1 D:never
		java SET $ 1 -> 1 D:never
		acquire B 1 50 = ok -> 0 B:50 D:never
		never B -> 0 B:never D:never
		acquire E 1 10 = no
		renew D 30 = 1 // the lease gets longer, and never is longer
	`},
	{"12 permits are given back by their ids", `
		set 1 3 = -1 -> 3 ! 3
		acquire B 1 50 = ok -> 2 B:50
		acquire C 1 50 = ok -> 1 B:50 C:50
		take D -> 0 B:50 C:50 D:never
		back 2 B = 1 -> 1 C:50 D:never ! 1
		back 3 B = 0
		back 4 C D = 1 -> 3 ! 3 // 2: the number of those given back
		back 5 C D = 0
		count = 3 0
	`},
	{"13 a release after the end of the lease", `
		set 1 3 = -1 -> 3 ! 3
		acquire A 1 10 = ok -> 2 A:10
		over A -> 2 A:over
		back 2 A = 0 // 0, and v 3 ! 3: it comes back when somebody needs it
		release A 1 = 1 -> 3 ! 3 // 0: nobody else had it meanwhile
		release A 1 = 0
	`},
	{"14 all are given back, or none", `
		set 1 3 = -1 -> 3 ! 3
		acquire A 1 10 = ok -> 2 A:10
		take B -> 1 A:10 B:never
		over A -> 1 A:over B:never
		back 2 A B = 0
		back 3 B = 1 -> 2 A:over ! 2 // v 3 ! 2 1: A comes back when somebody needs it
	`},
	{"15 a count writes nothing", `
		set 1 3 = -1 -> 3 ! 3
		acquire A 3 10 = ok -> 0 A:10 A:10 A:10
		over A -> 0 A:over A:over A:over
		count = 3 0 // v 3 ! 3
		acquire D 1 10 = ok -> 2 D:10 ! 2 // v 0 ! 1: Redisson takes as many back as it needs
		count = 2 1
	`},
	{"16 the total", `
		set 1 3 = -1 -> 3 ! 3
		acquire D 1 50 = ok -> 2 D:50
		total 2 5 = 1 -> 4 D:50 ! 4 // 5, the total
		total 3 5 = 1
		total 4 0 = 1 -> -1 D:50 // ! 0
		count = -1 1
		release D 1 = 1 -> 0 // ! 0
		java DEL $ -> -
		total 5 4 = 1 -> 4 ! 4
	`},
	{"17 more and fewer permits", `
		add 1 4 = 1 -> 4 ! 4
		add 2 -6 = 1 -> -2
		add 3 0 = 1
		java SET $ 2 -> 2
		acquire A 2 10 = ok -> 0 A:10 A:10
		over A -> 0 A:over A:over
		add 4 -2 = 1 -> -2 A:over A:over
		acquire B 1 10 = no -> 0 // v -1, and v 0 at the next one
	`},
	{"18 it may expire", `
		set 1 2 60000 = -1 -> 2 60s ! 2
		acquire A 1 10 = ok -> 1 60s A:10 60s
		add 2 1 = 1 -> 2 60s A:10 60s ! 2 // v 2, and only the leases expire
		java DEL $ -> - A:10 60s
		release A 1 = 1 -> -
		release A 1 = 0
	`},
	{"19 it was deleted by hand", `
		set 1 2 = -1 -> 2 ! 2
		acquire A 2 10 = ok -> 0 A:10 A:10
		java DEL $ -> - A:10 A:10
		count = 0 0 // 0 2
		acquire B 1 10 = unset
		set 2 5 = -1 -> 3 A:10 A:10 ! 3 // v 5: there would be two more
		java DEL $ -> - A:10 A:10
		over A -> - A:over A:over
		release A 2 = 1 -> - // v 2 ! 2
	`},
	{"20 the same id twice", `
		set 1 3 = -1 -> 3 ! 3
		acquire A 1 10 = ok -> 2 A:10
		acquire A 1 20 = ok -> 2 A:20 // v 1: a permit is lost
		release A 1 = 1 -> 3 ! 3
	`},
	{"21 a client whose clock is ahead takes it", `
		set 1 1 = -1 -> 1 ! 1
		acquire A 1 30 = ok -> 0 A:30
		java ZREM {$}:timeout $A -> 0
		take B -> -1 B:never
		renew A 30 = 0
		release A 1 = 0
	`},
	{"rlock's own: others take some of several permits back", `
		set 1 3 = -1 -> 3 ! 3
		acquire A 3 30 = ok -> 0 A:30 A:30 A:30
		java ZREM {$}:timeout $A -> 0 A:30 A:30
		java SET $ 1 -> 1 A:30 A:30
		renew A 60 = 0
		release A 3 = 0 -> 3 ! 3
	`},
	{"rlock's own: a repeated call replies the same and changes nothing", `
		set 1 5 = -1 -> 5 ! 5
		set 1 5 = -1
		add 2 2 = 1 -> 7 ! 7
		add 2 2 = 1
		acquire A 3 30 = ok -> 4 A:30 A:30 A:30
		acquire A 3 10 = ok
		renew A 60 = 1 -> 4 A:60 A:60 A:60
		back 3 A = 1 -> 5 A:60 A:60 ! 5
		back 3 A = 1
		release A 3 = 0 -> 7 ! 7 // one of them was gone
		release A 3 = 0
		total 4 2 = 1 -> 2
		total 4 2 = 1
		delete 5 = 1 -> -
		delete 5 = 1
		set 1 5 = -1
	`},
}

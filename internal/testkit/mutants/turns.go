package mutants

// Turns has the mutants of internal/core that the simulation hunts. simulation/internal/exhaust plants others.
var Turns = []Mutant{
	{"1", "no process stands back after a public release", "", []Edit{
		{"internal/core/wait.go", "return d <= 0 || a.pause(d)", "return true || d <= 0"},
	}},

	{"2", "waiters of rlock count as others", "", []Edit{
		{"internal/core/lua/line.lua", "return n[2] - n[4]", "return n[2]"},
	}},

	{"3", "Redis's time counts from the arrival of a reply", "", []Edit{
		{"internal/core/clock.go", "return c.sent.Add(d - d.Abs()/100)", "return c.came.Add(d)"},
	}},

	{"4", "the line expires under those who wait", "", []Edit{
		{"internal/core/lua/acquire.lua", "redis.call('PEXPIRE', KEYS[2], 600000)", "redis.call('PEXPIRE', KEYS[2], 6000, 'NX')"},
		{"internal/core/lua/permits_acquire.lua", "redis.call('PEXPIRE', KEYS[2], 600000)", "redis.call('PEXPIRE', KEYS[2], 6000, 'NX')"},
	}},
	{"5", "nobody looks after what a lost reply may have done", "", []Edit{
		{"internal/core/acquire.go", "\t\ta.open = max(a.open, until)\n", ""},
	}},
	{"6", "an unlock serves nobody", "", []Edit{
		{"internal/core/lua/release.lua", "    token = pass(now, next, n > 0)\n", ""},
		{"internal/core/lua/permits_release.lua", "  serve(now, '', n > 0)\n", ""},
	}},
	{"7", "a waiter whose connection was replaced does not ask", "", []Edit{
		{"internal/core/topic.go", "t.Ready = func() { c.tell(n, message{kind: askAgain}) }", "t.Ready = func() {}"},
	}},
	{"8", "who waits for what a release makes free is passed over", "", []Edit{
		{"internal/core/lua/permits.lua", "member ~= asker and hear(field) == 0", "member ~= asker"},
		{"internal/core/lua/lock.lua", "if hear(field) > 0 then", "if hear(field) > 9 then"},
	}},
	{"9", "a lease counts from the reply", "", []Edit{
		{"internal/core/acquire.go", "return a.take(clock.Of(sent), a.t.Lease, r.N, true)", "return a.take(clock.Of(sent)*0+clock.Now(), a.t.Lease, r.N, true)"},
	}},
	{"10", "an unlock ends with the caller's context", "", []Edit{
		{"internal/core/release.go", "\t\tctx = context.WithoutCancel(ctx)\n", ""},
	}},
	{"11", "the next one of a process does not ask once a permit was granted", "", []Edit{
		{"internal/core/hold.go", "\t\tnext = a.pass()\n\t} else {", "\t} else {"},
	}},
	{"12", "a repeated acquire of permits takes them again", "", []Edit{
		{"internal/core/lua/permits_acquire.lua", "has = has + (redis.call('ZSCORE', KEYS[3], id) and 1 or 0)", "has = has"},
	}},
	{"13", "a release gives back permits that others took back before", "", []Edit{
		{"internal/core/lua/permits_release.lua", "if back > 0 and redis.call('EXISTS', KEYS[1]) == 1 then\n  redis.call('INCRBY', KEYS[1], back)", "if ARGV[1] ~= '' and redis.call('EXISTS', KEYS[1]) == 1 then\n  redis.call('INCRBY', KEYS[1], ARGV[4])"},
	}},
	{"14", "permits are taken back before their leases are over", "", []Edit{
		{"internal/core/lua/permits.lua", "'-inf', math.floor(now / 1000),", "'-inf', math.floor(now / 1000) + 1500,"},
	}},
	{"15", "a loss of a part of several permits goes unnoticed", "", []Edit{
		{"internal/core/lua/permits_renew.lua", "      renewed[i] = 0\n", "      renewed[i] = 1\n"},
	}},
	{"16", "a waiter for more than there are stops all others", "internal/core, TestPermitsGoToTheFirstInTheLine", []Edit{
		{"internal/core/lua/permits.lua", "elseif wants <= free + redis.call('ZCARD', KEYS[3]) then", "elseif true then"},
	}},
	{"17", "a call that changes the permits serves nobody", "", []Edit{
		{"internal/client/semaphore.go", "\t\ts.client.core.Serve(s.h.Key.Name)\n", ""},
	}},
}

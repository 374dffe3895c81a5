package mutants

// Rlock has mutants of rlock as a whole, of a kind that other libraries have had.
var Rlock = []Mutant{
	{"M1", "a release deletes the lock of any holder", "", []Edit{
		{"internal/lua/line_release.lua", `redis.pcall('HDEL', KEYS[1], ARGV[1])`, `redis.pcall('DEL', KEYS[1])`},
	}},
	{"M2", "a lease counts from the reply", "", []Edit{
		{"internal/table/hold.go", "\tg.confirm(p.sent, p.lease, n)\n\tif a.queue", "\tg.confirm(now, p.lease, n)\n\tif a.queue"},
		{"internal/table/due.go", "g.confirm(sent, b.lease, n)", "g.confirm(now, b.lease, n)"},
		{"internal/table/hold.go", "case lease.Late(p.sent, p.lease, now):", "case lease.Late(p.sent, p.lease, p.sent):"},
	}},
	{"M3", "go-redis retries scripts, and each run counts", "./internal/driver/goredis TestABrokenPipeline", []Edit{
		{"internal/driver/goredis/command.go", "NoRetry() bool { return true }", "NoRetry() bool { return false }"},
		{"internal/lua/lock_acquire.lua", "  extend(KEYS[1], ARGV[2])\n", "  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)\n  extend(KEYS[1], ARGV[2])\n"},
		{
			"internal/lua/lock_release.lua", "local freed = redis.pcall('HDEL', KEYS[1], ARGV[1])",
			"if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 1 end\n" +
				"local freed = redis.pcall('HDEL', KEYS[1], ARGV[1])",
		},
	}},
	{"M4", "a renewal extends the lock of any holder", "", []Edit{
		{"internal/lua/lock_renew.lua", "local held = holds(key, ARGV[i + 1])", "local held = redis.call('EXISTS', key)"},
	}},
	{"M5", "a waiter does not try again after it has subscribed", "./internal/pubsub TestAConfirmationWakes", []Edit{
		{"internal/pubsub/reader.go", "\t\th.newEpoch(ch)\n\t\tch.notifyAll()\n\t\tif ch.moved", "\t\th.newEpoch(ch)\n\t\tif ch.moved"},
	}},
	{"M6", "a waiter does not try again after it has resubscribed", "./internal/pubsub TestACutConnectionIsANewEpoch", []Edit{
		{"internal/pubsub/reader.go", "\t\th.newEpoch(ch)\n\t\tch.notifyAll()\n\t\tif ch.moved", "\t\tif !ch.ever {\n\t\t\th.newEpoch(ch)\n\t\t\tch.notifyAll()\n\t\t}\n\t\tch.ever = true\n\t\tif ch.moved"},
		{"internal/pubsub/hub.go", "\tmessages  uint64\n", "\tmessages  uint64\n\tever      bool\n"},
	}},
	{"M7", "the watchdog keeps renewing after the unlock", "", []Edit{
		{"internal/table/grant.go", "\tg.stage, g.attempt = retired, nil\n\tt.heap.Remove(g)\n", "\tg.stage, g.attempt = held, nil\n" +
			"\tg.term.Deadline = g.term.Deadline.Add(time.Hour)\n\tg.inRound = false\n" +
			"\tg.term.RenewAt = g.term.Confirmed.Add(t.cfg.WatchdogTimeout / 3)\n\tt.heap.Set(g, g.term.RenewAt)\n"},
		{"internal/table/grant.go", "\treturn longest, shortest\n", "\tif longest == 0 {\n\t\tlongest = g.table.cfg.WatchdogTimeout\n\t\tshortest = longest\n\t}\n\treturn longest, shortest\n"},
	}},
	{"M8", "a fair queue keeps dead waiters", "", []Edit{
		{"internal/lua/fair_prelude.lua", "      if holder then\n", "      if given and not holder then\n        return nil, now + 1000, false, passed\n      elseif holder then\n"},
	}},
	{"M9", "a renewal extends the locks of all readers", "", []Edit{
		{"internal/lua/read_renew.lua", "    extend(hold, ARGV[1])\n", "    for _, f in ipairs(redis.call('HKEYS', lock)) do\n" +
			"      redis.call('PEXPIRE', '{' .. lock .. '}:' .. f .. ':rwlock_timeout:1', ARGV[1])\n    end\n"},
	}},
	{"M10", "a multi lock keeps its acquired members when another member is refused", "", []Edit{
		{"internal/group/request.go", "r.giveUp(ctx, a)", "_ = a"},
	}},
	{"M11", "a red lock is valid forever, and counts expired members", "", []Edit{
		{"internal/group/acquisition.go", "return m.part != nil && m.Err() == nil", "return m.part != nil"},
		{"internal/group/acquisition.go", "if had {", "if had || true {"},
	}},
	{"M12", "an unlock ends with the caller's context", "", []Edit{
		{"internal/client/lock.go", "return c.exit(lasting(ctx), x, step, n)", "return c.exit(ctx, x, step, n)"},
	}},
	{"M13", "fencing tokens come from a counter alone, not from the clock", "", []Edit{
		{"internal/lua/fenced_prelude.lua", "if token < now then", "if false then"},
	}},
	{"M14", "a lease under a millisecond is sent as zero", "", []Edit{
		{"lockoptions.go", "case d < least || d > maxLease:", "case d <= 0*least || d > maxLease:"},
		{"internal/wire/call.go", "int64((d + time.Millisecond - 1) / time.Millisecond)", "int64(d / time.Millisecond)"},
	}},
	{"M15", "nobody releases a lock that was handed over to a waiter that has left", "", []Edit{
		{"internal/table/look.go", "\t\ta.grant.inDoubt = true // the hand-over may have been carried out, or may still be\n", ""},
	}},
	{"M16", "a waiter that leaves a fair queue stays in it", "./internal/wire TestGoldenFair", []Edit{
		{"internal/lua/fair_release.lua", "  remove(q, ARGV[6])\n", ""},
	}},
	{"M17", "the scripts of a fair lock wake nobody", "", []Edit{
		{"internal/lua/fair_prelude.lua", "return deliver(q.publish, q.channel .. ':' .. waiter, MessageFree) and 1 or 0", "return 1"},
		{"internal/lua/fair_prelude.lua", "if not hand(q.lock, q.publish, q.channel .. ':' .. waiter, message) then", "if false then"},
	}},
	{"M18", "a red lock takes half of the members for a majority", "", []Edit{
		{"internal/group/group.go", "g.need = len(g.members)/2 + 1; !red", "g.need = len(g.members) / 2; !red"},
	}},
	{"M19", "readers ignore a writer", "", []Edit{
		{"internal/lua/read_acquire.lua", "(mode == WriteMode and redis.call('HEXISTS', KEYS[1], ARGV[7]) == 1)", "mode == WriteMode"},
	}},
	{"M20", "after a successful hand-over, the releaser hands the lock over again", "", []Edit{
		{"internal/table/handover.go", "\tt.onHandedOver(x.next, x.nextGrant, r, now, n)\n", "\tif r.Acquired() {\n\t\tr.N = -2\n\t}\n\tt.onHandedOver(x.next, x.nextGrant, r, now, n)\n"},
	}},
	{"M21", "a process refuses its own callers because of a holder that is gone", "", []Edit{
		{"internal/owner/holdings.go", "\tdelete(n, name)\n", ""},
		{"internal/table/grant.go", "(h.usable(now) || h.stage == releasing)", "true"},
		{"internal/table/queue.go", "if g == nil || g.stage != held || a.sibling().usable(now) {", "if g == nil || a.sibling().usable(now) {"},
	}},
	{"M22", "a retired number leaves no tombstone", "", []Edit{
		{"internal/table/grant.go", "\tif !g.inDoubt {\n\t\treturn 0\n\t}\n\treturn config.Tombstone(g.term.Lease)", "\tif !g.inDoubt {\n\t\treturn 0\n\t}\n\treturn config.Tombstone(0) * 0"},
	}},
	{"M64", "what the members of a group said is forgotten when the end of the wait cuts its next round off (L.15)", "./internal/group TestAWaitThatEndsIsAnOutageOrARefusal", []Edit{
		{"internal/group/request.go", "time.Since(since) < r.floor {", "time.Since(since) < r.floor && r.group.red {"},
	}},
	{"M23", "a question that the end of a wait cuts off counts as an outage", "", []Edit{
		{"internal/outcome/outcome.go", "now.Sub(r.asked) >= floor", "now.Sub(r.asked) >= 0"},
	}},
	{"M24", "silence counts as contention", "", []Edit{
		{"internal/client/errors.go", "\t\tknown = l.explained(last.Err)\n", "\t\tif known = l.explained(last.Err); end == nil {\n\t\t\tknown = fault.ErrRefused\n\t\t}\n"},
	}},
	{"M25", "a cancellation counts as an outage", "", []Edit{
		{"internal/client/errors.go", "if !last.Known() && (end == nil || errors.Is(end, context.DeadlineExceeded)) {", "if !last.Known() {"},
	}},
	{"M26", "a question may take longer than the wait of its call", "", []Edit{
		{"internal/client/wait.go", "now.Add(l.AttemptTime(t.Wait)).Add(acks)", "now.Add(max(t.Wait, cfg.CommandTimeout)).Add(acks)"},
	}},
	{"M27", "the error of a group matches the errors of all its members", "", []Edit{
		{"internal/group/errors.go", "why := err.Error()\n", "why := err.Error()\n\t\tmatch = append(match, err)\n"},
	}},
	{"M28", "the unlock of a lost lock asks Redis", "", []Edit{
		{"internal/table/exit.go", "\tt.loseIfPast(g, now, n)\n\ta.closed.Store(true)", "\ta.closed.Store(true)"},
		{"internal/table/exit.go", "\tt.loseIfPast(g, now, n)\n\tswitch {", "\tswitch {"},
	}},
	{"M29", "a hand-over of a fenced lock keeps the last holder's token", "", []Edit{
		{
			"internal/table/handover.go", "\tt.onHandedOver(x.next, x.nextGrant, r, now, n)\n",
			"\tif r.Acquired() {\n\t\tr.N = int64(x.grant.token)\n\t}\n\tt.onHandedOver(x.next, x.nextGrant, r, now, n)\n",
		},
		{"internal/table/free.go", "proof{token: given.Token, sent: a.sent,", "proof{token: x.grant.token, sent: a.sent,"},
	}},
	{"M30", "the unlock of a borrowed hold ends the hold", "", []Edit{
		{"internal/client/carried.go", "func (b borrowed) Unlock(", "func (b borrowed) refuse("},
	}},
	{"M31", "a new owner does not hide the holds of its context", "", []Edit{
		{"internal/client/carried.go", "hold.created == hiding &&", "(hold.created == hiding || hiding != nil) &&"},
	}},
	{"M32", "a renewal is due before the end of the lease, however long the lease is", "", []Edit{
		{"internal/lease/term.go", "return min(t.Confirmed.Add(shortest/3), t.Ends().Add(-longest*2/3))", "return t.Ends().Add(-longest * 2 / 3)"},
	}},
	{"M33", "Extend without a reply returns nil", "", []Edit{
		{"internal/client/extend.go", "l.failed(ctx, \"extend\", r.Err, outcome.Since(x.sent))", "nil"},
	}},
	{"M34", "Extend lengthens the lease only in the process", "", []Edit{
		{"internal/table/acquisition.go", "wire.NewRenewal(g.handle.Kind.Renew, d, 1)", "wire.NewRenewal(g.handle.Kind.Renew, time.Millisecond, 1)"},
	}},
	{"M35", "a shutdown ends the renewals", "", []Edit{
		{"internal/table/due.go", "case t.closed, !g.inRound ||", "case t.closed, t.stopping, !g.inRound ||"},
	}},
	{"M36", "a shutdown does not tell the holders", "", []Edit{
		{"internal/table/shutdown.go", "\t\t\tg.at(i).ending.Tell(fault.ErrClosed, n)\n", "\t\t\t_ = g.at(i)\n"},
	}},
	{"M37", "a shutdown does not wait for the holders", "", []Edit{
		{"internal/table/open.go", "if t.open == 0 && t.drained != nil", "if t.drained != nil"},
	}},
	{"M38", "the count of held locks counts acquisitions", "", []Edit{
		{"internal/table/hold.go", "\tt.counts.Held++\n", ""},
		{"internal/table/grant.go", "g.table.open++", "g.table.open++\n\tg.table.counts.Held++"},
	}},
	{"M39", "a call that stops waiting is counted forever", "", []Edit{
		{"internal/table/attempt.go", "\t\tt.counts.Waiting--\n", ""},
	}},
	{"M40", "the lock is granted to a waiter that is not reached", "./internal/wire TestAWaiterThatIsNotReachedIsPassedOver", []Edit{
		{"internal/lua/line_prelude.lua", "  if able and receivers > 0 then\n", "  if able then\n"},
		{"internal/lua/line_prelude.lua", "elseif holder and hears(publish, beside(base, client)) then", "elseif holder then"},
	}},
	{"M41", "a release gives the lock to a waiter of its process that has left", "", []Edit{
		{"internal/lua/line_release.lua", "if freed ~= 1 or following ~= '' and redis.call('HEXISTS', tombstones, string.match(following, ':(%d+)')) == 1 then", "if freed ~= 1 then"},
		{"internal/lua/line_release.lua", "    and not (next and redis.pcall('HEXISTS', KEYS[4] or KEYS[3], string.match(next, ':(%d+)')) ~= 0) then", "    then"},
	}},
	{"M42", "a granted lease counts from the arrival of the message", "", []Edit{
		{"internal/table/internal/place/place.go", "at, ok = p.reading.Granted(g.Micros, g.Term, g.Heard, now)", "at, ok = g.Heard, true"},
	}},
	{"M43", "nobody follows up a public release", "./internal/table TestAProcessFollowsUpItsPublicRelease", []Edit{
		{"internal/table/free.go", "\tif given.What == wire.ToPublic {\n", "\tif given.What == wire.ToPublic && a0 {\n"},
		{"internal/table/free.go", "// give returns the call that frees", "var a0 bool\n\n// give returns the call that frees"},
	}},
	{"M44", "nobody grants the lock that Redisson's peer has freed", "./internal/suites/claims TestALockThatTheOthersHoldIsWatched", []Edit{
		{"internal/table/watch.go", "if w == nil || unwatched && w.queues", "if w == nil || !unwatched || w.queues"},
	}},
	{"M45", "Redisson's peer is never offered the lock", "", []Edit{
		{"internal/lua/line_prelude.lua", "if waiting > 0 and others > 0\n    and (side", "if false\n    and (side"},
	}},
	{"M46", "a grant that comes before the reply to its waiter's question is dropped", "", []Edit{
		{"internal/table/message.go", "if !its(a.Handle) {", "if !its(a.Handle) || a.place.Asks {"},
	}},
	{"M47", "a waiter that leaves stays in the line", "", []Edit{
		{"internal/lua/line_release.lua", "  able, reply = pcall(forget, KEYS[2], mine)\n", ""},
	}},
	{"M48", "a waiter that was cut off does not ask again", "", []Edit{
		{"internal/pubsub/reader.go", "\t\th.newEpoch(ch)\n\t\tch.notifyAll()\n\t\tif ch.moved", "\t\tif ch.moved"},
	}},
	{"M49", "whoever watches all channels counts as a waiter", "", []Edit{
		{"internal/lua/line_prelude.lua", "  return hearers(publish, channel) > 0\n", "  return announce(publish, channel, MessageLease) > 0\n"},
	}},
	{"M63", "a client in a wrapper is not seen", "./internal/suites/trouble TestEveryClientHandsOffByMessages", []Edit{
		{"internal/driver/goredis/unwrap.go", "for range maxWrappers {", "for range 1 {"},
	}},
	{"E1", "the context of a leader goes on after a loss", "", []Edit{
		{"election.go", "own = lead(held, hold.Token())", "own = lead(context.WithoutCancel(held), hold.Token())"},
	}},
	{"E2", "a leader that lost the lock still says that it leads", "", []Edit{
		{"election.go", "return hold != nil && hold.Err() == nil", "return hold != nil"},
	}},
	{"E3", "a leader resigns before its function has returned", "", []Edit{
		{
			"election.go", "own = lead(held, hold.Token())",
			"done := make(chan struct{})\n\tgo func() {\n\t\town = lead(held, hold.Token())\n\t\tclose(done)\n\t}()\n\tselect {\n\tcase <-done:\n\tcase <-held.Done():\n\t}",
		},
	}},
	{"E4", "a leader does not hear of the end of its lease", "", []Edit{
		{"election.go", "lost, own = e.lead(held, lead,", "lost, own = e.lead(context.WithoutCancel(held), lead,"},
		{"election.go", "hold != nil && hold.Err() == nil", "hold != nil"},
	}},
	{"T1", "an adoption leaves the ticket its holder", "", []Edit{
		{"internal/lua/handover_prelude.lua", "    return token and raise(token) or 0, true\n", "    redis.call('HSET', lock, last, 1)\n    return token and raise(token) or 0, true\n"},
	}},
	{"T2", "an export frees the lock for a moment", "", []Edit{
		{"internal/table/export.go", "x.phase, x.sent = exporting, now\n", "x.phase = exporting\n\tif x.retries == 0 {\n\t\tx.retries++\n\t\treturn Step{Do: Ask, Call: x.grant.inRedis().Release(x.grant.handle.Names(), 0)}\n\t}\n"},
	}},
	{"T3", "an adopted hold keeps the token of the exporter", "", []Edit{
		{"internal/wire/ticket.go", "cmp.Or[any](c.Args.Other, \"1\")", "nil"},
	}},
	{"B1", "the locks x and {x} have one line", "", []Edit{
		{"internal/wire/names.go", "\t\treturn braced\n", "\t\treturn \"\"\n"},
		{"internal/lua/line_prelude.lua", "and BracedEnding or '')", "and '' or '')"},
	}},
	{"B2", "a release of x gives the lock to the first one in the queue, who waits for {x}", "", []Edit{
		{"internal/wire/names.go", "add(prefix, suffix, own)", "add(prefix, suffix, \"\")"},
		{"internal/lua/fair_prelude.lua", "  return ours(waiter) and (string.byte(waiter, -1) == 125) ~=", "  return false and (string.byte(waiter, -1) == 125) ~="},
	}},
	{"M59", "a lock that is granted to a waiter of long ago is kept", "./internal/suites/trouble TestARestoreBringsBackWaitersOfLongAgo", []Edit{
		{"internal/table/message.go", "\t\tt.unknown(h, m.Number, m.Term, arrived, n)\n", ""},
	}},
	{"C7", "a repeated count-down counts again", "", []Edit{
		{"internal/lua/latch_countdown.lua", "local answer = answered(KEYS[2], ARGV[3])", "local answer = nil"},
	}},
	{"X1", "the context of a hold that is over stands for its owner", "", []Edit{
		{"internal/owner/who.go", "if !c.Closed.Load() {", "if c.Closed.Load() || true {"},
		{"internal/client/hold.go", "!closed.Load() {", "closed != nil {"},
	}},
}

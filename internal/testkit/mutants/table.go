package mutants

// Table has the mutants of the lock table, and of the scripts that its model runs. Each breaks an invariant of the model.
var Table = []Mutant{
	{"1", "a lease counts from the reply", "", []Edit{
		{"internal/table/hold.go", "g.confirm(p.sent, p.lease, n)", "g.confirm(now, p.lease, n)"},
	}},
	{"2", "a wait that ends ignores a lock that was handed over meanwhile", "", []Edit{
		{"internal/table/look.go", "if a.got != nil {\n\t\treturn t.succeed(a, a.got, n)\n\t}\n\tif a.phase", "if a.phase"},
	}},
	{"3", "a late grant of a retired number is ignored", "", []Edit{
		{"internal/table/free.go", "if g.stage == retired {\n\t\tt.cleanUp", "if false {\n\t\tt.cleanUp"},
	}},
	{"4", "a number in doubt gets no tombstone", "", []Edit{
		{"internal/table/grant.go", "return config.Tombstone(g.term.Lease)", "return config.Tombstone(0) * 0"},
	}},
	{"5", "renewals include grants that are being released", "", []Edit{
		{"internal/table/due.go", "case t.closed, !g.inRound || g.stage != held || g.term.Past(now):", "case t.closed:"},
		{"internal/table/due.go", "case longest != b.lease: // an", "case longest < 0: // an"},
	}},
	{"6", "the end of the exclusive holder does not wake the head", "", []Edit{
		{"internal/table/grant.go", "if l := t.queueOf(k); l != nil {", "if l := t.queueOf(k); false {"},
	}},
	{"7", "a hand-over to a waiter that left needs no release", "", []Edit{
		{"internal/table/look.go", "a.grant.inDoubt = true // the hand-over", "a.grant.inDoubt = a.grant.inDoubt // the hand-over"},
	}},
	{"8", "a re-entry whose holder is gone counts as acquired", "", []Edit{
		{"internal/table/settle.go", "case r.N == 0 && g.stage == held:", "case false:"},
	}},
	{"9", "two unlocks of a handle choose the same acquisition", "", []Edit{
		{"internal/table/exit.go", "if a.closed.Load() {", "if false {"},
		{"internal/table/owners.go", "func(a *Acquisition) bool { return !a.closed.Load() }, func(", "func(*Acquisition) bool { return true }, func("},
	}},
	{"10", "an attempt is refused in this process although the holder is past its deadline", "", []Edit{
		{"internal/table/queue.go", "if g == nil || g.stage != held || a.sibling", "if g = t.holder(a.Handle.Key); g == nil || g.sameOwner(a.grant) || g.stage != held || a.sibling"},
	}},
	{"11", "an empty local queue forgets to stop listening", "", []Edit{
		{"internal/table/queue.go", "\t\tn.Unlisten(&l.Shared.heard)\n", ""},
	}},
	{"12", "the alarm is not moved when something is due earlier", "", []Edit{
		{"internal/queue/heap.go", "h.alarm == 0 || due < h.alarm", "h.alarm == 0"},
	}},
	{"13", "a reply after the deadline is accepted", "", []Edit{
		{"internal/table/hold.go", "case lease.Late(p.sent, p.lease, now):", "case lease.Late(p.sent, p.lease, p.sent):"},
	}},
	{"14", "a writer that takes its read lock queues", "", []Edit{
		{"internal/table/admit.go", "case a.Handle.Kind.Queues, a.owner != nil && a.sibling().usable(now):", "case a.Handle.Kind.Queues:"},
		{"internal/table/look.go", "case a.sibling().usable(now): // it need", "case false: // it need"},
	}},
	{"15", "an unlock past the deadline asks Redis", "", []Edit{
		{"internal/table/exit.go", "t.loseIfPast(g, now, n)\n\ta.closed.Store(true)", "a.closed.Store(true)"},
		{"internal/table/exit.go", "t.loseIfPast(g, now, n)\n\tswitch {", "switch {"},
	}},
	{"16", "the release after an unlock past the deadline waits for the end of the margin", "", []Edit{
		{"internal/table/loss.go", "t.lose(g, errLeaseEnded, now, n)", "t.expire(g, n)"},
	}},
	{"M1", "a hand-over of a fenced lock keeps the last holder's token", "", []Edit{
		{
			"internal/table/handover.go", "\tt.onHandedOver(x.next, x.nextGrant, r, now, n)\n",
			"\tif r.Acquired() {\n\t\tr.N = int64(x.grant.token)\n\t}\n\tt.onHandedOver(x.next, x.nextGrant, r, now, n)\n",
		},
	}},
	{"M2", "a fenced handle re-enters a hold without a token", "", []Edit{
		{"internal/table/owners.go", "case h.Kind.Tokens && !fenced:", "case false:"},
	}},
	{"L.2a", "a question that the end of a wait cuts off counts as an outage", "", []Edit{
		{"internal/outcome/outcome.go", "now.Sub(r.asked) >= floor", "now.Sub(r.asked) >= 0"},
	}},
	{"L.2b", "a refusal stands although a later question failed", "", []Edit{
		{"internal/outcome/outcome.go", "*r = Record{failure: err}", "r.failure, r.asked = err, 0"},
		{"internal/outcome/outcome.go", "case r.failure != nil:", "case r.failure != nil && !r.refused:"},
	}},
	{"L.2c", "a refusal stands although a later question has had no reply", "", []Edit{
		{"internal/outcome/outcome.go", "if r.asked == 0 {", "if r.asked == 0 && !r.refused {"},
	}},
	{"L.2d", "a late reply to a call that has left counts as one to a later call", "", []Edit{
		{"internal/outcome/outcome.go", "if number >= r.first {", "if number != 0 {"},
	}},
	{"L.2e", "a late reply to a call that waited in no local queue counts as one to a call in it", "", []Edit{
		{"internal/outcome/outcome.go", "if number >= r.first {", "if number == 0 || number >= r.first {"},
	}},
	{"L.4a", "a local refusal counts forever", "", []Edit{
		{"internal/outcome/outcome.go", "r.until != 0 &&", "false &&"},
	}},
	{"L.4b", "a hold of this process does not count as a refusal", "", []Edit{
		{"internal/table/attempt.go", "rival != nil && rival.stage == held {", "rival != nil && false {"},
	}},
	{"L.7", "a waiter asks a last time although its call has to return", "", []Edit{
		{"internal/table/look.go", "!t.bars(a, now) && !a.overdue(now) {", "!t.bars(a, now) {"},
	}},
	{"stop 1", "a shutdown does not wait for re-entered acquisitions", "", []Edit{
		{"internal/table/grant.go", "g.table.open++", "if g.open() == 1 {\n\t\tg.table.open++\n\t}"},
		{"internal/table/open.go", "if !a.accounted {", "if !a.accounted && a == &a.grant.first {"},
	}},
	{"stop 2", "a lock is handed over during a shutdown", "", []Edit{
		{"internal/table/handover.go", "k.HandOver == nil || t.stopping ||", "k.HandOver == nil || t.closed ||"},
	}},
	{"stop 3", "an acquire that is under way when a shutdown begins is granted", "", []Edit{
		{"internal/table/hold.go", "case t.stopping && t.bars(a, now):\n\t\tg.needsCleanup", "case t.closed:\n\t\tg.needsCleanup"},
	}},
	{"stop 4", "a shutdown ends the renewals", "", []Edit{
		{"internal/table/grant.go", "g.term.Due(!g.inRound && g.renewing())", "g.term.Due(!t.stopping && !g.inRound && g.renewing())"},
		{"internal/table/due.go", "case !g.renewing() || g.inRound", "case t.stopping || !g.renewing() || g.inRound"},
	}},
	{"stop 5", "a holder that asks during a shutdown is not told of it", "", []Edit{
		{"internal/table/acquisition.go", "if why == nil && t.stopping {", "if false {"},
	}},
	{"stop 6", "a shutdown waits for a lost lock", "", []Edit{
		{"internal/table/loss.go", "t.allUnlocked(g)\n\tt.counts.lost(g)\n\tfor", "t.counts.lost(g)\n\tfor"},
	}},
	{"stop 7", "a waiter keeps a lock that was handed to it although it hears of the shutdown first", "", []Edit{
		{"internal/table/look.go", "if a.got != nil && t.bars(a, now) {", "if false {"},
	}},
	{"stop 8", "the count of held locks counts acquisitions", "", []Edit{
		{"internal/table/hold.go", "\tt.counts.Held++\n", ""},
		{"internal/table/grant.go", "g.table.open++", "g.table.open++\n\tg.table.counts.Held++"},
	}},
	{"stop 9", "a shutdown ends a re-entry that waits for a connection", "", []Edit{
		{"internal/table/settle.go", "t.stopping && !t.bars(a, now)\n}", "t.stopping && false\n}"},
	}},
	{"E.2", "a hand-over may end the lease earlier", "", []Edit{
		{"internal/table/handover.go", "ended(a.Wait) || g.outlasts(a.Lease, now) {", "ended(a.Wait) {"},
	}},
	{"N.2", "a renewal uses the shortest lease", "", []Edit{
		{"internal/table/grant.go", "return longest, shortest", "return shortest, shortest"},
	}},
	{"N.8", "an extension without a reply moves the deadline", "", []Edit{
		{"internal/table/acquisition.go", "case !g.usable(now) || r.Err != nil:\n\tcase r.List[0] == 1:", "case !g.usable(now):\n\tcase r.Err != nil || r.List[0] == 1:"},
	}},
	{"N.8b", "the late reply of an extension revives a hold", "", []Edit{
		{"internal/table/acquisition.go", "case !g.usable(now) || r.Err != nil:", "case r.Err != nil || g.stage == retired:"},
	}},
	{"N.8c", "an extension forgets how long Redis may keep the lock", "", []Edit{
		{"internal/table/acquisition.go", "\tg.sending(d, now)\n", ""},
	}},
	{"N.3", "a renewal is due before the end of the lease, not after the last confirmation", "", []Edit{
		{"internal/lease/term.go", "min(t.Confirmed.Add(shortest/3), t.Ends().Add(-longest*2/3))", "t.Ends().Add(-longest * 2 / 3)"},
	}},
	{"N.3b", "a short confirmation puts the next renewal off", "", []Edit{
		{"internal/lease/term.go", "min(t.Confirmed.Add(shortest/3), t.Ends().Add(-longest*2/3))", "t.Confirmed.Add(shortest / 3)"},
	}},
	{"line 1", "a release does not look for the tombstone of the next holder that it names (S.7)", "", []Edit{
		{"internal/lua/line_release.lua", "if freed ~= 1 or following ~= '' and redis.call('HEXISTS', tombstones, string.match(following, ':(%d+)')) == 1 then", "if freed ~= 1 then"},
		{"internal/lua/line_release.lua", "    and not (next and redis.pcall('HEXISTS', KEYS[4] or KEYS[3], string.match(next, ':(%d+)')) ~= 0) then", "    then"},
	}},
	{"line 2", "a waiter that is not reached is removed at once (S.4)", "", []Edit{
		{"internal/lua/line_prelude.lua", "if age and age >= ToldFor then", "if true then"},
	}},
	{"line 3", "a waiter that is not reached is never removed (S.4)", "", []Edit{
		{"internal/lua/line_prelude.lua", "if age and age >= ToldFor then", "if false then"},
	}},
	{"line 4", "the deadline of a granted lock counts from the arrival of the message (S.5)", "", []Edit{
		{"internal/table/internal/place/place.go", "at, ok = p.reading.Granted(g.Micros, g.Term, g.Heard, now)", "at, ok = g.Heard, true"},
	}},
	{"line 5", "a grant is relied on although Redis's clock was stepped (S.5)", "", []Edit{
		{"internal/table/internal/place/place.go", "if passed < 0 || at > arrived || now.Sub(at) > term/4 {", "if now.Sub(at) > term/4 {"},
	}},
	{"S.14a", "a reply counts until the lease is over", "", []Edit{
		{"internal/lease/term.go", "Sub(now) < Least(lease)", "Sub(now) <= 0"},
	}},
	{"S.14b", "a re-entry counts although little of the lease is left", "", []Edit{
		{"internal/table/settle.go", "\t\tr.Err = errLateCount\n", "\t\tr.Err = nil\n"},
	}},
	{"line 6", "a message for a number that does not wait causes a release (S.7)", "", []Edit{
		{
			"internal/table/message.go", "\tif a := t.placed[m.Number]; a != nil {\n",
			"\tfor _, g := range t.heap.All() {\n\t\tif g.holder.Number == m.Number && g.stage == held {\n\t\t\tt.lose(g, errHolderGone, arrived, n)\n\t\t\tbreak\n\t\t}\n\t}\n" +
				"\tif a := t.placed[m.Number]; a != nil {\n",
		},
	}},
	{"line 7", "a waiter that leaves the line sends no release (S.7)", "", []Edit{
		{"internal/table/message.go", "a.grant.needsCleanup = true // a release takes", "// a release takes"},
	}},
	{"line 8", "the release of a waiter that leaves does not say that it stood in the line", "", []Edit{
		{"internal/table/place.go", "a.grant.rarely().lineTerm = a.firstTerm", "a.grant.rarely().lineTerm = 0"},
	}},
	{"line 9", "a grant that arrives before the refusal is lost (S.8)", "", []Edit{
		{"internal/table/message.go", "a.grant.needsCleanup = true // a release takes it out of the line\n\tt.takeMessage(a, now, n)", "a.grant.needsCleanup = true // a release takes it out of the line"},
	}},
	{"line 10", "a waiter does not ask when its subscription is confirmed (S.8)", "", []Edit{
		{"internal/table/place.go", "if why == ByMessage || !a.place.Stands", "if !a.place.Stands"},
	}},
	{"line 11", "nobody pumps after a public release (S.9)", "", []Edit{
		{"internal/table/free.go", "if given.What == wire.ToPublic {", "if false {"},
	}},
	{"line 12", "a watcher does not pump when the lock is freed for all (S.9)", "", []Edit{
		{"internal/table/watch.go", "if w == nil || unwatched && w.queues", "if w == nil || !unwatched || w.queues"},
	}},
	{"line 13", "a pump that comes too early is not repeated (S.9)", "", []Edit{
		{"internal/table/watch.go", "case r.Err == nil && r.N < 0:", "case false:"},
	}},
	{"line 14", "a pump without a reply is not repeated (S.9)", "", []Edit{
		{"internal/table/watch.go", "case r.Err != nil && r.Err.Transient && p.failures < maxPumps:", "case false:"},
	}},
	{"line 15", "a process that is asked to watch does not", "", []Edit{
		{"internal/table/look.go", "\tif p.Watch {\n\t\tt.watch(a.Handle, a, n)\n\t}\n", ""},
	}},
	{"line 33", "a request to watch that comes when the waiter has left is lost (S.9)", "", []Edit{
		{"internal/table/watch.go", "\t\tt.pump(h, passOn, n)\n", ""},
	}},
	{"line 16", "a granted lock counts with the lease that was asked for, not with its first term (S.6)", "", []Edit{
		{"internal/table/message.go", "lease: min(g.Term, a.Lease)", "lease: a.Lease"},
	}},
	{"line 17", "the first renewal comes after the first term (S.6)", "", []Edit{
		{"internal/table/message.go", "p.sent.Add(min(firstRenewal, p.lease/3))", "p.sent.Add(p.lease)"},
	}},
	{"line 18", "a release names a waiter that may stand in the line already, and its script does not look", "", []Edit{
		{"internal/table/queue.go", "!a.place.May", "!a.place.Stands"},
		{"internal/lua/line_prelude.lua", "given == following and '' or following)", "following)"},
		{"internal/lua/line_prelude.lua", "        forget(line, following)\n", ""},
	}},
	{"line 19", "a waiter whose question was in doubt leaves without saying that it may stand in the line", "", []Edit{
		{"internal/table/place.go", "\tif a.place.May {\n\t\tdelete", "\tif a.place.Asks || a.place.Stands {\n\t\tdelete"},
	}},
	{"fair 1", "a process does not take in that its release gave the lock to a waiter of its own", "", []Edit{
		{"internal/table/free.go", "if m, ok := r.GaveHere(); ok {", "if m, ok := r.GaveHere(); ok && false {"},
	}},
	{"fair 2", "a waiter leaves without its seat", "", []Edit{
		{"internal/table/place.go", "\t\tg.rarely().seat = a.seat\n", ""},
	}},
	{"fair 3", "a late release takes the next waiter off the seat", "", []Edit{
		{"internal/lua/fair_release.lua", "if freed ~= 1 and ARGV[6] ~= '' and (sitter(q.seats, ARGV[6]) or ARGV[3]) == ARGV[3] then", "if freed ~= 1 and ARGV[6] ~= '' then"},
	}},
	{"fair 4", "a late question takes the next waiter off the seat", "", []Edit{
		{"internal/lua/fair_acquire.lua", "if before and before > tonumber(ARGV[3]) then", "if false then"},
		{"internal/lua/fair_acquire.lua", "elseif before and before < tonumber(ARGV[3]) then", "elseif before and before ~= tonumber(ARGV[3]) then"},
	}},
	{"fair 5", "two waiters have one seat", "", []Edit{
		{"internal/table/place.go", "a.seat, s.spare = s.spare[last], s.spare[:last]", "a.seat = s.spare[last]"},
	}},
	{"line 21", "a release that names its head leaves it to that to follow up a public release (S.9)", "", []Edit{
		{"internal/table/free.go", "if given.What == wire.ToPublic {", "if given.What == wire.ToPublic && x.next == nil {"},
	}},
	{"line 22", "a release that is repeated after a public one does not look after the lock (S.9)", "", []Edit{
		{"internal/lua/line_prelude.lua", "return {0, now, 3, 0, 0, others} -- it may", "return {0, now, 0, 0, 0, others} -- it may"},
	}},
	{"line 23", "a release that gives the lock to others is no refusal for the waiter that it names (L.2)", "", []Edit{
		{"internal/table/free.go", "a.knows().Refused() // by Redis", "a.knows().Answered() // by Redis"},
	}},
	{"line 31", "the last reader wakes whoever listens, and not the line (S.10)", "", []Edit{
		{"internal/lua/line_read_release.lua", "if redis.pcall('EXISTS', KEYS[2]) ~= 1 then", "if true then"},
	}},
	{"line 32", "readers stand aside for the line (S.10)", "", []Edit{
		{"internal/table/way.go", "pause, soon := t.waitFor(a, g, now)\n", "pause, soon := t.waitFor(a, g, now)\n\t\tif t.lined(a.Handle) {\n\t\t\treturn min(pause, aside)\n\t\t}\n"},
		{
			"internal/table/way.go", "func (channelWay) channel(a *Attempt) string { return",
			"func (channelWay) channel(a *Attempt) string {\n\tif a.queue != nil && a.Handle.Kind.Line != nil {\n\t\treturn a.Handle.Names().Own()\n\t}\n\treturn",
		},
	}},
	{"ghost 1", "a client keeps a lock that was granted to a waiter of its past", "", []Edit{
		{"internal/table/message.go", "\t\tt.unknown(h, m.Number, m.Term, arrived, n)\n", ""},
	}},
	{"ghost 2", "a waiter that left the line, and still asks, counts as one of the past", "", []Edit{
		{"internal/table/place.go", "\t\tt.notePast(a.grant)\n", ""},
	}},
	{"ghost 3", "a holder counts as a waiter of the past", "", []Edit{
		{"internal/table/hold.go", "case alive, g != nil && g.holder.Number == number:", "case alive && t.counts.InDoubt > 0:"},
	}},
	{"names 1", "the locks x and {x} have one pump (T.1)", "", []Edit{
		{"internal/table/watch.go", "if p := t.pumps[own]; p != nil {", "if t.pumps[strings.TrimSuffix(own, \"{}\")] != nil || t.pumps[own+\"{}\"] != nil {\n\t\treturn\n\t}\n\tif p := t.pumps[own]; p != nil {"},
		{"internal/table/watch.go", "import (\n", "import (\n\t\"strings\"\n"},
	}},
	{"ghost 5", "a client never forgets those who stood in the line", "", []Edit{
		{"internal/table/grant.go", "\tdelete(t.alive, g.holder.Number)\n", ""},
	}},
	{"line 20", "a release of a lock that others took wakes nobody in the line", "", []Edit{
		{"internal/lua/line_release.lua", "if left == 0 then\n  if following", "if left == 0 or following == '' and redis.call('EXISTS', KEYS[1]) == 0 then\n  if following"},
	}},
	{"K1", "a lock that must stay taken is handed over", "", []Edit{
		{"internal/table/exit.go", "if t.parks(g, now) {\n\t\tnext = nil\n\t}", "t.parks(g, now)"},
	}},
	{"K2", "a lock that must stay taken is freed", "", []Edit{
		{"internal/table/free.go", "x.parks = g.rare != nil && g.rare.park != nil && g.rare.keep > now", "x.parks = false"},
	}},
	{"K3", "a repeated park that finds nothing counts", "", []Edit{
		{"internal/table/exit.go", "x.doubt && !x.parks:", "x.doubt:"},
	}},
	{"K4", "an owner that holds the lock takes it again to keep it", "", []Edit{
		{"internal/table/owners.go", "holds && (anew || h.NonReentrant)", "holds && h.NonReentrant"},
	}},
	{"K5", "a lost lock that was to be kept leaves what a late acquisition brings", "", []Edit{
		{"internal/table/ending.go", "if (x.parks || x.ticket != nil) && x.grant.leavesMore() {", "if false {"},
	}},
	{"T1", "an export whose reply is lost leaves the ticket's holder", "", []Edit{
		{"internal/table/export.go", "t.retire(ticket, now, n)", "t.finish(ticket)"},
	}},
	{"T2", "a hold is exported while another acquisition is open", "", []Edit{
		{"internal/table/export.go", "case g.open() > 1:", "case false:"},
	}},
	{"T3", "an export is repeated with the hold still usable", "", []Edit{
		{"internal/table/export.go", "a.ending.End(fault.ErrExported, n)", "_ = n"},
	}},
	{"T4", "an adoption without a reply is given up without a release", "", []Edit{
		{"internal/table/settle.go", "g.inDoubt = g.inDoubt || err.InDoubt() || err != nil && err.Fate == fault.Partial", "_ = g.inDoubt"},
	}},
	{"T5", "an owner that holds the lock adopts it", "", []Edit{
		{"internal/table/admit.go", "a.AtLeast > 0 || a.Ticket != \"\"", "a.AtLeast > 0"},
	}},
	{"T6", "a refusal about another holder ends an adoption", "", []Edit{
		{"internal/table/attempt.go", "if g != nil && a.Ticket == \"\" {", "if g != nil {"},
	}},
	{"T7", "the lease of an adopted hold counts from the reply", "", []Edit{
		{"internal/table/settle.go", "got, late := t.grant(a, g, proof{token: uint64(r.N), sent: a.sent,", "got, late := t.grant(a, g, proof{token: uint64(r.N), sent: now,"},
	}},
	{"free 1", "two attempts of a process try a name at the same time", "", []Edit{
		{"internal/table/admit.go", "t.stopping || t.trying[k] != nil ||", "t.stopping ||"},
	}},
	{"free 2", "an attempt does not see the one that tries, and asks beside it", "", []Edit{
		{"internal/table/admit.go", "\tt.queueOf(a.Handle.Key)\n", ""},
	}},
	{"free 3", "an attempt tries although others of its process wait", "", []Edit{
		{"internal/table/admit.go", "|| t.queues.Of(k) != nil", ""},
	}},
	{"free 4", "an attempt that tried and was refused is not among those that a release may grant the lock to", "", []Edit{
		{"internal/table/trying.go", "\tt.placed[a.grant.holder.Number] = a\n", ""},
	}},
	{"free 5", "a lock that is granted too late is taken from the one that tried", "", []Edit{
		{"internal/table/settle.go", "n); got != nil {\n\t\t\t\tdelete(t.trying", "n); true {\n\t\t\t\tdelete(t.trying"},
	}},
	{"X1", "the context of a hold that is over stands for its owner", "", []Edit{
		{"internal/owner/who.go", "if !c.Closed.Load() {", "if c.Closed.Load() || true {"},
	}},
	{"X2", "an attempt that waits for its turn goes on for the owner of a hold that is over by then", "", []Edit{
		{"internal/table/admit.go", "if a.owner = a.Now(); a.owner != nil {", "if a.owner == nil {\n\t\ta.owner = a.Now()\n\t}\n\tif a.owner != nil {"},
	}},
	{"X5", "a waiter shares the other side of a name with the owner of a hold that is over", "", []Edit{
		{"internal/table/attempt.go", "if a.Now() != a.owner {", "if false {"},
	}},
	{"X4", "an unlock closes its hold only when it has its turn", "", []Edit{
		{"internal/table/exit.go", "t.loseIfPast(g, now, n)\n\ta.closed.Store(true)", "t.loseIfPast(g, now, n)"},
		{"internal/table/exit.go", "	g.drop(a)\n\ta.handle.unlocks.Forget(a)\n\tif g.open() > 0 {", "\ta.closed.Store(true)\n\tg.drop(a)\n\ta.handle.unlocks.Forget(a)\n\tif g.open() > 0 {"},
	}},
}

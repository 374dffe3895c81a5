package mutants

// Field has the mutants that are planted as the field had them, besides those of Rlock: M49 and M59 to M64, C9, C10, X1, B1, B2. Rules are those of
// docs/rules.md.
var Field = []Mutant{
	{"F1", "a hold is returned with next to nothing of its lease (S.14)", "./internal/client TestNoHoldIsNearlyOver", []Edit{
		{"internal/lease/term.go", "{ return lease / 4 }", "{ return 0 }"},
		{"internal/table/internal/place/place.go", "now.Sub(at) > term/4", "now.Sub(at) > term"},
	}},
	{"F2", "Shutdown refuses the context of a hold that is over (M.14)", "./internal/suites/claims TestAShutdownWithThePastContext", []Edit{
		{"internal/client/shutdown.go", "if hold.of.Closed().Load() {", "if false {"},
	}},
	{"F3", "a group of one name in two families waits for itself (I.5)", "./internal/suites/claims TestLocksOfTwoFamiliesAreNoGroup", []Edit{
		{"internal/group/group.go", "ok && other != key {", "ok && other != key && false {"},
	}},
	{"F4", "a name that is derived from another one is accepted (T.2)", "./internal/suites/claims TestNamesThatAreDerivedFromOthers", []Edit{
		{"internal/wire/names.go", "if !strings.Contains(name, \"{\") {\n\t\treturn false", "if true {\n\t\treturn false"},
	}},
	{"F5", "the semaphores x and {x} are set up side by side (T.3)", "./internal/suites/claims TestSemaphoresThatWouldHaveTheSameLeases", []Edit{
		{"internal/lua/semaphore_prelude.lua", "if type(count) == 'string' and string.match(count, '^%-?%d+$') then\n    return redis.error_reply", "if false then\n    return redis.error_reply"},
	}},
	{"F9", "a read release asks every reader (G.4)", "./internal/wire TestTheCostOfAReadReleaseDoesNotGrowWithTheReaders", []Edit{
		{"internal/lua/rw_prelude.lua", "if looks == 200 then", "if false then"},
		{"internal/lua/rw_prelude.lua", "size <= 17, 0, 0, '0'", "true, 0, 0, '0'"},
	}},
	{"F10", "a call of several questions forgets that one has failed (L.16)", "./internal/suites/trouble TestAVerdictIsWhatRedisSaidLast", []Edit{
		{"internal/client/once.go", "\t\tw.known.Failed(err)\n", ""},
	}},
	{"F11", "a client that closes while it watches has nobody watch in its place (S.9)", "./internal/client TestLeavingTheLine", []Edit{
		{"internal/client/client.go", "\t\tc.hub.Leave()\n", ""},
	}},
	{"F12", "a writer that gives up tells no reader that waited for it (G.5)", "./internal/wire TestAWriterThatGivesUpTellsReaders", []Edit{
		{"internal/lua/line_release.lua", "    callReaders(KEYS[1], KEYS[2], publish, base)\n", ""},
	}},
	{"F13", "the turn of readers that prefer writers never ends (G.5)", "", []Edit{
		{"internal/lua/line_prelude.lua", "if came <= left and left <= now then", "if left > 0 then"},
	}},
	{"F14", "a writer that leaves gives the lock to the next one, although readers wait that prefer writers (G.5)", "./internal/wire TestAWriterThatLeavesLetsInWhoWaited", []Edit{
		{"internal/lua/line_prelude.lua", "and (side == WriteMode and redis.call('ZREM', line, ReadersMark) == 1 or times", "and (times"},
	}},
	{"F15", "nobody is told until when AtLeast keeps a lock (Q.2)", "./internal/suites/claims TestAtLeastLetsTheFirstWaiterInAtOnce", []Edit{
		{"internal/lua/lock_park.lua", "pcall(tellEnd, KEYS[2], ARGV[5], ARGV[4], ARGV[2], ARGV[7] == '-')", "true"},
		{"internal/lua/fair_park.lua", "pcall(alertFirst, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], ARGV[5], ARGV[2])", "true"},
	}},
	{"F16", "nobody is told that it is first because a later waiter has taken the seat of the first one (F.2)", "./internal/wire TestGoldenFair", []Edit{
		{"internal/lua/fair_acquire.lua", "if next and next == head then", "if false then"},
	}},
	{"F17", "each refusal of SUBSCRIBE for now breaks the connection, and has its reader pause (4)", "./internal/pubsub TestRefusalsHoldUpNoMessage", []Edit{
		{"internal/pubsub/reader.go", "err.Replied() && c.postponed(s):", "err.Replied() && c.postponed(s) && false:"},
	}},
	{"F18", "refusals of SUBSCRIBE are counted as long as they last, and a connection that works is given up (4)", "./internal/pubsub TestRefusalsHoldUpNoMessageHoweverLong", []Edit{
		{"internal/pubsub/reader.go", "c.again, s.refusals = clock.Now().Add(retryBusy), 0", "c.again = clock.Now().Add(retryBusy)"},
	}},
	{"F19", "on rueidis, a busy server refuses each channel of a subscription with an error of its own (4)", "./rlockrueidis TestDriver/default/a_subscription_while_Redis_is_busy", []Edit{
		{"rlockrueidis/line.go", "f == nil || postponed && f.Transient", "f == nil || false && f.Transient"},
	}},
	{"F20", "an UNSUBSCRIBE that Redis refuses for now is never sent again (4)", "./internal/driver/goredis TestDriver/default/the_end_of_one_while_Redis_is_busy", []Edit{
		{"internal/driver/goredis/subscription.go", "case f.Transient && s.again.IsZero():", "case false:"},
	}},
	{"F21", "on rueidis, the refusal of an UNSUBSCRIBE for now counts as its confirmation (4)", "./rlockrueidis TestDriver/default/the_end_of_one_while_Redis_is_busy", []Edit{
		{"rlockrueidis/line.go", "if err = r.Error(); err != nil {", "if err = r.Error(); false {"},
	}},
	{"F24", "a waiter that takes a free lock tells the next one only of a lease that is soon over (S.16)", "./internal/wire TestTheNextWaiterWatchesWhoeverTakesAFreeLock", []Edit{
		{"internal/lua/line_acquire.lua", "math.min(ARGV[2], FirstTerm), now)", "ARGV[2], now)"},
	}},
	{"F26", "nobody is told when the lease of a ticket ends (S.17)", "./internal/suites/claims TestATicketThatNobodyAdoptsLetsTheFirstWaiterInAtOnce", []Edit{
		{"internal/lua/lock_ticket.lua", "pcall(tellEnd, KEYS[2] ~= KEYS[1] and KEYS[2], ARGV[5], ARGV[4], ARGV[2], ARGV[7] == '-', side)", "true"},
		{"internal/lua/fair_ticket.lua", "pcall(alertFirst, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], ARGV[5], ARGV[2])", "true"},
	}},
	{"F27", "readers are not told when the lease of a ticket ends (S.17)", "./internal/suites/claims TestATicketThatNobodyAdoptsLetsReadersIn", []Edit{
		{"internal/lua/line_prelude.lua", "  if others > 0 then\n    tellOthers(", "  if false then\n    tellOthers("},
	}},
	{"F28", "the first waiter of a line leaves a lock that is taken, and tells nobody (S.16)", "./internal/wire TestGoldenLine", []Edit{
		{"internal/lua/line_release.lua", "return leads and tried(", "return false and tried("},
	}},
	{"F29", "who comes behind a dead first waiter of a fair lock watches no lease (F.2)", "./internal/wire TestGoldenFair", []Edit{
		{"internal/lua/fair_acquire.lua", "ARGV[4] .. ':' .. head)[2] > 0 then", "ARGV[4] .. ':' .. head)[2] >= 0 then"},
	}},
	{"F30", "the silence of a subscription counts from before it has connected again (4)", "./internal/pubsub TestASessionThatConnectsAgainIsNotSilent", []Edit{
		{"internal/pubsub/connection.go", "if !s.connected {\n\t\t\ts.heard, s.spoke, s.connected =", "if s.connected = true; !s.spoke {\n\t\t\ts.heard, s.spoke, s.connected ="},
	}},
}

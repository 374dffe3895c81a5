package overlay

// edits change the runtime for goroutines in a bubble of testing/synctest. What concerns the run queue applies with GOMAXPROCS=1 only.
var edits = []edit{
	{
		"runtime2.go", "a goroutine that waits for a mutex lets the clock go on",
		"	waitReasonSyncCondWait:          true,\n",
		"	waitReasonSyncCondWait:          true,\n" +
			"	waitReasonSyncMutexLock:         true,\n	waitReasonSyncRWMutexRLock:      true,\n	waitReasonSyncRWMutexLock:       true,\n",
	},
	{
		"synctest.go", "a bubble has a random generator",
		"	now     int64  // current fake time\n",
		`	now     int64  // current fake time
	rng     uint64 // of the simulation
	hasty   bool   // who is woken may overtake who wakes it
	stopped unsafe.Pointer // the labels of the goroutines that do not run; nil means that all do
	held    guintptr       // those of them that would, linked by schedlink
`,
	},
	{
		"synctest.go", "the generator and its seed",
		"//go:linkname synctestRun internal/synctest.Run\n",
		`// simSeed seeds the bubble of the caller.
//
//go:linkname simSeed github.com/go-rlock/rlock/simulation/internal/simseed.seed
func simSeed(seed uint64) {
	if b := getg().bubble; b != nil {
		b.rng = seed
	}
}

// simLabel gives the goroutine labels, which tell the goroutines and timers that it makes from those of others. It returns the ones before.
//
//go:linkname simLabel github.com/go-rlock/rlock/simulation/internal/simseed.label
func simLabel(labels unsafe.Pointer) unsafe.Pointer {
	gp := getg()
	before := gp.labels
	gp.labels = labels
	return before
}

// simStop has the goroutines with some labels not run from their next wait on. Nil lets all run again.
//
//go:linkname simStop github.com/go-rlock/rlock/simulation/internal/simseed.stop
func simStop(labels unsafe.Pointer) {
	b := getg().bubble
	b.stopped = labels
	held := b.held.ptr()
	for b.held = 0; held != nil; {
		gp := held
		held = gp.schedlink.ptr()
		gp.schedlink = 0
		goready(gp, 1)
	}
}

// simHold keeps a goroutine that has become ready, if it is to be stopped. While it is held, it counts as waiting.
func simHold(gp *g) bool {
	b := gp.bubble
	if b == nil || b.stopped == nil || gp.labels != b.stopped || !gp.waitreason.isIdleInSynctest() {
		return false
	}
	gp.schedlink.set(b.held.ptr())
	b.held.set(gp)
	return true
}

// rand is SplitMix64.
//
//go:nosplit
func (b *synctestBubble) rand() uint64 {
	b.rng += 0x9e3779b97f4a7c15
	z := b.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

//go:linkname synctestRun internal/synctest.Run
`,
	},
	{
		"synctest.go", "a bubble that nobody seeds has a seed of its own, which the environment changes",
		"	bubble.now = synctestBaseTime\n",
		`	bubble.now = synctestBaseTime
	for _, letter := range gogetenv("` + Env + `") {
		bubble.rng, bubble.hasty = bubble.rng*31+uint64(letter), true
	}
	bubble.rng = bubble.rand() ^ bubble.id
`,
	},
	{
		"rand.go", "random numbers, and with them the order of maps, come from the bubble",
		"	mp := getg().m\n	c := &mp.chacha8\n",
		"	if b := getg().bubble; b != nil {\n		return b.rand()\n	}\n	mp := getg().m\n	c := &mp.chacha8\n",
	},
	{
		"rand.go", "the process has a fixed seed, on which hashes depend",
		"	globalRand.state.Init(*seed)\n",
		"	clear(seed[:])\n	seed[0] = 1\n	globalRand.state.Init(*seed)\n",
	},
	{
		"sema.go", "a mutex knows by the bubble's clock for how long somebody has waited, on which it depends who is next",
		"func internal_sync_nanotime() int64 {\n	return nanotime()\n",
		"func internal_sync_nanotime() int64 {\n	if b := getg().bubble; b != nil {\n		return b.now\n	}\n	return nanotime()\n",
	},
	{
		"select.go", "the bubble orders the cases of a select",
		"		j := cheaprandn(uint32(norder + 1))\n",
		`		var j uint32
		if gp.bubble != nil {
			j = uint32(gp.bubble.rand() % uint64(norder+1))
		} else {
			j = cheaprandn(uint32(norder + 1))
		}
`,
	},
	{
		"time.go", "the bubble orders the timers of one instant",
		"			t.rand = cheaprand()\n",
		`			if b := getg().bubble; b != nil {
				t.rand = uint32(b.rand())
			} else if c := getg().m.curg; c != nil && c.bubble != nil {
				t.rand = uint32(c.bubble.rand())
			} else {
				t.rand = cheaprand()
			}
`,
	},
	{
		"time.go", "a timer has the labels of the goroutine that made it",
		"	rand    uint32 // randomizes order of timers at same instant; only set when isFake\n",
		"	rand    uint32 // randomizes order of timers at same instant; only set when isFake\n	labels  unsafe.Pointer // only set when isFake\n",
	},
	{
		"time.go", "a timer gets its labels",
		"	if bubble := getg().bubble; bubble != nil {\n		t.isFake = true\n	}\n	t.modify(",
		"	if bubble := getg().bubble; bubble != nil {\n		t.isFake, t.labels = true, getg().labels\n	}\n	t.modify(",
	},
	{
		"time.go", "what a timer starts has its labels",
		"		gp.bubble = bubble\n		bubble.changegstatus(gp, _Gdead, _Grunning)\n",
		"		gp.bubble, gp.labels = bubble, t.labels\n		bubble.changegstatus(gp, _Gdead, _Grunning)\n",
	},
	{
		"time.go", "what a timer starts has its labels, and nothing else",
		"			racereleasemergeg(gp, bubble.raceaddr())\n		}\n		gp.bubble = nil\n",
		"			racereleasemergeg(gp, bubble.raceaddr())\n		}\n		gp.bubble, gp.labels = nil, nil\n",
	},
	{
		"proc.go", "a goroutine that a timer starts has the labels of the timer, and is held if it is to be stopped",
		"	// Track initial transition?\n	newg.trackingSeq = uint8(cheaprand())\n",
		"	if newg.bubble != nil && callergp == mp.g0 {\n		newg.labels = callergp.labels\n	}\n" +
			"	if b := newg.bubble; b != nil && b.stopped != nil && newg.labels == b.stopped {\n		parked, waitreason = true, waitReasonSleep\n	}\n" +
			"	// Track initial transition?\n	newg.trackingSeq = uint8(cheaprand())\n",
	},
	{
		"proc.go", "a new goroutine of those that are stopped does not run",
		"		pp := getg().m.p.ptr()\n		runqput(pp, newg, true)\n",
		"		if readgstatus(newg) == _Gwaiting && simHold(newg) {\n			return\n		}\n" +
			"		pp := getg().m.p.ptr()\n		runqput(pp, newg, true)\n",
	},
	{
		"proc.go", "a goroutine of those that are stopped does not become ready",
		"	// status is Gwaiting or Gscanwaiting, make Grunnable and put on runq\n	trace := traceAcquire()\n",
		"	if simHold(gp) {\n		releasem(mp)\n		return\n	}\n" +
			"	// status is Gwaiting or Gscanwaiting, make Grunnable and put on runq\n	trace := traceAcquire()\n",
	},
	{
		"proc.go", "the bubble decides whether a goroutine that becomes ready is next",
		"	if randomizeScheduler && next && randn(2) == 0 {\n",
		"	if gp.bubble != nil && gomaxprocs == 1 && next && gp.bubble.rand()&1 == 0 {\n		next = false\n	}\n" +
			"	if gp.bubble == nil && gomaxprocs == 1 {\n		next = false // its coming would draw a place for a goroutine of a bubble\n	}\n" +
			"	if randomizeScheduler && next && randn(2) == 0 {\n",
	},
	{
		"proc.go", "a goroutine that becomes ready takes a drawn place among those of its bubble in the run queue",
		"	if t-h < uint32(len(pp.runq)) {\n		pp.runq[t%uint32(len(pp.runq))].set(gp)\n",
		`	if t-h < uint32(len(pp.runq)) {
		pp.runq[t%uint32(len(pp.runq))].set(gp)
		if gp.bubble != nil && gomaxprocs == 1 {
			mine := uint64(0) // goroutines of the bubble in the queue
			for i := h; i != t; i++ {
				if pp.runq[i%uint32(len(pp.runq))].ptr().bubble == gp.bubble {
					mine++
				}
			}
			drawn := uint64(0)
			if mine > 0 {
				drawn = gp.bubble.rand() % (mine + 1)
			}
			for i := h; i != t; i++ {
				at := i % uint32(len(pp.runq))
				if pp.runq[at].ptr().bubble != gp.bubble {
					continue
				}
				if drawn == 0 {
					pp.runq[t%uint32(len(pp.runq))].set(pp.runq[at].ptr())
					pp.runq[at].set(gp)
					break
				}
				drawn--
			}
		}
`,
	},
	{
		"proc.go", "a goroutine that makes another one ready may be stopped, so that the other one overtakes it",
		"	runqput(mp.p.ptr(), gp, next)\n",
		`	runqput(mp.p.ptr(), gp, next)
	if b, by := gp.bubble, mp.curg; b != nil && b.hasty && gomaxprocs == 1 && by != nil && by.bubble == b && b.rand()&3 == 0 {
		by.preempt = true
		by.stackguard0 = stackPreempt
	}
`,
	},
	{
		"proc.go", "the global queue is not looked at now and then",
		"	if pp.schedtick%61 == 0 && !sched.runq.empty() {\n",
		"	if gomaxprocs != 1 && pp.schedtick%61 == 0 && !sched.runq.empty() {\n",
	},
	{
		"proc.go", "no goroutine is stopped because its time slice is over",
		"		} else if pd.schedwhen+forcePreemptNS <= now {\n",
		"		} else if gomaxprocs != 1 && pd.schedwhen+forcePreemptNS <= now {\n",
	},
}

package wire_test

// vectors are the golden vectors. They compare the observed behaviour of Redisson's scripts with ours. A line has this form:
//
//	call = reply -> state ! message // Redisson's result: why ours differs
//
// A line without a state leaves the state unchanged. A line without a message publishes none. A line without a reason behaves
// like Redisson, except for these general differences:
//
//   - An acquire replies 0 or a token instead of nil. Instead of the hint it replies -1 minus the hint, here written "wait".
//   - A release replies 1 plus the number of listeners by name (none here), or 0, instead of 1 or nil. It frees the lock whatever the
//     count is. The client counts: a re-entry or a partial release calls count with the number of open acquisitions. That
//     script replies 1, or 0 if the holder is gone.
//   - The write lock publishes 1 and then 0. A Java waiter that has subscribed but does not sleep yet ignores a 1.
//   - Each grant has its own number, which makes every command repeatable. There are no latches.
//
// A call is the script, the kind, the holder's number, a time, and ARGV from [6] on as far as needed. A call "java" runs the
// commands of a Java peer. $ is the name of the lock, and @ its hash tag. u: and j: begin the fields of our client and of
// Java's, and # means :rwlock_timeout:. A kind of two words has an underscore. A state is everything that Redis has of the lock:
//
//	{field:count} lease, holder#n lease, [waiter deadline], name of any other key but the token's
//
// Times are in ms. States and hints round them up to tens of seconds, so that slow machines pass. The short leases of
// some vectors are longer here.
//
// Two groups of vectors are missing. Number 12 needs a cluster, see TestCluster: names and renewals that span slots are not
// sent, and sharded channels are published at their own node. Number 14 is FasterMultiLock, which is not ported.
var vectors = []struct{ claim, lines string }{
	{"1, 2 lock: an acquisition is counted once and never shortens the lease", `
		acquire lock 1 30000 = 0 -> {u:1:1} 30000
		acquire lock 1 10000 = 0 // counts 2: a repeated command is one acquisition
		count lock 1 10000 2 = 1 -> {u:1:2} 30000 // PTTL 10000: an inner call must not cut the outer one short
		acquire lock 2 30000 = wait 30000 // ERR NON_REENTRANT_REACQUIRE if it is: only the client knows owners
		count lock 1 10000 1 = 1 -> {u:1:1} 30000 // 0, a latch: a count is absolute, so it may be repeated
		count lock 1 10000 1 = 1
		count lock 1 10000 2 = 1 -> {u:1:2} 30000
		release lock 1 = 1 -> free ! redisson_lock__channel:@ 0 // 0, counts 1: the client counts
		release lock 1 = 0
		count lock 1 30000 2 = 0 // nil, is held again: a lost lock stays lost
	`},
	{"rlock's own: a hand-over gives the lock to the next holder, silently and once", `
		acquire lock 1 60000 = 0 -> {u:1:1} 60000
		count lock 1 60000 2 = 1 -> {u:1:2} 60000
		handOver lock 2 30000 u:1 = 0 -> {u:2:1} 30000
		handOver lock 2 30000 u:1 = 0
		release lock 1 = 0
		handOver lock 3 30000 u:1 = -1
		release lock 4 120000 = 0 -> {u:2:1} 30000, redisson_unlock_latch:@:u
		handOver lock 4 30000 u:2 = -2
		release lock 2 = 1 -> free, redisson_unlock_latch:@:u ! redisson_lock__channel:@ 0
		handOver lock 2 30000 u:1 = -1
		java HSET $ j:1 2; PEXPIRE $ 10000 -> {j:1:2} 10000, redisson_unlock_latch:@:u
		handOver lock 2 30000 u:1 = -1
	`},
	{"rlock's own: a hand-over of a fenced lock raises its token, once", `
		acquire fenced 1 60000 = new token -> {u:1:1} 60000
		handOver fenced 2 30000 u:1 = new token -> {u:2:1} 30000
		handOver fenced 2 40000 u:1 = same token -> {u:2:1} 40000
		handOver fenced 3 30000 u:1 = -1
		release fenced 4 120000 = 0 -> {u:2:1} 40000, redisson_unlock_latch:@:u
		handOver fenced 4 30000 u:2 = -2
	`},
	{"rlock's own: a hand-over from writer to writer", `
		acquire write 1 60000 = 0 -> {mode:write u:1:write:1} 60000
		handOver write 2 30000 u:1:write = 0 -> {mode:write u:2:write:1} 30000
		handOver write 3 30000 u:1:write = -1
		release write 2 = 1 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
	`},
	{"1 lock: an acquire that arrives after its release is refused", `
		release lock 1 120000 = 0 -> free, redisson_unlock_latch:@:u // nil: an acquire may be in flight
		acquire lock 1 30000 = wait 0 // nil, without an owner: its number has a tombstone
		acquire lock 2 30000 = 0 -> {u:2:1} 30000, redisson_unlock_latch:@:u
		release lock 2 = 1 -> free, redisson_unlock_latch:@:u ! redisson_lock__channel:@ 0
	`},
	{"1 lock: Java's lock is respected, except by force", `
		force lock = 0
		java HSET $ j:1 2; PEXPIRE $ 10000 -> {j:1:2} 10000
		acquire lock 1 30000 = wait 10000
		acquire fenced 1 30000 = wait 10000
		count lock 1 30000 2 = 0
		renew lock 60000 $ u:1 = [0]
		release lock 1 = 0
		java PERSIST $ -> {j:1:2} 0
		acquire lock 1 10000 = wait 30000 -> {j:1:2} 30000 // -1: nobody could free a lock without a lease, so it gets Redisson's
		force lock = 1 -> free ! redisson_lock__channel:@ 0
	`},
	{"3 fenced: tokens only grow, also beyond Java's", `
		acquire fenced 1 30000 = new token -> {u:1:1} 30000 // 1: from the clock, so that tokens grow through a failover
		acquire fenced 1 10000 = same token // 2: a repeated command must not outdate the token of the first reply
		count fenced 1 10000 2 = 1 -> {u:1:2} 30000 // 3: the acquisitions of a grant share its token
		acquire fenced 2 30000 = wait 30000
		java PERSIST $ -> {u:1:2} 0
		acquire fenced 2 30000 = wait 30000 -> {u:1:2} 30000 // [-1, -1], as if acquired: the lock gets a lease, as above
		release fenced 1 = 1 -> free ! redisson_lock__channel:@ 0
		acquire fenced 2 30000 = new token -> {u:2:1} 30000
		release fenced 2 = 1 -> free ! redisson_lock__channel:@ 0
		java SET redisson_lock_token:@ 8000000000000000
		acquire fenced 3 30000 = new token -> {u:3:1} 30000
		acquire fenced 3 30000 = same token
	`},
	{"rlock's own: tokens of a fenced fair lock grow, in the order of its queue", `
		acquire fenced_fair 1 30000 60000 = new token -> {u:1:1} 30000
		acquire fenced_fair 1 60000 60000 = same token -> {u:1:1} 60000
		count fenced_fair 1 10000 2 = 1 -> {u:1:2} 60000
		acquire fenced_fair 2 30000 60000 = wait 60000 -> {u:1:2} 60000, [u:-2 60000]
		acquire fair 3 30000 60000 = wait 60000 -> {u:1:2} 60000, [u:-2 60000 u:-3 60000]
		release fenced_fair 1 = 1 -> free, [u:-2 60000 u:-3 60000] ! redisson_lock__channel:@:u:-2 0
		acquire fenced_fair 4 30000 = wait 10000 -> free, [u:-2 10000 u:-3 60000] ! redisson_lock__channel:@:u:-2 0
		acquire fenced_fair 2 30000 60000 = new token -> {u:2:1} 30000, [u:-3 60000] ! redisson_lock__channel:@:u:-3 0
		acquire fenced_fair 2 30000 60000 = same token
		release fenced_fair 5 120000 = 0 -> {u:2:1} 30000, [u:-3 60000], redisson_unlock_latch:@:u
		acquire fenced_fair 5 30000 60000 = wait 0
		force fenced_fair = 1 -> free, [u:-3 60000], redisson_unlock_latch:@:u ! redisson_lock__channel:@:u:-3 0
		acquire fair 3 30000 60000 = 0 -> {u:3:1} 30000, redisson_unlock_latch:@:u
		release fair 3 = 1 -> free, redisson_unlock_latch:@:u
		java SET redisson_lock_token:@ 8000000000000000
		acquire fenced_fair 6 30000 60000 = new token -> {u:6:1} 30000, redisson_unlock_latch:@:u
		java DEL redisson_lock_token:@
		acquire fenced_fair 6 30000 60000 = old token
	`},
	{"rlock's own: tokens of a fenced write lock grow, and its readers have none", `
		acquire fenced_write 1 30000 = new token -> {mode:write u:1:write:1} 30000
		acquire fenced_write 1 60000 = same token -> {mode:write u:1:write:1} 60000
		count fenced_write 1 10000 2 = 1 -> {mode:write u:1:write:2} 60000
		acquire fenced_write 2 30000 = wait 60000
		acquire read 3 30000 0 u:1:write = 0 -> {mode:write u:1:write:2 u:3:1} 60000, u:3#1 30000
		acquire fenced_write 1 30000 = same token
		release fenced_write 1 = 1 -> {mode:read u:3:1} 30000, u:3#1 30000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		acquire fenced_write 2 30000 = wait 30000
		release read 3 = 1 -> free ! redisson_rwlock:@ 0
		release fenced_write 4 120000 = 0 -> free, redisson_unlock_latch:@:u
		acquire fenced_write 4 30000 = wait 0
		acquire fenced_write 2 30000 = new token -> {mode:write u:2:write:1} 30000, redisson_unlock_latch:@:u
		force fenced_write = 1 -> free, redisson_unlock_latch:@:u ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		java HSET $ mode write j:1:write 1; PEXPIRE $ 10000 -> {j:1:write:1 mode:write} 10000, redisson_unlock_latch:@:u
		acquire fenced_write 5 30000 = wait 10000
	`},
	{"rlock's own: a hand-over of a fenced write lock raises its token, once", `
		acquire fenced_write 1 60000 = new token -> {mode:write u:1:write:1} 60000
		handOver fenced_write 2 30000 u:1:write = new token -> {mode:write u:2:write:1} 30000
		handOver fenced_write 2 40000 u:1:write = same token -> {mode:write u:2:write:1} 40000
		handOver fenced_write 3 30000 u:1:write = -1
		release fenced_write 4 120000 = 0 -> {mode:write u:2:write:1} 40000, redisson_unlock_latch:@:u
		handOver fenced_write 4 30000 u:2:write = -2
		release fenced_write 2 = 1 -> free, redisson_unlock_latch:@:u ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
	`},
	{"4 rw: a writer may read, and keep reading after it unlocks the write lock", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		count write 1 30000 2 = 1 -> {mode:write u:1:write:2} 30000 // PTTL 60000: the lease is the requested one
		acquire read 2 30000 = wait 30000 // 60000: the lease is
		acquire write 2 30000 = wait 30000 // 60000: the lease is
		acquire read 1 30000 = wait 30000 // nil, H reads under H:write: each hold has its own number, and the call names the writer's
		acquire read 3 30000 0 u:2:write = wait 30000
		acquire read 3 30000 0 u:1:write = 0 -> {mode:write u:1:write:2 u:3:1} 30000, u:3#1 30000
		count write 1 30000 1 = 1 -> {mode:write u:1:write:1 u:3:1} 30000, u:3#1 30000
		release write 1 = 1 -> {mode:read u:3:1} 30000, u:3#1 30000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0 // silent: waiting readers can read now
		acquire write 1 30000 = wait 30000
		acquire read 2 50000 = 0 -> {mode:read u:2:1 u:3:1} 50000, u:2#1 50000, u:3#1 30000
		release read 2 = 1 -> {mode:read u:3:1} 30000, u:3#1 30000 ! redisson_rwlock:@ 0 // 0, silent: writers sleep for the longer lease
		release read 3 = 1 -> free ! redisson_rwlock:@ 0
	`},
	{"5 rw: a caller without a hold frees nothing", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		release write 1 = 1 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		release read 1 = 0 // nil, latch 1, message 0, then 1: it freed nothing
		release write 1 = 0 // nil, latch 1, message 1, then 1: it freed nothing
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		release read 2 = 0
		release write 1 = 0
	`},
	{"6 rw: force frees only its own side", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		force read = 0
		force write = 1 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		force write = 0
		force read = 1 -> free, u:1#1 30000 ! redisson_rwlock:@ 0
	`},
	{"7 rw: the last live reader removes the dead ones", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		acquire read 2 30000 = 0 -> {mode:read u:1:1 u:2:1} 30000, u:1#1 30000, u:2#1 30000
		java DEL @:u:1#1 -> {mode:read u:1:1 u:2:1} 30000, u:2#1 30000
		count read 1 30000 2 = 0 // nil, a new key: a hold without its key is lost
		release read 2 = 1 -> free ! redisson_rwlock:@ 0
	`},
	{"8 rw: a leaving reader does not shorten the writer's lease", `
		acquire write 1 60000 = 0 -> {mode:write u:1:write:1} 60000
		acquire read 2 10000 0 u:1:write = 0 -> {mode:write u:1:write:1 u:2:1} 60000, u:2#1 10000
		count read 2 10000 2 = 1 -> {mode:write u:1:write:1 u:2:2} 60000, u:2#1 10000 // a second key: one lease for all
		count read 2 10000 1 = 1 -> {mode:write u:1:write:1 u:2:1} 60000, u:2#1 10000 // PTTL 10000: the writer would lose it
		release read 2 = 1 -> {mode:write u:1:write:1} 60000 // 0: the reply is about this hold, whoever else holds the lock
	`},
	{"8 rw: after a downgrade the lease is the reader's", `
		acquire write 1 10000 = 0 -> {mode:write u:1:write:1} 10000
		acquire read 2 30000 0 u:1:write = 0 -> {mode:write u:1:write:1 u:2:1} 30000, u:2#1 30000
		release write 1 = 1 -> {mode:read u:2:1} 30000, u:2#1 30000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0 // silent: waiting readers can read now
		release read 2 = 1 -> free ! redisson_rwlock:@ 0
		acquire write 1 60000 = 0 -> {mode:write u:1:write:1} 60000
		acquire read 2 30000 0 u:1:write = 0 -> {mode:write u:1:write:1 u:2:1} 60000, u:2#1 30000
		release write 1 = 1 -> {mode:read u:2:1} 30000, u:2#1 30000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0 // PTTL 60000: that lease was the writer's
	`},
	{"8 rw: an acquisition never shortens a read hold, and Java sees its lease", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		acquire read 1 10000 = 0 // counts 2, a second key: a repeated command is one acquisition
		count read 1 10000 2 = 1 -> {mode:read u:1:2} 30000, u:1#1 30000 // a second key, of 10000: one lease for all
		java HSET $ j:1 1; SET @:j:1#1 1 PX 20000 -> {j:1:1 mode:read u:1:2} 30000, j:1#1 20000, u:1#1 30000
		count read 1 50000 3 = 1 -> {j:1:1 mode:read u:1:3} 50000, j:1#1 20000, u:1#1 50000
		left by Java = wait 50000
	`},
	{"9 rw: a renewal renews exact holds, and only lengthens leases", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		java HSET $ j:1 1; SET @:j:1#1 1 PX 20000 -> {j:1:1 mode:read u:1:1} 30000, j:1#1 20000, u:1#1 30000
		renew read 60000 $ u:1 = [1] -> {j:1:1 mode:read u:1:1} 60000, j:1#1 20000, u:1#1 60000
		renew read 60000 $ u:1 $ u:9 = [1 0] // [1], of the lock: each holder learns of its own loss
		java PEXPIRE $ 90000 -> {j:1:1 mode:read u:1:1} 90000, j:1#1 20000, u:1#1 60000
		renew read 60000 $ u:1 = [1] // PTTL 60000: no lease is ever shortened
		java DEL @:u:1#1 -> {j:1:1 mode:read u:1:1} 90000, j:1#1 20000
		renew read 60000 $ u:1 = [0] // [1]: a hold without its key is lost
	`},
	{"10 renewal: each holder in a batch has its own result", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		acquire write 1 50000 = 0 -> {mode:write u:1:write:1} 50000 // 80000, counts 2: a repeated command is one acquisition
		renew write 60000 $ u:1:write $:absent u:1:write $ u:1 = [1 0 0] -> {mode:write u:1:write:1} 60000
		renew write 10000 $ u:1:write = [1] // PTTL 10000: no lease is ever shortened
	`},
	{"11 fair: only the head is notified, and a waiter that acquires or leaves moves nobody's deadline", `
		acquire fair 1 30000 60000 = 0 -> {u:1:1} 30000
		acquire fair 2 30000 60000 = wait 30000 -> {u:1:1} 30000, [u:-2 60000] // 90000: a deadline is renewed, so it need not outlast the lease
		acquire fair 3 30000 10000 = wait 10000 -> {u:1:1} 30000, [u:-2 60000 u:-3 60000] // 70000: as above; and only the head watches the lease
		acquire fair 4 30000 = wait 30000 // 1: a caller that does not queue may ask again
		acquire fair 2 30000 60000 = wait 30000
		acquire fair 3 30000 10000 = wait 10000 // 30000: only the head watches the lease
		release fair 1 = 1 -> free, [u:-2 60000 u:-3 60000] ! redisson_lock__channel:@:u:-2 0
		acquire fair 3 30000 10000 = wait 10000 -> free, [u:-2 10000 u:-3 10000] ! redisson_lock__channel:@:u:-2 0 // 0: it would poll; and u:2, which was notified, has 3 s
		acquire fair 4 30000 = wait 10000 ! redisson_lock__channel:@:u:-2 0 // 1: a caller that does not queue may ask again
		acquire fair 5 30000 60000 = wait 10000 -> free, [u:-2 10000 u:-3 10000 u:-5 60000] ! redisson_lock__channel:@:u:-2 0 // 70000: as above
		acquire fair 2 30000 60000 = 0 -> {u:2:1} 30000, [u:-3 10000 u:-5 60000] ! redisson_lock__channel:@:u:-3 0 // silent: the new head must know; and the others keep their deadlines
		release fair 3 = 0 -> {u:2:1} 30000, [u:-5 60000] ! redisson_lock__channel:@:u:-5 0 // silent: as above
		release fair 3 = 0
		java DEL $ -> free, [u:-5 60000]
		release fair 77 = 0 ! redisson_lock__channel:@:u:-5 0 // 1: it freed nothing, but the head is notified again
		java DEL redisson_lock_timeout:@ -> free, [u:-5 none]
		acquire fair 6 30000 60000 = 0 -> {u:6:1} 30000 // -2: a head without deadline would never die
	`},
	{"11 fair: a waiter that asks is alive, and Java's waiters have their time when they become first", `
		acquire fair 1 30000 60000 = 0 -> {u:1:1} 30000
		acquire fair 2 30000 60000 = wait 30000 -> {u:1:1} 30000, [u:-2 60000]
		renew fair 60000 $ u:1 = [1] -> {u:1:1} 60000, [u:-2 60000]
		acquire fair 2 30000 60000 = wait 60000
		java ZADD redisson_lock_timeout:@ now-1000 u:-2 -> {u:1:1} 60000, [u:-2 0]
		acquire fair 2 30000 60000 = wait 60000 -> {u:1:1} 60000, [u:-2 60000] // last: the waiter is slow, not dead
		java RPUSH redisson_lock_queue:@ j:1 -> {u:1:1} 60000, [u:-2 60000 j:1 none]
		java ZADD redisson_lock_timeout:@ now+30000 j:1 -> {u:1:1} 60000, [u:-2 60000 j:1 30000]
		acquire fair 3 30000 60000 = wait 60000 -> {u:1:1} 60000, [u:-2 60000 j:1 30000 u:-3 360000] // 90000: j:1 will take 300000 off
		java PEXPIRE $ 20000 -> {u:1:1} 20000, [u:-2 60000 j:1 30000 u:-3 360000]
		acquire fair 2 30000 60000 = wait 20000
		release fair 1 = 1 -> free, [u:-2 60000 j:1 30000 u:-3 360000] ! redisson_lock__channel:@:u:-2 0
		acquire fair 2 40000 60000 = 0 -> {u:2:1} 40000, [j:1 340000 u:-3 360000] ! redisson_lock__channel:@:j:1 0 // silent: it is first; and it may wait for this lease and 300000
		acquire fair 3 30000 60000 = wait 340000 -> {u:2:1} 40000, [j:1 340000 u:-3 400000]
		java ZADD redisson_lock_timeout:@ now+1000 j:1 -> {u:2:1} 40000, [j:1 10000 u:-3 400000]
		acquire fair 3 30000 60000 = wait 10000 -> {u:2:1} 40000, [j:1 10000 u:-3 360000]
		force fair = 1 -> free, [j:1 10000 u:-3 360000] ! redisson_lock__channel:@:j:1 0
		force fair = 0
	`},
	{"11 fair: a Java waiter that becomes first because ours leaves has its time", `
		java HSET $ j:9 1; PEXPIRE $ 30000 -> {j:9:1} 30000
		acquire fair 1 30000 60000 = wait 30000 -> {j:9:1} 30000, [u:-1 60000]
		java RPUSH redisson_lock_queue:@ j:1; ZADD redisson_lock_timeout:@ now-1000 j:1 -> {j:9:1} 30000, [u:-1 60000 j:1 0]
		release fair 1 = 0 -> {j:9:1} 30000, [j:1 330000] ! redisson_lock__channel:@:j:1 0 // evicts j:1: it lives, for all that is known
		acquire fair 2 30000 60000 = wait 330000 -> {j:9:1} 30000, [j:1 330000 u:-2 390000]
		java DEL $; LPOP redisson_lock_queue:@; ZREM redisson_lock_timeout:@ j:1 -> free, [u:-2 390000]
		java RPUSH redisson_lock_queue:@ j:3; ZADD redisson_lock_timeout:@ now-1000 j:3 -> free, [u:-2 390000 j:3 0]
		release fair 2 = 0 -> free, [j:3 300000] ! redisson_lock__channel:@:j:3 0 // evicts j:3: as above
	`},
	{"11 fair: our waiters queue behind Java's, whose waits come off our deadlines", `
		java HSET $ j:9 2; PEXPIRE $ 30000; RPUSH redisson_lock_queue:@ j:1 j:2 -> {j:9:2} 30000, [j:1 none j:2 none]
		java ZADD redisson_lock_timeout:@ now+330000 j:1 now+630000 j:2 -> {j:9:2} 30000, [j:1 330000 j:2 630000]
		acquire fair 1 30000 60000 = wait 330000 -> {j:9:2} 30000, [j:1 330000 j:2 630000 u:-1 690000] // 630000: when the head dies
		java LPOP redisson_lock_queue:@; ZREM redisson_lock_timeout:@ j:1 -> {j:9:2} 30000, [j:2 630000 u:-1 690000]
		java ZINCRBY redisson_lock_timeout:@ -300000 j:2 -> {j:9:2} 30000, [j:2 330000 u:-1 690000]
		java ZINCRBY redisson_lock_timeout:@ -300000 u:-1 -> {j:9:2} 30000, [j:2 330000 u:-1 390000]
		java DEL $; HSET $ j:1 1; PEXPIRE $ 30000 -> {j:1:1} 30000, [j:2 330000 u:-1 390000]
		acquire fair 1 30000 60000 = wait 330000
		acquire fair 2 30000 = wait 30000 // 1: a caller that does not queue may ask again
		java LPOP redisson_lock_queue:@; ZREM redisson_lock_timeout:@ j:2 -> {j:1:1} 30000, [u:-1 390000]
		java ZINCRBY redisson_lock_timeout:@ -5000 u:-1 -> {j:1:1} 30000, [u:-1 390000]
		acquire fair 1 30000 60000 = wait 30000 -> {j:1:1} 30000, [u:-1 60000] // 385000: j:2 left after 5000 of its 300000
		acquire fair 2 30000 60000 = wait 60000 -> {j:1:1} 30000, [u:-1 60000 u:-2 60000] // 60000: only the head watches the lease
		release fair 1 = 0 -> {j:1:1} 30000, [u:-2 60000] ! redisson_lock__channel:@:u:-2 0 // silent: it must watch the lease; and u:2 keeps its deadline
	`},
	{"11 fair: a dead Java head is evicted, and the next waiter is notified", `
		java RPUSH redisson_lock_queue:@ j:1 j:2 j:3 -> free, [j:1 none j:2 none j:3 none]
		java ZADD redisson_lock_timeout:@ now-1000 j:1 now+200000 j:2 -> free, [j:1 0 j:2 200000 j:3 none]
		acquire fair 1 30000 = wait 200000 -> free, [j:2 200000 j:3 none] ! redisson_lock__channel:@:j:2 0 // silent: j:2 waits
		java ZADD redisson_lock_timeout:@ now-1000 j:2 -> free, [j:2 0 j:3 none]
		acquire fair 1 30000 300000 = 0 -> {u:1:1} 30000 // -2: a head without deadline would never die
		java RPUSH redisson_lock_queue:@ j:1 j:2 -> {u:1:1} 30000, [j:1 none j:2 none]
		java ZADD redisson_lock_timeout:@ now-1000 j:1 now+200000 j:2 -> {u:1:1} 30000, [j:1 0 j:2 200000]
		release fair 1 = 1 -> free, [j:2 200000] ! redisson_lock__channel:@:j:2 0
	`},
	{"13 families: a lock of another family refuses", `
		java HSET $ j:1 1; PEXPIRE $ 10000 -> {j:1:1} 10000
		acquire read 1 30000 = wait 10000 // nil, reads together with j:1: any value of the key means that it is held
		acquire write 1 30000 = wait 10000 // nil, writes together with j:1: any value of the key means that it is held
		release read 1 = 0 // nil, latch 1, message 0: it freed nothing
		force read = 0
		force write = 0
		java HSET $ mode read -> {j:1:1 mode:read} 10000
		acquire lock 1 30000 = wait 10000
		acquire fair 1 30000 = wait 10000 // 1: a caller that does not queue may ask again
	`},
	{"rw, fenced: a number with a tombstone is refused", `
		release read 1 120000 = 0 -> free, redisson_unlock_latch:@:u // nil, and publishes: an acquire may be in flight
		acquire read 1 30000 = wait 0 // nil, without an owner: its number has a tombstone
		release write 2 120000 = 0 // nil, and publishes: as above
		acquire write 2 30000 = wait 0 // nil, without an owner: as above
		release fenced 3 120000 = 0 // nil: as above
		acquire fenced 3 30000 = wait 0 // a token, without an owner: as above
	`},
	{"9 rw: a reader freed by force is not renewed while another reads", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		force read = 1 -> free, u:1#1 30000 ! redisson_rwlock:@ 0
		acquire read 2 30000 = 0 -> {mode:read u:2:1} 30000, u:1#1 30000, u:2#1 30000
		renew read 60000 $ u:1 = [0]
	`},
	{"rw: the lease after our readers leave is Java's longest", `
		java HSET $ mode read j:1 2; PEXPIRE $ 40000; SET @:j:1#1 1 PX 20000 -> {j:1:2 mode:read} 40000, j:1#1 20000
		java SET @:j:1#2 1 PX 40000 -> {j:1:2 mode:read} 40000, j:1#1 20000, j:1#2 40000
		acquire write 1 30000 = wait 40000
		acquire read 1 90000 = 0 -> {j:1:2 mode:read u:1:1} 90000, j:1#1 20000, j:1#2 40000, u:1#1 90000
		release read 1 = 1 -> {j:1:2 mode:read} 40000, j:1#1 20000, j:1#2 40000 ! redisson_rwlock:@ 0 // 0, silent: writers sleep for the longer lease
		java DEL @:j:1#2 -> {j:1:2 mode:read} 40000, j:1#1 20000
		acquire read 2 90000 = 0 -> {j:1:2 mode:read u:2:1} 90000, j:1#1 20000, u:2#1 90000
		release read 2 = 1 -> {j:1:2 mode:read} 20000, j:1#1 20000 ! redisson_rwlock:@ 0 // 0, silent: writers sleep for the longer lease
		acquire read 3 90000 = 0 -> {j:1:2 mode:read u:3:1} 90000, j:1#1 20000, u:3#1 90000
		java DEL @:j:1#1 -> {j:1:2 mode:read u:3:1} 90000, u:3#1 90000
		release read 3 = 1 -> free ! redisson_rwlock:@ 0
	`},
	{"rw: Java's writer excludes our readers until it only reads", `
		java HSET $ mode write j:1:write 1; PEXPIRE $ 30000 -> {j:1:write:1 mode:write} 30000
		java HSET $ j:1 1; SET @:j:1#1 1 PX 30000 -> {j:1:1 j:1:write:1 mode:write} 30000, j:1#1 30000
		acquire read 1 60000 = wait 30000
		acquire read 1 60000 0 u:2:write = wait 30000
		acquire write 1 60000 = wait 30000
		java HDEL $ j:1:write; HSET $ mode read -> {j:1:1 mode:read} 30000, j:1#1 30000
		acquire read 1 60000 = 0 -> {j:1:1 mode:read u:1:1} 60000, j:1#1 30000, u:1#1 60000
		java HDEL $ j:1; DEL @:j:1#1 -> {mode:read u:1:1} 60000, u:1#1 60000
		left by Java = wait 60000
	`},
}

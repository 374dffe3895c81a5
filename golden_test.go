package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// vectors are the golden vectors: what Redisson's own scripts were seen to do, and ours beside it. A line is
//
//	call = reply -> state ! message // what Redisson does: why ours does otherwise
//
// Without a state it is as it was; without a message none was published; without a reason both do the same, but for
// what is so everywhere:
//
//   - An acquire answers 0 or a token for nil, and -1 less the hint, here "wait", for the hint.
//   - A release answers 1 and how many were told, here one, or 0, for 1 or nil, and frees whatever the count. The client counts: a re-entry or a partial
//     release is a count, of the entries that are open then. It answers 1, or 0 if the holder is gone.
//   - The write lock announces 0 after 1. Java's waiters do not hear a 1 when they have subscribed and are not asleep yet.
//   - Each acquisition has a number of its own, by which any command may be repeated: there are no latches.
//
// A call is the script, the kind, the holder's number, a time, and ARGV from [6] on, as far as they are needed; or java
// with the commands for what a Java peer does, or time. $ is the name of the lock, @ its hash tag, u: and j: begin the
// fields of our client and of Java's, # is :rwlock_timeout:. A state is all that Redis has of the lock:
//
//	{field:count} lease, holder#entry lease, [waiter deadline], name of any other key but the token's
//
// Times are in ms, in a state and a hint rounded up to tens of seconds: so slow a machine may be. The short leases of
// some vectors are longer here.
//
// Of 12 nothing is here, for it takes a cluster: names and renewals that one would tear apart are not sent, and sharded
// channels are published to where they are (TestCluster). 14 is FasterMultiLock, which is not ported.
var vectors = []struct{ claim, lines string }{
	{"1, 2 lock: an entry is counted once and never costs lease", `
		acquire lock 1 30000 = 0 -> {u:1:1} 30000
		acquire lock 1 10000 = 0 // counts 2: a command that is sent twice is one acquisition
		count lock 1 10000 2 = 1 -> {u:1:2} 30000 // PTTL 10000: an inner call must not cut the outer one short
		acquire lock 2 30000 = wait 30000 // ERR NON_REENTRANT_REACQUIRE if it is: Redis knows no owners, the client does
		count lock 1 10000 1 = 1 -> {u:1:1} 30000 // 0, a latch: a count is absolute and may be repeated
		count lock 1 10000 1 = 1
		count lock 1 10000 2 = 1 -> {u:1:2} 30000
		release lock 1 = 2 -> free ! redisson_lock__channel:@ 0 // 0, counts 1: the client counts
		release lock 1 = 0
		count lock 1 30000 2 = 0 // nil, is held again: what was lost stays lost
	`},
	{"rlock's own: a hand-over gives the lock to the next holder, silently and once", `
		acquire lock 1 60000 = 0 -> {u:1:1} 60000
		count lock 1 60000 2 = 1 -> {u:1:2} 60000
		handOver lock 2 30000 0 u:1 = 0 -> {u:2:1} 30000
		handOver lock 2 30000 0 u:1 = 0
		release lock 1 = 0
		handOver lock 3 30000 0 u:1 = -1
		release lock 4 120000 = 0 -> {u:2:1} 30000, redisson_unlock_latch:@:u
		handOver lock 4 30000 0 u:2 = -2
		release lock 2 = 2 -> free, redisson_unlock_latch:@:u ! redisson_lock__channel:@ 0
		handOver lock 2 30000 0 u:1 = -1
		java HSET $ j:1 2; PEXPIRE $ 10000 -> {j:1:2} 10000, redisson_unlock_latch:@:u
		handOver lock 2 30000 0 u:1 = -1
	`},
	{"rlock's own: a hand-over of a fenced lock raises its token, once", `
		acquire fenced 1 60000 = new token -> {u:1:1} 60000
		handOver fenced 2 30000 0 u:1 = new token -> {u:2:1} 30000
		handOver fenced 2 40000 0 u:1 = same token -> {u:2:1} 40000
		handOver fenced 3 30000 0 u:1 = -1
		release fenced 4 120000 = 0 -> {u:2:1} 40000, redisson_unlock_latch:@:u
		handOver fenced 4 30000 0 u:2 = -2
	`},
	{"rlock's own: a hand-over from writer to writer", `
		acquire write 1 60000 = 0 -> {mode:write u:1:write:1} 60000
		handOver write 2 30000 0 u:1:write = 0 -> {mode:write u:2:write:1} 30000
		handOver write 3 30000 0 u:1:write = -1
		release write 2 = 2 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
	`},
	{"1 lock: an acquire that comes after its release is refused", `
		release lock 1 120000 = 0 -> free, redisson_unlock_latch:@:u // nil: an acquire may be under way
		acquire lock 1 30000 = wait 0 // nil, held by nobody: its number was given up
		acquire lock 2 30000 = 0 -> {u:2:1} 30000, redisson_unlock_latch:@:u
		release lock 2 = 2 -> free, redisson_unlock_latch:@:u ! redisson_lock__channel:@ 0
	`},
	{"1 lock: Java's is respected, but for force", `
		force lock = 0
		java HSET $ j:1 2; PEXPIRE $ 10000 -> {j:1:2} 10000
		acquire lock 1 30000 = wait 10000
		acquire fenced 1 30000 = wait 10000
		count lock 1 30000 2 = 0
		renew lock 60000 $ u:1 = [0]
		release lock 1 = 0
		java PERSIST $ -> {j:1:2} 0
		acquire lock 1 10000 = wait 30000 -> {j:1:2} 30000 // -1: what has no lease nobody could free; it gets Redisson's
		force lock = 1 -> free ! redisson_lock__channel:@ 0
	`},
	{"3 fenced: tokens only ever grow, also past Java's", `
		acquire fenced 1 30000 = new token -> {u:1:1} 30000 // 1: drawn from the clock, it grows through a failover
		acquire fenced 1 10000 = same token // 2: a repeat must not outdate the token that was answered
		count fenced 1 10000 2 = 1 -> {u:1:2} 30000 // 3: the entries of a possession share its token
		acquire fenced 2 30000 = wait 30000
		java PERSIST $ -> {u:1:2} 0
		acquire fenced 2 30000 = wait 30000 -> {u:1:2} 30000 // [-1, -1], as if acquired: it gets a lease, as above
		release fenced 1 = 2 -> free ! redisson_lock__channel:@ 0
		acquire fenced 2 30000 = new token -> {u:2:1} 30000
		release fenced 2 = 2 -> free ! redisson_lock__channel:@ 0
		java SET redisson_lock_token:@ 8000000000000000
		acquire fenced 3 30000 = new token -> {u:3:1} 30000
		acquire fenced 3 30000 = same token
	`},
	{"4 rw: who writes may read, and go on reading", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		count write 1 30000 2 = 1 -> {mode:write u:1:write:2} 30000 // PTTL 60000: a lease is what was asked for
		acquire read 2 30000 = wait 30000 // 60000: the lease is
		acquire write 2 30000 = wait 30000 // 60000: the lease is
		acquire read 1 30000 = wait 30000 // nil, H reads under H:write: each hold has its own number, and names the writer's
		acquire read 3 30000 0 u:2:write = wait 30000
		acquire read 3 30000 0 u:1:write = 0 -> {mode:write u:1:write:2 u:3:1} 30000, u:3#1 30000
		count write 1 30000 1 = 1 -> {mode:write u:1:write:1 u:3:1} 30000, u:3#1 30000
		release write 1 = 2 -> {mode:read u:3:1} 30000, u:3#1 30000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0 // silent: waiting readers may read
		acquire write 1 30000 = wait 30000
		acquire read 2 50000 = 0 -> {mode:read u:2:1 u:3:1} 50000, u:2#1 50000, u:3#1 30000
		release read 2 = 1 -> {mode:read u:3:1} 30000, u:3#1 30000 ! redisson_rwlock:@ 0 // 0, silent: writers sleep for the longer lease
		release read 3 = 1 -> free ! redisson_rwlock:@ 0
	`},
	{"5 rw: who holds nothing frees nothing", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		release write 1 = 2 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		release read 1 = 0 // nil, latch 1, message 0, then 1: nothing became free by it
		release write 1 = 0 // nil, latch 1, message 1, then 1: nothing became free by it
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		release read 2 = 0
		release write 1 = 0
	`},
	{"6 rw: force frees its own side", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		force read = 0
		force write = 1 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		force write = 0
		force read = 1 -> free, u:1#1 30000 ! redisson_rwlock:@ 0
	`},
	{"7 rw: the last live reader buries the dead", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		acquire read 2 30000 = 0 -> {mode:read u:1:1 u:2:1} 30000, u:1#1 30000, u:2#1 30000
		java DEL @:u:1#1 -> {mode:read u:1:1 u:2:1} 30000, u:2#1 30000
		count read 1 30000 2 = 0 // nil, a new key: a hold without its key is lost
		release read 2 = 1 -> free ! redisson_rwlock:@ 0
	`},
	{"8 rw: a reader that leaves takes nothing off the writer's lease", `
		acquire write 1 60000 = 0 -> {mode:write u:1:write:1} 60000
		acquire read 2 10000 0 u:1:write = 0 -> {mode:write u:1:write:1 u:2:1} 60000, u:2#1 10000
		count read 2 10000 2 = 1 -> {mode:write u:1:write:1 u:2:2} 60000, u:2#1 10000 // a second key: one lease for all
		count read 2 10000 1 = 1 -> {mode:write u:1:write:1 u:2:1} 60000, u:2#1 10000 // PTTL 10000: the writer would lose it
		release read 2 = 1 -> {mode:write u:1:write:1} 60000 // 0: it is about the hold, whoever else holds the lock
	`},
	{"8 rw: after a downgrade the lease is the reader's", `
		acquire write 1 10000 = 0 -> {mode:write u:1:write:1} 10000
		acquire read 2 30000 0 u:1:write = 0 -> {mode:write u:1:write:1 u:2:1} 30000, u:2#1 30000
		release write 1 = 2 -> {mode:read u:2:1} 30000, u:2#1 30000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0 // silent: waiting readers may read
		release read 2 = 1 -> free ! redisson_rwlock:@ 0
		acquire write 1 60000 = 0 -> {mode:write u:1:write:1} 60000
		acquire read 2 30000 0 u:1:write = 0 -> {mode:write u:1:write:1 u:2:1} 60000, u:2#1 30000
		release write 1 = 2 -> {mode:read u:2:1} 30000, u:2#1 30000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0 // PTTL 60000: it is not its own
	`},
	{"8 rw: an entry never shortens a read hold, and Java sees its lease", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		acquire read 1 10000 = 0 // counts 2, a second key: a command that is sent twice is one acquisition
		count read 1 10000 2 = 1 -> {mode:read u:1:2} 30000, u:1#1 30000 // a second key, of 10000: one lease for all
		java HSET $ j:1 1; SET @:j:1#1 1 PX 20000 -> {j:1:1 mode:read u:1:2} 30000, j:1#1 20000, u:1#1 30000
		count read 1 50000 3 = 1 -> {j:1:1 mode:read u:1:3} 50000, j:1#1 20000, u:1#1 50000
		left by Java = wait 50000
	`},
	{"9 rw: a renewal is of exact holds, and only lengthens", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		java HSET $ j:1 1; SET @:j:1#1 1 PX 20000 -> {j:1:1 mode:read u:1:1} 30000, j:1#1 20000, u:1#1 30000
		renew read 60000 $ u:1 = [1] -> {j:1:1 mode:read u:1:1} 60000, j:1#1 20000, u:1#1 60000
		renew read 60000 $ u:1 $ u:9 = [1 0] // [1], of the lock: each holder is told of its own loss
		java PEXPIRE $ 90000 -> {j:1:1 mode:read u:1:1} 90000, j:1#1 20000, u:1#1 60000
		renew read 60000 $ u:1 = [1] // PTTL 60000: no lease is ever shortened
		java DEL @:u:1#1 -> {j:1:1 mode:read u:1:1} 90000, j:1#1 20000
		renew read 60000 $ u:1 = [0] // [1]: a hold without its key is lost
	`},
	{"10 renewal: each of a batch is told", `
		acquire write 1 30000 = 0 -> {mode:write u:1:write:1} 30000
		acquire write 1 50000 = 0 -> {mode:write u:1:write:1} 50000 // 80000, counts 2: it was sent twice
		renew write 60000 $ u:1:write $:absent u:1:write $ u:1 = [1 0 0] -> {mode:write u:1:write:1} 60000
		renew write 10000 $ u:1:write = [1] // PTTL 10000: no lease is ever shortened
	`},
	{"11 fair: the head alone is told, and takes its wait off the others", `
		acquire fair 1 30000 300000 = 0 -> {u:1:1} 30000
		acquire fair 2 30000 300000 = wait 30000 -> {u:1:1} 30000, [u:2 330000]
		acquire fair 3 30000 10000 = wait 330000 -> {u:1:1} 30000, [u:2 330000 u:3 340000]
		acquire fair 4 30000 = wait 30000 // 1: who does not queue may want to ask again
		acquire fair 2 30000 300000 = wait 30000
		acquire fair 3 30000 10000 = wait 330000 // 30000: only the head watches the lease
		release fair 1 = 1 -> free, [u:2 330000 u:3 340000] ! redisson_lock__channel:@:u:2 0
		acquire fair 3 30000 10000 = wait 330000 // 0: it would poll hot until the head comes or dies
		acquire fair 4 30000 = wait 330000 // 1: who does not queue may want to ask again
		acquire fair 5 30000 300000 = wait 330000 -> free, [u:2 330000 u:3 340000 u:5 900000] // 640000: two take 300000 each
		acquire fair 2 30000 300000 = 0 -> {u:2:1} 30000, [u:3 40000 u:5 600000] ! redisson_lock__channel:@:u:3 0 // silent: the head has to know
		release fair 3 = 0 -> {u:2:1} 30000, [u:5 300000] ! redisson_lock__channel:@:u:5 0 // silent: as above
		release fair 3 = 0
		java DEL $ -> free, [u:5 300000]
		release fair 77 = 0 ! redisson_lock__channel:@:u:5 0 // 1: nothing became free by it, but the head is told again
		java DEL redisson_lock_timeout:@ -> free, [u:5 none]
		acquire fair 6 30000 300000 = 0 -> {u:6:1} 30000 // -2: a head without deadline would never die
	`},
	{"11 fair: a waiter that asks is alive, and its wait comes off the deadlines of Java's", `
		acquire fair 1 30000 300000 = 0 -> {u:1:1} 30000
		acquire fair 2 30000 300000 = wait 30000 -> {u:1:1} 30000, [u:2 330000]
		acquire fair 3 30000 300000 = wait 330000 -> {u:1:1} 30000, [u:2 330000 u:3 630000]
		renew fair 60000 $ u:1 = [1] -> {u:1:1} 60000, [u:2 330000 u:3 630000]
		acquire fair 2 30000 300000 = wait 60000 -> {u:1:1} 60000, [u:2 360000 u:3 630000] // 330000: it must outlast renewals
		java ZADD redisson_lock_timeout:@ now-1000 u:2 -> {u:1:1} 60000, [u:2 0 u:3 630000]
		acquire fair 2 30000 300000 = wait 60000 -> {u:1:1} 60000, [u:2 360000 u:3 630000] // last: it is slow, but not dead
		java RPUSH redisson_lock_queue:@ j:1 -> {u:1:1} 60000, [u:2 360000 u:3 630000 j:1 none]
		java ZADD redisson_lock_timeout:@ now+930000 j:1 -> {u:1:1} 60000, [u:2 360000 u:3 630000 j:1 930000]
		java PEXPIRE $ 20000 -> {u:1:1} 20000, [u:2 360000 u:3 630000 j:1 930000]
		acquire fair 2 30000 300000 = wait 20000
		release fair 1 = 1 -> free, [u:2 360000 u:3 630000 j:1 930000] ! redisson_lock__channel:@:u:2 0
		release fair 2 = 0 -> free, [u:3 330000 j:1 630000] ! redisson_lock__channel:@:u:3 0 // silent: u:2 was told, u:3 not
		acquire fair 3 30000 300000 = 0 -> {u:3:1} 30000, [j:1 330000] ! redisson_lock__channel:@:j:1 0 // silent: as above
		force fair = 1 -> free, [j:1 330000] ! redisson_lock__channel:@:j:1 0
		force fair = 0
	`},
	{"11 fair: ours queue behind Java's, who take their waits off ours", `
		java HSET $ j:9 2; PEXPIRE $ 30000; RPUSH redisson_lock_queue:@ j:1 j:2 -> {j:9:2} 30000, [j:1 none j:2 none]
		java ZADD redisson_lock_timeout:@ now+330000 j:1 now+630000 j:2 -> {j:9:2} 30000, [j:1 330000 j:2 630000]
		acquire fair 1 30000 300000 = wait 330000 -> {j:9:2} 30000, [j:1 330000 j:2 630000 u:1 930000] // 630000: when the head dies
		java LPOP redisson_lock_queue:@; ZREM redisson_lock_timeout:@ j:1 -> {j:9:2} 30000, [j:2 630000 u:1 930000]
		java ZINCRBY redisson_lock_timeout:@ -300000 j:2 -> {j:9:2} 30000, [j:2 330000 u:1 930000]
		java ZINCRBY redisson_lock_timeout:@ -300000 u:1 -> {j:9:2} 30000, [j:2 330000 u:1 630000]
		java DEL $; HSET $ j:1 1; PEXPIRE $ 30000 -> {j:1:1} 30000, [j:2 330000 u:1 630000]
		acquire fair 2 30000 = wait 30000 // 1: who does not queue may want to ask again
		release fair 1 = 0 -> {j:1:1} 30000, [j:2 330000]
	`},
	{"11 fair: a dead head of Java's is evicted, and the next one told", `
		java RPUSH redisson_lock_queue:@ j:1 j:2 j:3 -> free, [j:1 none j:2 none j:3 none]
		java ZADD redisson_lock_timeout:@ now-1000 j:1 now+200000 j:2 -> free, [j:1 0 j:2 200000 j:3 none]
		acquire fair 1 30000 = wait 200000 -> free, [j:2 200000 j:3 none] ! redisson_lock__channel:@:j:2 0 // silent: it waits
		java ZADD redisson_lock_timeout:@ now-1000 j:2 -> free, [j:2 0 j:3 none]
		acquire fair 1 30000 300000 = 0 -> {u:1:1} 30000 // -2: a head without deadline would never die
		java RPUSH redisson_lock_queue:@ j:1 j:2 -> {u:1:1} 30000, [j:1 none j:2 none]
		java ZADD redisson_lock_timeout:@ now-1000 j:1 now+200000 j:2 -> {u:1:1} 30000, [j:1 0 j:2 200000]
		release fair 1 = 1 -> free, [j:2 200000] ! redisson_lock__channel:@:j:2 0
	`},
	{"13 families: what another one holds is refused", `
		java HSET $ j:1 1; PEXPIRE $ 10000 -> {j:1:1} 10000
		acquire read 1 30000 = wait 10000 // nil, reads beside j:1: whatever has the key, somebody holds it
		acquire write 1 30000 = wait 10000 // nil, writes beside j:1: whatever has the key, somebody holds it
		release read 1 = 0 // nil, latch 1, message 0: nothing became free by it
		force read = 0
		force write = 0
		java HSET $ mode read -> {j:1:1 mode:read} 10000
		acquire lock 1 30000 = wait 10000
		acquire fair 1 30000 = wait 10000 // 1: who does not queue may want to ask again
	`},
	{"rw, fenced: a number that was given up is refused", `
		release read 1 120000 = 0 -> free, redisson_unlock_latch:@:u // nil, and publishes: an acquire may be under way
		acquire read 1 30000 = wait 0 // nil, held by nobody: its number was given up
		release write 2 120000 = 0 // nil, and publishes: as above
		acquire write 2 30000 = wait 0 // nil, held by nobody: as above
		release fenced 3 120000 = 0 // nil: as above
		acquire fenced 3 30000 = wait 0 // a token, held by nobody: as above
	`},
	{"9 rw: a reader freed by force is not renewed beside another", `
		acquire read 1 30000 = 0 -> {mode:read u:1:1} 30000, u:1#1 30000
		force read = 1 -> free, u:1#1 30000 ! redisson_rwlock:@ 0
		acquire read 2 30000 = 0 -> {mode:read u:2:1} 30000, u:1#1 30000, u:2#1 30000
		renew read 60000 $ u:1 = [0]
	`},
	{"rw: what our readers leave lasts as long as Java's longest entry", `
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
	{"rw: Java's writer keeps ours out, and lets them in once it only reads", `
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

// TestGolden plays each vector on a name that needs braces to be a hash tag, and on one that has them.
func TestGolden(t *testing.T) { //nolint:tparallel // the subtests share a server
	t.Parallel()
	for server, start := range servers {
		t.Run(server, func(t *testing.T) {
			rdb := start(t)
			client := newClient(t, rdb) // for its names: it sends nothing
			for _, v := range vectors {
				t.Run(v.claim, func(t *testing.T) {
					bare, braced := newName(), "{"+newName()+"}:braced"
					(&golden{T: t, rdb: rdb, client: client, name: bare, tag: "{" + bare + "}"}).play(v.lines)
					(&golden{T: t, rdb: rdb, client: client, name: braced, tag: braced}).play(v.lines)
				})
			}
		})
	}
}

// golden is a lock on which a vector is played.
type golden struct {
	*testing.T
	rdb       redis.UniversalClient
	client    *rlock.Client
	name, tag string
	token     int64 // the latest
}

func (g *golden) play(lines string) {
	ctx := context.Background()
	sub := g.rdb.PSubscribe(ctx, "*"+g.name+"*")
	defer sub.Close()
	_, err := sub.Receive(ctx)
	require.NoError(g, err)
	before := "free"
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		rest, reason, differs := strings.Cut(strings.TrimSpace(line), " // ")
		require.Equal(g, differs, strings.Contains(reason, ": "), line)
		rest, message, _ := strings.Cut(rest, " ! ")
		rest, state, changes := strings.Cut(rest, " -> ")
		call, reply, _ := strings.Cut(rest, " = ")
		if !changes {
			state = before
		}
		require.Equal(g, reply, g.do(call), line)
		require.Equal(g, state, g.state(), line)
		require.NoError(g, g.rdb.Publish(ctx, g.name, "end").Err())
		var heard []string
		for m := within(g, line, sub.Channel()); m.Payload != "end"; m = within(g, line, sub.Channel()) {
			heard = append(heard, g.short(m.Channel)+" "+m.Payload)
		}
		require.Equal(g, message, strings.Join(heard, ", "), line)
		before = state
	}
}

// do makes a call and returns the reply, as a line writes it.
func (g *golden) do(call string) string {
	script, rest, _ := strings.Cut(call, " ")
	switch script {
	case "java":
		for command := range strings.SplitSeq(rest, "; ") {
			g.command(strings.Fields(command)...)
		}
		return ""
	case "left":
		return fmt.Sprintf("wait %d", tens(g.leftByJava()))
	}
	words := strings.Fields(rest)
	kind, args := words[0], words[1:]
	if script == "renew" {
		return g.renew(kind, args)
	}
	// What a line leaves out: after the number and the ms, ARGV[6] and [7].
	usual := map[string][]string{
		"acquire": {"", "", "-300000", ""}, "release": {"", "0", "300000"}, "force": {"0", "0", "300000"}, "handOver": {"", "", ""},
	}[script]
	args = append(args, usual[min(len(args), len(usual)):]...)
	field := "u:" + args[0]
	if kind == "write" {
		field += ":write"
	}
	lock := kinds[kind].make(g.client, g.name).(*rlock.Lock)
	keys := lock.Keys()
	if kind == "read" {
		keys = slices.Insert(keys, 1, g.long("@:"+field+"#1"))
	}
	source, n := rlock.Script(kind, script)
	switch {
	case script == "acquire", script == "handOver", script == "release" && args[1] != "0":
		keys = append(keys[:n], keys[len(keys)-1])
	default:
		keys = keys[:n]
	}
	argv := []any{g.long(field), args[1], args[0], lock.Channel(), "PUBLISH"}
	for _, arg := range args[2:] {
		argv = append(argv, g.long(arg))
	}
	reply, err := g.rdb.Eval(context.Background(), source, keys, argv...).Int64()
	require.NoError(g, err, call)
	switch {
	case reply < 0 && script == "acquire":
		return fmt.Sprintf("wait %d", tens(-1-reply))
	case reply >= 0 && kind == "fenced" && script != "release" && script != "count":
		return g.issued(reply)
	}
	return strconv.FormatInt(reply, 10)
}

// issued tells what a token is, compared with the latest.
func (g *golden) issued(token int64) string {
	require.EqualValues(g, token, g.command("INCRBY", "redisson_lock_token:@", "0"), "Java would go on from it")
	require.EqualValues(g, -1, g.command("PTTL", "redisson_lock_token:@"), "it outlives the lock")
	last := g.token
	g.token = token
	switch {
	case token > last:
		return "new token"
	case token == last:
		return "same token"
	}
	return "old token"
}

// renew is given the lease, and the lock and the field of each holder.
func (g *golden) renew(kind string, words []string) string {
	keys, args := []string(nil), []any{words[0]}
	for holder := range slices.Chunk(words[1:], 2) {
		keys = append(keys, g.long(holder[0]))
		if kind == "read" {
			keys = append(keys, g.long("@:"+holder[1]+"#1"))
		}
		args = append(args, g.long(holder[1]))
	}
	source, _ := rlock.Script(kind, "renew")
	reply, err := g.rdb.Eval(context.Background(), source, keys, args...).Slice()
	require.NoError(g, err)
	return fmt.Sprint(reply)
}

// command does what is no script. A word that begins with now is Unix time in ms.
func (g *golden) command(words ...string) any {
	args := make([]any, len(words))
	for i, word := range words {
		if ms, ok := strings.CutPrefix(word, "now"); ok {
			n, err := strconv.ParseInt(ms, 10, 64)
			require.NoError(g, err)
			word = strconv.FormatInt(g.now()+n, 10)
		}
		args[i] = g.long(word)
	}
	reply, err := g.rdb.Do(context.Background(), args...).Result()
	require.NoError(g, err, words)
	return reply
}

// leftByJava is the lease that Java gives a lock when one of its own readers leaves: of all entries, by the counts.
func (g *golden) leftByJava() (longest int64) {
	for field, count := range holders(g, g.rdb, g.name) {
		entries, _ := strconv.Atoi(count) // 0: the mode
		for i := range entries {
			key := fmt.Sprintf("%s:%s:rwlock_timeout:%d", g.tag, field, i+1)
			longest = max(longest, g.pttl(key))
		}
	}
	return longest
}

// state returns all that Redis has of the lock, as a line writes it.
func (g *golden) state() string {
	keys, err := g.rdb.Keys(context.Background(), "*"+g.name+"*").Result()
	require.NoError(g, err)
	lock, rest := "free", []string(nil)
	for _, key := range keys {
		switch short := g.short(key); {
		case key == g.name:
			var fields []string
			for field, count := range holders(g, g.rdb, key) {
				fields = append(fields, g.short(field)+":"+count)
			}
			slices.Sort(fields)
			lock = fmt.Sprintf("{%s} %d", strings.Join(fields, " "), tens(g.pttl(key)))
		case strings.Contains(short, "#"):
			rest = append(rest, fmt.Sprintf("%s %d", strings.TrimPrefix(short, "@:"), tens(g.pttl(key))))
		case short == "redisson_lock_queue:@":
			rest = append(rest, g.queue(key))
		case short == "redisson_lock_timeout:@":
			require.Contains(g, keys, g.long("redisson_lock_queue:@"), "only who waits has a deadline")
		case short != "redisson_lock_token:@":
			rest = append(rest, short)
		}
	}
	slices.Sort(rest)
	return strings.Join(slices.Concat([]string{lock}, rest), ", ")
}

func (g *golden) queue(key string) string {
	ctx := context.Background()
	deadlines, dated := g.long("redisson_lock_timeout:@"), int64(0)
	waiters := g.rdb.LRange(ctx, key, 0, -1).Val()
	for i, waiter := range waiters {
		deadline, err := g.rdb.ZScore(ctx, deadlines, waiter).Result()
		waiters[i] = g.short(waiter) + " none"
		if err == nil {
			waiters[i] = fmt.Sprintf("%s %d", g.short(waiter), tens(int64(deadline)-g.now()))
			dated++
		}
	}
	require.Equal(g, dated, g.rdb.ZCard(ctx, deadlines).Val(), "only who waits has a deadline")
	return fmt.Sprint(waiters)
}

func (g *golden) now() int64 { return g.rdb.Time(context.Background()).Val().UnixMilli() }

func (g *golden) pttl(key string) int64 {
	return g.rdb.PTTL(context.Background(), key).Val().Milliseconds()
}

// tens rounds what is left of a time up to tens of seconds; one that is over, or has no end, is 0.
func tens(ms int64) int64 { return max(ms+9999, 0) / 10000 * 10000 }

// long spells out what a line writes short, short is the reverse.
func (g *golden) long(s string) string {
	return strings.NewReplacer("$", g.name, "@", g.tag, "u:", g.client.ID()+":", "j:", other[:37],
		"#", ":rwlock_timeout:").Replace(s)
}

func (g *golden) short(s string) string {
	return strings.NewReplacer(g.tag, "@", g.client.ID(), "u", other[:36], "j", ":rwlock_timeout:", "#").Replace(s)
}

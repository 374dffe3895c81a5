package lua

// These tables have what rlock writes into Redis beside Redisson's data, and what it says on channels. The sources of the scripts use
// the names, and go generate puts the values into their places. docs/line.md says what happens with them.

// The line of a lock or a semaphore is a sorted set, in which waiters stand by the time of their arrival. Marks stand behind all of them.
const (
	// WaitersEnd is above the score of each waiter, which is when it came, in µs of Redis.
	WaitersEnd = 3e15

	// ReadersMark is the mark of readers who wait for a writer, and prefer writers. Its score is ReadersScore plus the time in ms at which one
	// of them was refused last. It stands before the other marks, so that a script sees at once whether it is there.
	ReadersMark  = "#r"
	ReadersScore = 3.5e15

	// OfferMark is the mark of an offer to those who know of no line. Its score is OfferScore plus the time of the offer in µs.
	OfferMark  = "#o"
	OfferScore = 4e15

	// WatchMark is the mark of a process that was asked to watch. Its score is WatchScore plus the time of that in ms.
	WatchMark  = "#w"
	WatchScore = 6e15

	// TurnsMark is the mark that counts the turns. Its score is TurnsScore plus how many there were since an offer.
	TurnsMark  = "#n"
	TurnsScore = 7e15

	// WaiterMark begins the mark of a waiter, before its member. The score says what is known of that waiter, and since when.
	WaiterMark = "!"
	// AwaitedScore plus the time in ms: the waiter was told to ask, or a message about a lock did not reach it.
	AwaitedScore = 8e15
)

const (
	// Watching is how many of the first in a line watch the lease of the holder.
	Watching = 4
)

// Times in ms. They are equal by chance: each may change alone.
const (
	// FirstTerm is the lease with which a release gives a lock to a waiter, unless the waiter wants a shorter one.
	FirstTerm = 3000
	// ToldFor is how long a waiter keeps its place that was told to ask, or that no message reached.
	ToldFor = 3000
)

// A message begins with a number. None begins with 2, 3 or 4. Semaphores announce on Redisson's channel how many permits are free.
const (
	// MessageFree says to Redisson, and to all who wait as Redisson does, that a lock is free.
	MessageFree = "0"
	// MessageWriterLeft comes before MessageFree if a writer has left a read-write lock, became a reader, or has a ticket.
	MessageWriterLeft = "1"
	// LatchOpened says that a latch was counted down to zero.
	LatchOpened = "0"
	// LatchChanged says that a latch got a count, or was deleted.
	LatchChanged = "1"
	// MessageOwn says on the twin of Redisson's channel that the next message there was sent by rlock.
	MessageOwn = "5"
	// MessageGranted gives the lock to a waiter: its number, µs of Redis, the ms of its lease, and its token or 0 follow.
	MessageGranted = "6"
	// MessageWatch asks a process to watch Redisson's channel.
	MessageWatch = "7"
	// MessageAsk tells a waiter that it may have the lock, or permits, and must ask.
	MessageAsk = "8"
	// MessageLease tells the next waiter when the lease of somebody else ends: the waiter's number and the ms follow.
	MessageLease = "9"
)

// The deadline of a fair waiter, in ms, has a fraction that says that the waiter is of rlock, and what is known of it: an odd number of
// parts, so that no time of Redisson's is like it.
const (
	// DeadlineParts is how many parts a ms has.
	DeadlineParts = 2048
	// NameParts is how many odd numbers of parts there are for the names of waiters in one state.
	NameParts = 341
	// StateParts is by how many parts the fractions of two states differ.
	StateParts = 682

	// StateAsked means that the waiter has asked.
	StateAsked = 0
	// StateUnreached means that a message did not reach the waiter since.
	StateUnreached = 1
	// StateTold means that a message reached the waiter, which has not come yet.
	StateTold = 2
)

// Fields and values of hashes, and what ends fields and members.
const (
	// ModeField is the field of a read-write lock that says how it is held.
	ModeField = "mode"
	// ReadMode means that readers hold it.
	ReadMode = "read"
	// WriteMode means that a writer holds it, which may have read holds, too.
	WriteMode = "write"
	// MostFields is how many fields of a hash a script looks at, to tell whether it is a lock.
	MostFields = 1000
	// WriteSuffix ends the field of a writer.
	WriteSuffix = ":write"
	// TokenSuffix ends the member, or the entry of the seat, of a waiter that needs a token.
	TokenSuffix = "|t"
	// SeatInfix stands in the name of a seat, between the client's id and a small number. No waiter of Redisson has it.
	SeatInfix = ":-"
	// Never is the ms at which a permit without a lease ends.
	Never = "922337203685477"
)

// What begins keys and channels of Redisson's, before a colon and the name, and what ends those of rlock.
const (
	// LatchKey begins Redisson's keys for unlocks that are under way, which rlock uses for its tombstones and its line.
	LatchKey = "redisson_unlock_latch"
	// LockChannel begins Redisson's channel of a lock.
	LockChannel = "redisson_lock__channel"
	// RWChannel begins Redisson's channel of a read-write lock.
	RWChannel = "redisson_rwlock"
	// SemaphoreChannel begins Redisson's channel of a semaphore.
	SemaphoreChannel = "redisson_sc"
	// HoldSuffix ends the key of a read hold, before a number.
	HoldSuffix = ":rwlock_timeout:"
	// WaitersSuffix ends the key of the line, and of the seats of a fair lock.
	WaitersSuffix = ":waiters"
	// TwinName ends the twin of Redisson's channel.
	TwinName = "rlock-twin"
	// BracedEnding ends what is rlock's of a name in braces, {x}, because Redisson's keys of x and {x} are the same.
	BracedEnding = "{}"
)

// What a refused waiter is told, as a sum.
const (
	// BitWatch asks the process to watch Redisson's channel.
	BitWatch = 1
	// BitUnheard says that nobody listens to the channel of the waiter here.
	BitUnheard = 2
	// BitHeard says that somebody does.
	BitHeard = 4
	// BitMissed says that the waiter asked again, and was not in the queue any more.
	BitMissed = 16
)

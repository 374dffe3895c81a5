-- Returns whether there is a writer, how long the lease of the lock still runs, and whether one given holder writes.
--
-- KEYS[1] lock    hash: mode -> read or write, holder -> count
-- ARGV[1] holder
-- returns {PTTL of the lock, 1 if it is held or else 0, 1 if that holder holds it or else 0}
-- keeps rules 2, B.10
-- for write, fenced write

local locked = redis.call('HGET', KEYS[1], ModeField) == WriteMode
return {redis.call('PTTL', KEYS[1]), locked and 1 or 0, redis.call('HEXISTS', KEYS[1], ARGV[1])}

-- Returns whether the lock is held, how long its lease still runs, and whether one given holder holds it.
--
-- KEYS[1] lock    hash: holder -> count
-- ARGV[1] holder
-- returns {PTTL of the lock, 1 if it is held or else 0, 1 if that holder holds it or else 0}
-- keeps rules 2, B.10
-- for lock, fenced, spin, fair, fenced fair

local ttl = redis.call('PTTL', KEYS[1])
return {ttl, ttl == -2 and 0 or 1, redis.call('HEXISTS', KEYS[1], ARGV[1])}

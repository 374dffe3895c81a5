-- Ends a read hold, whatever count it shows. What is left of the lock lasts as long as the longest hold that is left; if
-- there is none the lock is free. Either is announced.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] hold       a string that lives as long as this hold
-- KEYS[3] abandoned  hash: number -> Unix ms; only if there is something to remember
-- ARGV[1] holder
-- ARGV[2] memory     ms to remember the number as abandoned; 0 when every command of it was answered
-- ARGV[3] number     of the holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, SPUBLISH where the cluster's pub/sub is sharded, or BOTH
-- returns 1 when ended, 0 when not held

local own, ttl = redis.call('PTTL', KEYS[2]), redis.call('PTTL', KEYS[1])
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- refused if the key has become something else
redis.call('DEL', KEYS[2])
abandon(KEYS[3], ARGV[3], ARGV[2])
-- The lease of a writer is its own; and a hold that was not the longest did not say how long the lock lasts. (The two
-- are set one after the other, so the clock may have moved in between.)
if freed == 1 and redis.call('HGET', KEYS[1], 'mode') ~= 'write'
  and (own + 100 >= ttl or redis.call('HLEN', KEYS[1]) == 1) then
  local left = longest(KEYS[1])
  if left > 0 then
    redis.call('PEXPIRE', KEYS[1], left)
    if left + 100 < ttl then
      announce(ARGV[5], ARGV[4], '0') -- who waits to write was told of a longer lease, and sleeps for that
    end
  else
    redis.call('DEL', KEYS[1])
    announce(ARGV[5], ARGV[4], '0')
  end
end
return freed

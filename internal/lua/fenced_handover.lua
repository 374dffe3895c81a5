-- Gives the lock, instead of freeing it, from one holder to another, with a token greater than any before; asked again after
-- that, it answers the same.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] token      the latest one given out
-- KEYS[3] abandoned  hash: number -> Unix ms
-- ARGV[1] next       the holder that gets it
-- ARGV[2] lease      ms, of the next one
-- ARGV[3] number     of the next one
-- ARGV[7] last       the holder that gives it up
-- returns the token when given; -1 when the last one does not hold it; -2 when the next one gave up

local last = redis.call('GET', KEYS[2])
if last and not tonumber(last) then
  return redis.error_reply('ERR the fencing token is not an integer')
end
local kept = hand(KEYS[1], KEYS[3], ARGV[7], ARGV[1], ARGV[3], ARGV[2])
if kept and kept < 0 then
  return kept
end
return kept and tonumber(last) or raise(KEYS[2])

-- Frees the lock, whatever count it shows, or leaves the queue for it; whoever comes first in the queue now is told.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of holders to be, the next one first
-- KEYS[3] deadlines  zset: holder to be -> Unix ms when he counts as dead
-- KEYS[4] abandoned  hash: number -> Unix ms; only if there is something to remember
-- ARGV[1] holder
-- ARGV[2] memory     ms to remember the number as abandoned; 0 when every command of it was answered
-- ARGV[3] number     of the holder
-- ARGV[4] channel    without the holder to be
-- ARGV[5] publish    PUBLISH, SPUBLISH where the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] wait       ms that a waiter may go without asking
-- returns 1 when freed, 0 when not held

local now = milliseconds()
local wait = tonumber(ARGV[6])
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- refused if the key has become something else
local position
if freed ~= 1 then
  position = redis.call('LPOS', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  if position then
    redis.call('LREM', KEYS[2], 0, ARGV[1])
    hasten(KEYS[3], redis.call('LRANGE', KEYS[2], position, -1), wait)
  end
end
abandon(KEYS[4], ARGV[3], ARGV[2])
local head, evicted = evict(KEYS[2], KEYS[3], now, wait)
-- In a slot on the move a cluster does not say whether a key is gone.
if head and (evicted or position == 0 or redis.pcall('EXISTS', KEYS[1]) ~= 1) then
  wake(ARGV[5], ARGV[4], head)
end
return freed

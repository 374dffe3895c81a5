-- Frees the lock, whatever count it shows, or leaves the queue for it; whoever is next is told if the lock is free.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of holders to be, the next one first
-- KEYS[3] deadlines  zset: holder to be -> Unix ms when he counts as dead
-- KEYS[4] abandoned  hash: number -> 1; only if there is something to remember
-- ARGV[1] holder
-- ARGV[2] memory     ms to remember the number as abandoned; 0 when every command of it was answered
-- ARGV[3] number     of the holder
-- ARGV[4] channel    without the holder to be
-- ARGV[5] wait       ms that the waiter had, if it is one
-- returns 1 when freed, 0 when not held

local now = milliseconds()
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- refused if the key has become something else
if freed ~= 1 then
  local position = redis.call('LPOS', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  if position then
    redis.call('LREM', KEYS[2], 0, ARGV[1])
    hasten(KEYS[3], redis.call('LRANGE', KEYS[2], position, -1), tonumber(ARGV[5]))
  end
end
if tonumber(ARGV[2]) > 0 then
  redis.call('HSET', KEYS[4], ARGV[3], 1)
  extend(KEYS[4], ARGV[2])
end
local head = evict(KEYS[2], KEYS[3], now)
if head and redis.call('EXISTS', KEYS[1]) == 0 then
  wake(ARGV[4], head)
end
return freed
